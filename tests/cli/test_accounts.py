"""`toolhall account` on a data folder, with an authorization server that is not ours."""

import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.shell import Shell, read_line
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
def acme(shell: Shell) -> Iterator[Authority]:
    """Authlib's server, at which the hall is registered."""
    with authority() as server:
        server.clients["hall"] = Client("hall", SECRET, REDIRECT, "client_secret_basic")
        host = urlsplit(server.issuer).netloc
        text = SETTINGS.format(host=host, issuer=server.issuer, secret=SECRET)
        (shell.folder / "toolhall.toml").write_text(text)
        yield server


def visited(url: str) -> str:
    """The address that a browser is sent to after its person agreed; nothing answers there."""
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=30)) as browser:
        browser.request("GET", f"{parts.path}?{parts.query}")
        return browser.getresponse().getheader("location") or ""


def connect(shell: Shell, *words: str, code: int = 0) -> tuple[str, str]:
    """Connect by pasting, without a terminal; the output, and the error output."""
    with shell.started("account", "connect", "acme", "--paste", *words) as process:
        back = visited(read_line(process).strip())
        out, err = process.communicate(f"{back}\n".encode(), timeout=30)
        assert process.returncode == code, err
    return out.decode(), err.decode()


def test_an_account_is_connected_by_pasting_listed_and_disconnected(shell: Shell, acme: Authority) -> None:
    out, err = connect(shell, "--scopes", "mail.read mail.send")
    assert out == "acme is connected with mail.read mail.send profile\n"
    assert "copy it whole" in err
    (listed,) = shell.run("account", "list", "--json").json()
    assert (listed["user"], listed["provider"], listed["state"]) == ("local", "acme", "connected")
    assert listed["scopes"] == ["mail.read", "mail.send", "profile"]
    assert shell.run("account", "list", "--user", "bob", "--json").json() == []
    shown = shell.run("account", "list").out.splitlines()
    assert (len(shown), listed["id"] in shown[1]) == (2, True)
    gone = shell.run("account", "disconnect", listed["id"], "--yes")
    assert (gone.code, gone.out, gone.err) == (0, "acme of local is disconnected\n", "")
    assert [each.revoked for each in acme.issued] == [True]
    assert shell.run("account", "list", "--json").json() == []


def test_no_token_is_shown_or_kept_in_the_clear(shell: Shell, acme: Authority) -> None:
    out, err = connect(shell)
    listed = shell.run("account", "list", "--json").out + shell.run("account", "list").out
    kept = b"".join(file.read_bytes() for file in shell.data.rglob("*") if file.is_file())
    (issued,) = acme.issued
    for token in (issued.access, issued.refresh or "", SECRET):
        assert token not in out + err + listed
        assert token.encode() not in kept
    assert b"connect acme" in kept, "that it happened is in the audit"


def test_at_a_terminal_the_address_is_asked_for(shell: Shell, acme: Authority) -> None:
    with shell.terminal("account", "connect", "acme", "--paste") as terminal:
        url = terminal.expect("\n").strip()
        terminal.expect("Address: ")
        terminal.type(visited(url))
        terminal.expect("acme is connected")
        assert terminal.end()[0] == 0


@pytest.mark.parametrize("way", ["--device", "--no-browser"])
def test_a_code_is_entered_elsewhere(shell: Shell, acme: Authority, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(servers.Devices, "INTERVAL", 1)
    with shell.started("account", "connect", "acme", way) as process:
        assert read_line(process).strip() == f"{acme.issuer}/device"
        acme.entered[read_line(process).strip()] = True
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"acme is connected with profile\n"), err


def test_a_code_that_is_refused_connects_nothing(
    shell: Shell, acme: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers.Devices, "INTERVAL", 1)
    with shell.started("account", "connect", "acme", "--device", "--json") as process:
        assert process.stderr is not None
        process.stderr.readline()
        acme.entered[process.stderr.readline().decode().strip()] = False
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, b"")
    assert b"nothing was connected" in err
    assert shell.run("account", "list", "--json").json() == []


