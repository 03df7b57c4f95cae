"""The vault's key is gone for good: the hall says so, and there is one way out of it."""

from tests.cli.test_accounts import acme, connect, visited
from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.servers.authority import Authority

__all__ = ["acme"]
VALUE = "tw-9f8a7b6c5d4e3f2a1b0c"


def lose_key(cli: CliRunner) -> None:
    (cli.data / "vault.key").unlink()


def recorded(cli: CliRunner, outcome: str = "ok") -> list[str]:
    """Every change that ended like this, the newest first."""
    return [each["tool"] for each in cli.run("audit", "search", "--outcome", outcome, "--json").json()]


def test_vault_without_its_key_serves_again_after_forgetting_what_is_lost(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    cli.run("secret", "set", "KEY", "--user", "alice", text=VALUE)
    lose_key(cli)
    refused = cli.run_process("serve", "--port", "0")
    assert (refused.code, "toolhall secret remove --lost" in refused.error_line()) == (1, True)
    done = cli.run("secret", "remove", "--lost", "--yes")
    assert (done.code, done.out) == (0, "2 secrets gone: KEY, KEY for alice\n")
    assert "must be connected anew" in done.err
    assert "remove lost secrets" in recorded(cli)
    with cli.serve() as hall:
        assert cli.run("secret", "list", "--url", hall.url, "--json").json() == []
        assert cli.run("secret", "set", "KEY", "--url", hall.url, text=VALUE).code == 0


def test_secret_remove_lost_without_yes_forgets_nothing(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    key = (cli.data / "vault.key").read_bytes()
    lose_key(cli)
    assert "--yes" in cli.run("secret", "remove", "--lost").error_line()
    with cli.terminal("secret", "remove", "--lost") as terminal:
        terminal.expect("Forget 1 secret and every account that the lost key sealed?")
        terminal.type("n")
        assert terminal.end()[0] == 1
    (cli.data / "vault.key").write_bytes(key)
    (cli.data / "vault.key").chmod(0o600)
    (kept,) = cli.run("secret", "list", "--json").json()
    assert kept["usable"], "with the key put back it opens"


def test_secret_remove_lost_with_the_right_key_forgets_nothing(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    assert "nothing is lost" in cli.run("secret", "remove", "--lost", "--yes").error_line()
    assert [each["name"] for each in cli.run("secret", "list", "--json").json()] == ["KEY"]


def test_secret_remove_lost_forgets_only_what_another_key_sealed(cli: CliRunner) -> None:
    old, new = (cli.run("secret", "key").out.strip() for _ in range(2))
    cli.environment["TOOLHALL_VAULT_KEY"] = old
    cli.run("secret", "set", "OLD", text=VALUE)
    cli.environment["TOOLHALL_VAULT_KEY"] = f"{new} {old}"
    cli.run("secret", "set", "NEW", "--user", "alice", text=VALUE)  # whose data key is new too
    cli.environment["TOOLHALL_VAULT_KEY"] = new
    assert "toolhall secret remove --lost" in cli.run("secret", "list").error_line()
    gone = cli.run("secret", "remove", "--lost", "--yes", "--json")
    assert gone.json() == {"lost": [{"name": "OLD", "user": None}]}
    assert [each["name"] for each in cli.run("secret", "list", "--json").json()] == ["NEW"]


def test_account_after_losing_the_key_is_connected_anew(cli: CliRunner, acme: Authority) -> None:
    connect(cli)
    assert ["past" in each for each in recorded(cli)] == [True, False], "both steps are recorded"
    lose_key(cli)
    assert cli.run("secret", "remove", "--lost", "--yes").out == "0 secrets gone\n"
    with cli.start("account", "connect", "acme", "--paste") as process:
        out, err = process.communicate(f"{visited(read_line(process).strip())}\n".encode(), timeout=patience())
    assert (process.returncode, out) == (0, b"acme is connected with profile\n"), err
    (account,) = cli.run("account", "list", "--json").json()
    gone = cli.run("account", "disconnect", account["id"], "--yes")
    assert (gone.code, gone.err, acme.issued[-1].revoked) == (0, "", True), "its tokens opened"


def test_secret_remove_lost_with_wrong_usage_names_the_fix(cli: CliRunner) -> None:
    for words, said in (
        ([], "name the secret"),
        (["KEY", "--lost"], "leave out the id"),
        (["--lost", "--user", "alice"], "leave out the id"),
        (["--lost", "--url", "http://127.0.0.1:1"], "--lost needs --data"),
    ):
        done = cli.run("secret", "remove", *words)
        assert (done.code, said in done.error_line()) == (2, True), done
    assert "no secret can be called" in cli.run("secret", "set", "rotate", text=VALUE).error_line()
    assert "there is no hall in" in cli.run("secret", "remove", "--lost", "--yes").error_line()
