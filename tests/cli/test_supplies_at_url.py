"""`toolhall secret` and `toolhall account` at a hall that runs, with an authorization server that is not ours."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.cli.shell import Shell, read_line
from tests.cli.test_accounts import SECRET, SETTINGS, visited
from tests.servers.authority import Authority, Client, authority

VALUE = "tw-9f8a7b6c5d4e3f2a1b0c"


@pytest.fixture
def acme(shell: Shell) -> Iterator[Authority]:
    """Authlib's server; the hall is registered there with an address that its public URL names."""
    with authority() as server:
        server.clients["hall"] = Client("hall", SECRET, "https://hall.example/oauth/callback", "client_secret_basic")
        text = SETTINGS.format(host=urlsplit(server.issuer).netloc, issuer=server.issuer, secret=SECRET)
        (shell.folder / "toolhall.toml").write_text(f'public_url = "https://hall.example"\n{text}')
        yield server


@pytest.fixture
def at(shell: Shell, acme: Authority) -> Iterator[list[str]]:
    """The words that name a hall that serves others; its admin's key is in the environment."""
    shell.environment["TOOLHALL_VAULT_KEY"] = shell.run("secret", "key").out.strip()
    admin = shell.run("key", "create", "boss", "--scopes", "admin,tools:*").out.strip()
    with shell.serving("--profile", "server") as server:
        shell.environment["TOOLHALL_KEY"] = admin
        yield ["--url", server.url]


def connected(shell: Shell, at: list[str]) -> str:
    with shell.started("account", "connect", "acme", "--paste", "--scopes", "mail.read", *at) as process:
        out, err = process.communicate(f"{visited(read_line(process).strip())}\n".encode(), timeout=30)
    assert process.returncode == 0, err
    return out.decode()


def test_secrets_are_managed_by_an_admin_and_shown_to_nobody(shell: Shell, at: list[str]) -> None:
    assert shell.run("secret", "set", "KEY", *at, text=VALUE).out == "KEY is kept\n"
    told = shell.run("secret", "set", "KEY", "--user", "al ice/x", "--json", *at, text=VALUE).json()
    assert (told["name"], told["user"]) == ("KEY", "al ice/x")
    listed = shell.run("secret", "list", "--json", *at)
    assert [each["user"] for each in listed.json()] == [None, "al ice/x"]
    assert VALUE not in listed.out
    assert shell.run("secret", "rotate", *at).out == "2 secrets sealed anew\n"
    assert shell.run("secret", "remove", "KEY", *at).code == 0
    assert "there is no such secret" in shell.run("secret", "remove", "KEY", *at).complaint()
    plain = shell.run("key", "create", "ci", *at).out.strip()
    shell.environment["TOOLHALL_KEY"] = plain
    assert [shell.run("secret", *words, *at, text=VALUE).code for words in (["list"], ["set", "KEY"])] == [1, 1]


def test_everybody_connects_their_own(shell: Shell, acme: Authority, at: list[str]) -> None:
    plain = shell.run("key", "create", "ci", *at).out.strip()
    assert connected(shell, at) == "acme is connected with mail.read profile\n"
    admin, shell.environment["TOOLHALL_KEY"] = shell.environment["TOOLHALL_KEY"], plain
    assert shell.run("account", "list", "--json", *at).json() == []
    assert "acme" in [each["name"] for each in shell.run("account", "providers", "--json", *at).json()]
    connected(shell, at)
    (own,) = shell.run("account", "list", "--json", *at).json()
    assert own["user"] == "ci"
    shell.environment["TOOLHALL_KEY"] = admin
    assert [each["user"] for each in shell.run("account", "list", "--json", *at).json()] == ["boss", "ci"]
    done = shell.run("account", "disconnect", own["id"], "--yes", *at)
    assert (done.out, done.err) == ("acme of ci is disconnected\n", "")
    assert [each.revoked for each in acme.issued] == [False, True]


def test_a_page_is_named_and_waited_for(shell: Shell, at: list[str]) -> None:
    with shell.started("account", "connect", "acme", *at) as process:
        assert read_line(process).startswith("https://hall.example/connect/")
        assert process.poll() is None