def test_where_there_is_no_code_for_devices_the_address_is_pasted(
    shell: Shell, acme: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {name: value for name, value in acme.metadata().items() if name != "device_authorization_endpoint"}
    monkeypatch.setattr(acme, "metadata", lambda: without)
    assert "no codes for devices" in shell.run("account", "connect", "acme", "--device").complaint()
    with shell.started("account", "connect", "acme", "--no-browser") as process:
        out, _ = process.communicate(f"{visited(read_line(process).strip())}\n".encode(), timeout=30)
    assert (process.returncode, out) == (0, b"acme is connected with profile\n")


def test_a_person_who_does_not_agree_connects_nothing(shell: Shell, acme: Authority) -> None:
    acme.agrees = False
    out, err = connect(shell, code=1)
    assert (out, "denied" in err) == ("", True), err
    assert shell.run("account", "list", "--json").json() == []


def test_an_address_of_another_attempt_connects_nothing(shell: Shell, acme: Authority) -> None:
    with shell.started("account", "connect", "acme", "--paste") as process:
        back = visited(read_line(process).strip())
        state = parse_qs(urlsplit(back).query)["state"][0]
        forged = back.replace(state, f"other{state}")
        out, err = process.communicate(f"{forged}\n".encode(), timeout=30)
    assert (process.returncode, out, b"another attempt" in err) == (1, b"", True)
    assert acme.issued == []


def test_an_account_that_cannot_be_revoked_is_forgotten_all_the_same(shell: Shell, acme: Authority) -> None:
    connect(shell)
    (listed,) = shell.run("account", "list", "--json").json()
    (shell.folder / "toolhall.toml").write_text("")
    gone = shell.run("account", "disconnect", listed["id"], "--yes")
    assert (gone.code, gone.out) == (0, "acme of local is disconnected\n")
    assert "revoke them there" in gone.err
    assert shell.run("account", "list", "--json").json() == []


def test_all_of_a_user_are_disconnected(shell: Shell, acme: Authority) -> None:
    connect(shell)
    for wrong in ([], ["--all"], ["--user", "local"], ["x", "--user", "local", "--all"]):
        assert "--user USER --all" in shell.run("account", "disconnect", *wrong, "--yes").complaint()
    assert "no such account" in shell.run("account", "disconnect", "--user", "bob", "--all", "--yes").complaint()
    gone = shell.run("account", "disconnect", "--user", "local", "--all", "--yes")
    assert (gone.code, gone.out, gone.err) == (0, "acme of local is disconnected\n", "")
    assert [each.revoked for each in acme.issued] == [True]
    assert shell.run("account", "list", "--json").json() == []


def test_disconnecting_asks_first(shell: Shell, acme: Authority) -> None:
    connect(shell)
    (listed,) = shell.run("account", "list", "--json").json()
    assert "--yes" in shell.run("account", "disconnect", listed["id"]).complaint()
    with shell.terminal("account", "disconnect", listed["id"]) as terminal:
        terminal.expect("Disconnect acme of local?")
        terminal.type("n")
        assert terminal.end()[0] == 1
    assert shell.run("account", "list", "--json").json() == [listed]


def test_providers_are_listed_without_what_is_secret(shell: Shell, acme: Authority) -> None:
    shell.run("key", "create", "ci")
    listed = shell.run("account", "providers", "--json")
    told = {"name": "acme", "issuer": acme.issuer, "scopes": ["profile"], "redirect_uri": REDIRECT}
    assert listed.json() == [told]
    shown = shell.run("account", "providers").out
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
def test_what_goes_wrong_is_said_with_a_code(
    shell: Shell, acme: Authority, words: list[str], code: int, said: str
) -> None:
    done = shell.run("account", *words)
    assert (done.code, said in done.err) == (code, True), done


def test_a_servers_key_is_never_made_unasked(shell: Shell, acme: Authority) -> None:
    shell.environment["TOOLHALL_PROFILE"] = "server"
    assert "TOOLHALL_VAULT_KEY" in shell.run("account", "connect", "acme", "--paste").complaint()
    assert not (shell.data / "vault.key").exists()


def test_no_browser_is_sent_to_what_is_no_page(shell: Shell) -> None:
    """A hall that lies: whoever reads its answer is not led anywhere."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with shell.started("account", "connect", "acme", "--url", url) as process:
            server.settimeout(30)
            asked, _ = server.accept()
            with asked:
                asked.recv(65_536)
                body = b'{"id": "x", "url": "javascript:alert(1)", "device": null, "authorize_url": null}'
                head = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                asked.sendall(head % len(body) + body)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, b"")
    assert (b"no browser should open" in err, b"javascript" in err) == (True, False)
