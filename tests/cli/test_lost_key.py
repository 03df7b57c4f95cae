"""The vault's key is gone for good: the hall says so, and there is one way out of it."""

from tests.cli.shell import Shell, read_line
from tests.cli.test_accounts import acme, connect, visited
from tests.servers.authority import Authority

__all__ = ["acme"]
VALUE = "tw-9f8a7b6c5d4e3f2a1b0c"


def lose_key(shell: Shell) -> None:
    (shell.data / "vault.key").unlink()


def recorded(shell: Shell, outcome: str = "ok") -> list[str]:
    """Every change that ended like this, the newest first."""
    return [each["tool"] for each in shell.run("audit", "search", "--outcome", outcome, "--json").json()]


def test_a_hall_without_its_key_starts_again_once_what_is_lost_is_forgotten(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    shell.run("secret", "set", "KEY", "--user", "alice", text=VALUE)
    lose_key(shell)
    refused = shell.run("serve", "--port", "0")
    assert (refused.code, "toolhall secret remove --lost" in refused.complaint()) == (1, True)
    done = shell.run("secret", "remove", "--lost", "--yes")
    assert (done.code, done.out) == (0, "2 secrets gone: KEY, KEY for alice\n")
    assert "must be connected anew" in done.err
    assert "remove lost secrets" in recorded(shell)
    with shell.serving() as hall:
        assert shell.run("secret", "list", "--url", hall.url, "--json").json() == []
        assert shell.run("secret", "set", "KEY", "--url", hall.url, text=VALUE).code == 0


def test_nothing_is_forgotten_unless_somebody_says_so(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    key = (shell.data / "vault.key").read_bytes()
    lose_key(shell)
    assert "--yes" in shell.run("secret", "remove", "--lost").complaint()
    with shell.terminal("secret", "remove", "--lost") as terminal:
        terminal.expect("Forget 1 secret and every account that the lost key sealed?")
        terminal.type("n")
        assert terminal.end()[0] == 1
    (shell.data / "vault.key").write_bytes(key)
    (shell.data / "vault.key").chmod(0o600)
    (kept,) = shell.run("secret", "list", "--json").json()
    assert kept["usable"], "with the key put back it opens"


def test_what_opens_is_never_forgotten(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    assert "nothing is lost" in shell.run("secret", "remove", "--lost", "--yes").complaint()
    assert [each["name"] for each in shell.run("secret", "list", "--json").json()] == ["KEY"]


def test_what_another_key_sealed_goes_alone(shell: Shell) -> None:
    old, new = (shell.run("secret", "key").out.strip() for _ in range(2))
    shell.environment["TOOLHALL_VAULT_KEY"] = old
    shell.run("secret", "set", "OLD", text=VALUE)
    shell.environment["TOOLHALL_VAULT_KEY"] = f"{new} {old}"
    shell.run("secret", "set", "NEW", "--user", "alice", text=VALUE)  # whose data key is new too
    shell.environment["TOOLHALL_VAULT_KEY"] = new
    assert "toolhall secret remove --lost" in shell.run("secret", "list").complaint()
    gone = shell.run("secret", "remove", "--lost", "--yes", "--json")
    assert gone.json() == {"lost": [{"name": "OLD", "user": None}]}
    assert [each["name"] for each in shell.run("secret", "list", "--json").json()] == ["NEW"]


def test_an_account_is_connected_anew(shell: Shell, acme: Authority) -> None:
    connect(shell)
    assert ["past" in each for each in recorded(shell)] == [True, False], "both steps are recorded"
    lose_key(shell)
    assert shell.run("secret", "remove", "--lost", "--yes").out == "0 secrets gone\n"
    with shell.started("account", "connect", "acme", "--paste") as process:
        out, err = process.communicate(f"{visited(read_line(process).strip())}\n".encode(), timeout=30)
    assert (process.returncode, out) == (0, b"acme is connected with profile\n"), err
    (account,) = shell.run("account", "list", "--json").json()
    gone = shell.run("account", "disconnect", account["id"], "--yes")
    assert (gone.code, gone.err, acme.issued[-1].revoked) == (0, "", True), "its tokens opened"


def test_usage(shell: Shell) -> None:
    for words, said in (
        ([], "name the secret"),
        (["KEY", "--lost"], "leave out the id"),
        (["--lost", "--user", "alice"], "leave out the id"),
        (["--lost", "--url", "http://127.0.0.1:1"], "--lost needs --data"),
    ):
        done = shell.run("secret", "remove", *words)
        assert (done.code, said in done.complaint()) == (2, True), done
    assert "no secret can be called" in shell.run("secret", "set", "rotate", text=VALUE).complaint()
    assert "there is no hall in" in shell.run("secret", "remove", "--lost", "--yes").complaint()
