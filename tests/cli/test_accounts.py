"""`toolhall account` on a data folder, with an authorization server that is not ours."""

import re
import socket
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.harness.cli import CliRunner
from tests.harness.http_client import request_url
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.servers import authority as servers
from tests.servers.authority import Authority, Client, authority

SECRET = "client-secret-of-the-hall"
REDIRECT = "http://localhost:8000/oauth/callback"
SETTINGS = """
egress_allow = ["{host}"]

[providers.acme]
issuer = "{issuer}"
client_id = "hall"
client_secret = "{secret}"
scopes = ["profile"]
"""


@pytest.fixture
def acme(cli: CliRunner) -> Iterator[Authority]:
    """Authlib's server, at which the hall is registered."""
    with authority() as server:
        server.clients["hall"] = Client("hall", SECRET, REDIRECT, "client_secret_basic")
        host = urlsplit(server.issuer).netloc
        text = SETTINGS.format(host=host, issuer=server.issuer, secret=SECRET)
        (cli.folder / "toolhall.toml").write_text(text)
        yield server


def visited(url: str) -> str:
    """The address that a browser is sent to after its person agreed; nothing answers there."""
    return request_url(url).headers.get("location", "")


def connect(cli: CliRunner, *words: str, code: int = 0) -> tuple[str, str]:
    """Connect by pasting, without a terminal; the output, and the error output."""
    with cli.start("account", "connect", "acme", "--paste", *words) as process:
        back = visited(read_line(process).strip())
        out, err = process.communicate(f"{back}\n".encode(), timeout=patience())
        assert process.returncode == code, err
    return out.decode(), err.decode()


def test_account_connected_by_pasting_is_listed_and_disconnected(cli: CliRunner, acme: Authority) -> None:
    out, err = connect(cli, "--scopes", "mail.read mail.send")
    assert out == "acme is connected with mail.read mail.send profile\n"
    assert "copy it whole" in err
    (listed,) = cli.run("account", "list", "--json").json()
    assert (listed["user"], listed["provider"], listed["state"]) == ("local", "acme", "connected")
    assert listed["scopes"] == ["mail.read", "mail.send", "profile"]
    assert cli.run("account", "list", "--user", "bob", "--json").json() == []
    shown = cli.run("account", "list").out.splitlines()
    assert (len(shown), listed["id"] in shown[1]) == (2, True)
    gone = cli.run("account", "disconnect", listed["id"], "--yes")
    assert (gone.code, gone.out, gone.err) == (0, "acme of local is disconnected\n", "")
    assert [each.revoked for each in acme.issued] == [True]
    assert cli.run("account", "list", "--json").json() == []


def test_account_tokens_after_connecting_are_not_shown_or_stored_in_clear(cli: CliRunner, acme: Authority) -> None:
    out, err = connect(cli)
    listed = cli.run("account", "list", "--json").out + cli.run("account", "list").out
    kept = b"".join(file.read_bytes() for file in cli.data.rglob("*") if file.is_file())
    (issued,) = acme.issued
    for token in (issued.access, issued.refresh or "", SECRET):
        assert token not in out + err + listed
        assert token.encode() not in kept
    assert b"connect acme" in kept, "that it happened is in the audit"


def test_account_connect_at_terminal_asks_for_the_address(cli: CliRunner, acme: Authority) -> None:
    with cli.terminal("account", "connect", "acme", "--paste") as terminal:
        (url,) = re.findall(r"https?://\S+", terminal.expect("Address: "))
        terminal.type(visited(url))
        terminal.expect("acme is connected")
        assert terminal.end()[0] == 0


