"""The page about secrets and accounts is a story, and every command on it works against the example toolkit."""

import re
from pathlib import Path
from textwrap import dedent

from tests.harness.browser import Browser
from tests.harness.cli import CliResult, CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from toolhall.config import load_config
from toolhall.oauth.providers import PRESETS, build_provider

PAGE = (Path(__file__).parents[2] / "docs/how-to/secrets-and-accounts.md").read_text()
COMMANDS = re.findall(r"^toolhall (.*)$", PAGE.replace("\ntoolhall: ", "\n"), re.MULTILINE)
OUTPUTS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
SETTINGS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
KEY = "SK" + "0123456789abcdef" * 2


class Reader:
    """Types what the page says, at this hall."""

    def __init__(self, cli: CliRunner, url: str) -> None:
        self._cli = cli
        self._url = url

    def words(self, command: str, some_id: str = "") -> list[str]:
        return [some_id if word == "ID" else self._url if word.startswith("http") else word for word in command.split()]

    def types(self, command: str, some_id: str = "", text: str = "") -> CliResult:
        return self._cli.run(*self.words(command, some_id), text=text)

    def said(self, output: str) -> str:
        """An output of the page, as a pattern."""
        here = output.replace("http://localhost:8000", self._url.replace("127.0.0.1", "localhost"))
        return re.escape(here).replace("/ID,", r"/[\w-]+,")


def test_secrets_page_commands_set_use_list_and_remove(tmp_path: Path) -> None:
    serve, refused, put, send, listing, remove, *_ = COMMANDS
    cli = CliRunner(tmp_path)
    with cli.serve(*serve.split()[1:]) as server:
        reader = Reader(cli, server.url)
        first = reader.types(refused)
        assert re.search(reader.said(OUTPUTS[0]), first.err), first
        assert reader.types(put, text=f"{KEY}\n").code == 0
        assert '"status": "queued"' in reader.types(send).out
        assert "TWILIO_API_KEY" in reader.types(listing).out
        assert reader.types(remove).code == 0
        assert reader.types(send).code == 1


def test_accounts_page_commands_connect_use_list_and_disconnect(tmp_path: Path) -> None:
    read, providers, connect, again, listing, disconnect = COMMANDS[6:12]
    cli = CliRunner(tmp_path)
    with cli.serve() as server:
        reader = Reader(cli, server.url)
        first = reader.types(read)
        assert re.search(reader.said(OUTPUTS[1]), first.err), first
        assert "google" in reader.types(providers).out
        with cli.start(*reader.words(connect)) as connecting:
            Browser().connect(read_line(connecting).strip())
            assert connecting.wait(patience()) == 0
        assert "Your book is due" in reader.types(again).out
        (account,) = reader.types(f"{listing} --json").json()
        assert reader.types(disconnect, account["id"]).code == 0
        assert reader.types(read).code == 1


def test_secrets_page_commands_rotate_the_vault_key(tmp_path: Path) -> None:
    key, rotate = COMMANDS[12:]
    cli = CliRunner(tmp_path)
    assert re.fullmatch(r"[A-Za-z0-9+/]{43}=\n", cli.run(*key.split()).out)
    assert cli.run("secret", "set", "TWILIO_API_KEY", text=KEY).code == 0
    before = (cli.data / "vault.key").read_bytes()
    assert cli.run(*rotate.split()).out == "1 secret sealed anew\n"
    assert (cli.data / "vault.key").read_bytes() != before


def test_secrets_page_settings_and_presets_exist(tmp_path: Path) -> None:
    settings = "\n".join(map(dedent, SETTINGS))
    file = tmp_path / "toolhall.toml"
    for name in ("google", "corp", "notes"):
        (tmp_path / f"{name}.secret").write_text("secret of the hall")
        settings = settings.replace(f"{name}.secret", str(tmp_path / f"{name}.secret"))
    file.write_text(settings)
    config = load_config(file, {})
    found = {name: build_provider(name, each) for name, each in config.providers.items()}
    assert {name: each.issuer for name, each in found.items()} == {
        "google": "https://accounts.google.com",
        "corp": "https://login.example.com",
        "notes": "https://login.example.com",
    }
    assert config.upstreams["notes"].auth == "oauth"
    assert [name for name in PRESETS if name != "generic" and f"`{name}`" not in PAGE] == []
