"""`toolhall secret` and `toolhall account` at a hall that runs, with an authorization server that is not ours."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.cli.test_accounts import SECRET, SETTINGS, visited
from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.servers.authority import Authority, Client, authority

VALUE = "tw-9f8a7b6c5d4e3f2a1b0c"


@pytest.fixture
def acme(cli: CliRunner) -> Iterator[Authority]:
    """Authlib's server; the hall is registered there with an address that its public URL names."""
    with authority() as server:
        server.clients["hall"] = Client("hall", SECRET, "https://hall.example/oauth/callback", "client_secret_basic")
        text = SETTINGS.format(host=urlsplit(server.issuer).netloc, issuer=server.issuer, secret=SECRET)
        (cli.folder / "toolhall.toml").write_text(f'public_url = "https://hall.example"\n{text}')
        yield server


@pytest.fixture
def at(cli: CliRunner, acme: Authority) -> Iterator[list[str]]:
    """The words that name a hall that serves others; its admin's key is in the environment."""
    cli.environment["TOOLHALL_VAULT_KEY"] = cli.run("secret", "key").out.strip()
    admin = cli.run("key", "create", "boss", "--scopes", "admin,tools:*").out.strip()
    with cli.serve("--profile", "server") as server:
        cli.environment["TOOLHALL_KEY"] = admin
        yield ["--url", server.url]


def connected(cli: CliRunner, at: list[str]) -> str:
    with cli.start("account", "connect", "acme", "--paste", "--scopes", "mail.read", *at) as process:
        out, err = process.communicate(f"{visited(read_line(process).strip())}\n".encode(), timeout=patience())
    assert process.returncode == 0, err
    return out.decode()


def test_secrets_at_a_url_are_managed_by_admins_and_shown_to_nobody(cli: CliRunner, at: list[str]) -> None:
    assert cli.run("secret", "set", "KEY", *at, text=VALUE).out == "KEY is kept\n"
    told = cli.run("secret", "set", "KEY", "--user", "al ice/x", "--json", *at, text=VALUE).json()
    assert (told["name"], told["user"]) == ("KEY", "al ice/x")
    listed = cli.run("secret", "list", "--json", *at)
    assert [each["user"] for each in listed.json()] == [None, "al ice/x"]
    assert VALUE not in listed.out
    assert cli.run("secret", "rotate", *at).out == "2 secrets sealed anew\n"
    assert cli.run("secret", "remove", "KEY", *at).code == 0
    assert "there is no such secret" in cli.run("secret", "remove", "KEY", *at).error_line()
    plain = cli.run("key", "create", "ci", *at).out.strip()
    cli.environment["TOOLHALL_KEY"] = plain
    assert [cli.run("secret", *words, *at, text=VALUE).code for words in (["list"], ["set", "KEY"])] == [1, 1]


def test_accounts_at_a_url_are_connected_by_each_user(cli: CliRunner, acme: Authority, at: list[str]) -> None:
    plain = cli.run("key", "create", "ci", *at).out.strip()
    assert connected(cli, at) == "acme is connected with mail.read profile\n"
    admin, cli.environment["TOOLHALL_KEY"] = cli.environment["TOOLHALL_KEY"], plain
    assert cli.run("account", "list", "--json", *at).json() == []
    assert "acme" in [each["name"] for each in cli.run("account", "providers", "--json", *at).json()]
    connected(cli, at)
    (own,) = cli.run("account", "list", "--json", *at).json()
    assert own["user"] == "ci"
    cli.environment["TOOLHALL_KEY"] = admin
    assert [each["user"] for each in cli.run("account", "list", "--json", *at).json()] == ["boss", "ci"]
    done = cli.run("account", "disconnect", own["id"], "--yes", *at)
    assert (done.out, done.err) == ("acme of ci is disconnected\n", "")
    assert [each.revoked for each in acme.issued] == [False, True]


def test_account_connect_at_a_url_names_a_page_and_waits(cli: CliRunner, at: list[str]) -> None:
    with cli.start("account", "connect", "acme", *at) as process:
        assert read_line(process).startswith("https://hall.example/connect/")
        assert process.poll() is None