@pytest.mark.parametrize("way", ["--device", "--no-browser"])
def test_account_connect_with_device_code_entered_elsewhere_connects(
    cli: CliRunner, acme: Authority, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(servers.Devices, "INTERVAL", 1)
    with cli.start("account", "connect", "acme", way) as process:
        assert read_line(process).strip() == f"{acme.issuer}/device"
        acme.entered[read_line(process).strip()] = True
        out, err = process.communicate(timeout=patience())
    assert (process.returncode, out) == (0, b"acme is connected with profile\n"), err


def test_account_connect_with_refused_device_code_connects_nothing(
    cli: CliRunner, acme: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers.Devices, "INTERVAL", 1)
    with cli.start("account", "connect", "acme", "--device", "--json") as process:
        assert process.stderr is not None
        process.stderr.readline()
        acme.entered[process.stderr.readline().decode().strip()] = False
        out, err = process.communicate(timeout=patience())
    assert (process.returncode, out) == (1, b"")
    assert b"nothing was connected" in err
    assert cli.run("account", "list", "--json").json() == []


def test_account_connect_without_device_codes_falls_back_to_pasting(
    cli: CliRunner, acme: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {name: value for name, value in acme.metadata().items() if name != "device_authorization_endpoint"}
    monkeypatch.setattr(acme, "metadata", lambda: without)
    assert "no codes for devices" in cli.run("account", "connect", "acme", "--device").error_line()
    with cli.start("account", "connect", "acme", "--no-browser") as process:
        out, _ = process.communicate(f"{visited(read_line(process).strip())}\n".encode(), timeout=patience())
    assert (process.returncode, out) == (0, b"acme is connected with profile\n")


def test_account_connect_denied_by_user_connects_nothing(cli: CliRunner, acme: Authority) -> None:
    acme.agrees = False
    out, err = connect(cli, code=1)
    assert (out, "denied" in err) == ("", True), err
    assert cli.run("account", "list", "--json").json() == []


def test_account_connect_with_state_of_another_attempt_connects_nothing(cli: CliRunner, acme: Authority) -> None:
    with cli.start("account", "connect", "acme", "--paste") as process:
        back = visited(read_line(process).strip())
        state = parse_qs(urlsplit(back).query)["state"][0]
        forged = back.replace(state, f"other{state}")
        out, err = process.communicate(f"{forged}\n".encode(), timeout=patience())
    assert (process.returncode, out, b"another attempt" in err) == (1, b"", True)
    assert acme.issued == []


def test_account_disconnect_without_revocation_still_removes_the_account(cli: CliRunner, acme: Authority) -> None:
    connect(cli)
    (listed,) = cli.run("account", "list", "--json").json()
    (cli.folder / "toolhall.toml").write_text("")
    gone = cli.run("account", "disconnect", listed["id"], "--yes")
    assert (gone.code, gone.out) == (0, "acme of local is disconnected\n")
    assert "revoke them there" in gone.err
    assert cli.run("account", "list", "--json").json() == []


def test_account_disconnect_all_of_a_user_removes_every_account(cli: CliRunner, acme: Authority) -> None:
    connect(cli)
    for wrong in ([], ["--all"], ["--user", "local"], ["x", "--user", "local", "--all"]):
        assert "--user USER --all" in cli.run("account", "disconnect", *wrong, "--yes").error_line()
    assert "no such account" in cli.run("account", "disconnect", "--user", "bob", "--all", "--yes").error_line()
    gone = cli.run("account", "disconnect", "--user", "local", "--all", "--yes")
    assert (gone.code, gone.out, gone.err) == (0, "acme of local is disconnected\n", "")
    assert [each.revoked for each in acme.issued] == [True]
    assert cli.run("account", "list", "--json").json() == []


def test_account_disconnect_without_yes_asks_first(cli: CliRunner, acme: Authority) -> None:
    connect(cli)
    (listed,) = cli.run("account", "list", "--json").json()
    assert "--yes" in cli.run("account", "disconnect", listed["id"]).error_line()
    with cli.terminal("account", "disconnect", listed["id"]) as terminal:
        terminal.expect("Disconnect acme of local?")
        terminal.type("n")
        assert terminal.end()[0] == 1
    assert cli.run("account", "list", "--json").json() == [listed]


def test_account_providers_listed_hide_the_client_secret(cli: CliRunner, acme: Authority) -> None:
    cli.run("key", "create", "ci")
    listed = cli.run("account", "providers", "--json")
    told = {
        "name": "acme",
        "displayName": "acme",
        "issuer": acme.issuer,
        "scopes": ["profile"],
        "redirect_uri": REDIRECT,
    }
    assert listed.json() == [told]
    shown = cli.run("account", "providers").out
    assert (acme.issuer in shown, REDIRECT in shown, SECRET in shown + listed.out) == (True, True, False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["connect", "acme"], 2, "start 'toolhall serve' and give --url"),
        (["connect", "acme", "--device", "--paste"], 2, "give one of"),
        (["connect", "nope", "--paste"], 1, "there is no provider 'nope' (known are acme)"),
        (["connect", "nope", "--no-browser"], 1, "there is no provider 'nope'"),
        (["connect", "acme", "--paste"], 1, "there was no address"),
        (["disconnect", "nothing", "--yes"], 1, "there is no such account"),
        (["list", "--data", "nowhere"], 1, "there is no hall in nowhere"),
        (["list", "--key", "tk_x"], 2, "name it with --url"),
        (["list", "--url", "http://127.0.0.1:1", "--data", "x"], 2, "not both"),
        (["list", "--url", "http://127.0.0.1:1"], 1, "start it with 'toolhall serve'"),
    ],
)
def test_account_command_with_wrong_words_says_why_with_its_exit_code(
    cli: CliRunner, acme: Authority, words: list[str], code: int, said: str
) -> None:
    done = cli.run("account", *words)
    assert (done.code, said in done.err) == (code, True), done


def test_account_connect_in_server_profile_makes_no_vault_key(cli: CliRunner, acme: Authority) -> None:
    cli.environment["TOOLHALL_PROFILE"] = "server"
    assert "TOOLHALL_VAULT_KEY" in cli.run("account", "connect", "acme", "--paste").error_line()
    assert not (cli.data / "vault.key").exists()


def test_account_connect_to_a_url_that_is_no_page_opens_no_browser(cli: CliRunner) -> None:
    """A hall that lies: whoever reads its answer is not led anywhere."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with cli.start("account", "connect", "acme", "--url", url) as process:
            server.settimeout(patience())
            asked, _ = server.accept()
            with asked:
                asked.recv(65_536)
                body = b'{"id": "x", "url": "javascript:alert(1)", "device": null, "authorize_url": null}'
                head = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                asked.sendall(head % len(body) + body)
            out, err = process.communicate(timeout=patience())
    assert (process.returncode, out) == (1, b"")
    assert (b"no browser should open" in err, b"javascript" in err) == (True, False)
