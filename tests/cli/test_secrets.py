"""`toolhall secret` on a data folder: values go in by the keyboard or a pipe, and come out nowhere."""

import base64
import stat

import pytest

from tests.harness.cli import CliRunner
from tests.harness.patience import patience

VALUE = "tw-9f8a7b6c5d4e3f2a1b0c"


def everything(cli: CliRunner) -> bytes:
    """Every byte in the data folder."""
    return b"".join(file.read_bytes() for file in cli.data.rglob("*") if file.is_file())


def names(cli: CliRunner) -> list[tuple[str, str | None]]:
    return [(each["name"], each["user"]) for each in cli.run("secret", "list", "--json").json()]


def hint(cli: CliRunner) -> str:
    (found,) = cli.run("secret", "list", "--json").json()
    return str(found["hint"])


def test_secret_set_is_listed_and_removed(cli: CliRunner) -> None:
    done = cli.run("secret", "set", "TWILIO_API_KEY", text=VALUE)
    assert (done.code, done.out, done.err) == (0, "TWILIO_API_KEY is kept\n", "")
    told = cli.run("secret", "set", "TWILIO_API_KEY", "--user", "alice", "--json", text=f"{VALUE}-alice").json()
    assert sorted(told) == ["by", "changedAt", "createdAt", "hint", "name", "usable", "usedAt", "usedBy", "user"]
    listed = cli.run("secret", "list")
    assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
        ["TWILIO_API_KEY", "everybody", "good"],
        ["TWILIO_API_KEY", "alice", "good"],
    ]
    assert VALUE not in listed.out + listed.err
    assert cli.run("secret", "remove", "TWILIO_API_KEY", "--user", "alice").out.endswith("is removed for alice\n")
    assert names(cli) == [("TWILIO_API_KEY", None)]
    assert cli.run("secret", "remove", "TWILIO_API_KEY", "--json").json() == {"removed": "TWILIO_API_KEY"}
    assert "there are no secrets" in cli.run("secret", "list").err


def test_secret_remove_all_of_a_user_removes_every_one(cli: CliRunner) -> None:
    for name, user in (("ONE", ["--user", "alice"]), ("TWO", ["--user", "alice"]), ("ONE", [])):
        cli.run("secret", "set", name, *user, text=VALUE)
    for wrong in (["--all"], ["ONE", "--all", "--user", "alice"]):
        assert "--user" in cli.run("secret", "remove", *wrong).error_line()
    assert "--yes" in cli.run("secret", "remove", "--user", "alice", "--all").error_line()
    gone = cli.run("secret", "remove", "--user", "alice", "--all", "--yes")
    assert (gone.code, gone.out) == (0, "every secret of alice is removed\n")
    assert names(cli) == [("ONE", None)]
    assert "nothing is sealed" in cli.run("secret", "remove", "--user", "alice", "--all", "--yes").error_line()


def test_secret_value_after_setting_is_nowhere_in_the_folder(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    found = everything(cli)
    for form in (VALUE.encode(), VALUE.encode().hex().encode(), base64.b64encode(VALUE.encode()).rstrip(b"=")):
        assert form not in found
    assert b"set secret KEY" in found, "that it was set is in the audit"
    mode = stat.S_IMODE((cli.data / "vault.key").stat().st_mode)
    assert mode == 0o600


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (VALUE, f"{VALUE}\n", True),
        (VALUE, f"{VALUE}\r\n", True),
        (VALUE, f"{VALUE}\n\n", False),
        (VALUE, f" {VALUE}", False),
        ("two\nlines", "two\nlines\n", True),
        ("päss", "päss\n", True),
    ],
)
def test_secret_value_with_a_final_line_break_is_cut_once(cli: CliRunner, one: str, other: str, same: bool) -> None:
    """A hint is the same for the same value."""
    cli.run("secret", "set", "KEY", text=one)
    first = hint(cli)
    cli.run("secret", "set", "KEY", text=other)
    assert (hint(cli) == first) is same


def test_secret_set_at_terminal_asks_twice_and_does_not_echo(cli: CliRunner) -> None:
    with cli.terminal("secret", "set", "KEY") as terminal:
        seen = terminal.expect("not shown): ")
        terminal.type(VALUE)
        seen += terminal.expect("again: ")
        terminal.type(VALUE)
        code, rest = terminal.end()
    assert (code, "KEY is kept" in rest) == (0, True)
    assert VALUE not in seen + rest
    typed = hint(cli)
    cli.run("secret", "set", "KEY", text=VALUE)
    assert hint(cli) == typed


def test_secret_set_at_terminal_with_different_values_changes_nothing(cli: CliRunner) -> None:
    with cli.terminal("secret", "set", "KEY") as terminal:
        for question, value in (("not shown): ", VALUE), ("again: ", f"{VALUE}x")):
            terminal.expect(question)
            terminal.type(value)
        code, rest = terminal.end()
    assert (code, "nothing was changed: the two were not the same" in rest) == (1, True)
    assert not (cli.data / "toolhall.db").exists()


@pytest.mark.parametrize(
    ("words", "text", "code", "said"),
    [
        (["set", "KEY"], "", 1, "there was no value"),
        (["set", "KEY"], "\n", 1, "there was no value"),
        (["set", "KEY"], "abc", 1, "at least 4 characters"),
        (["set", "KEY"], "x" * 65_537, 1, "at most 64 KiB"),
        (["set", "KEY"], "ä" * 40_000, 1, "at most 64 KiB"),
        (["set", "KEY", VALUE], VALUE, 2, "too many words"),
        (["set", "1KEY"], VALUE, 2, "begins with a letter"),
        (["set", "A/B"], VALUE, 2, "begins with a letter"),
        (["set", "KEY", "--user", ""], VALUE, 2, "a user's id"),
        (["list"], "", 1, "there is no hall in"),
        (["remove", "KEY"], "", 1, "there is no hall in"),
        (["list", "--key", "tk_x"], "", 2, "name it with --url"),
        (["rotate", "--new", "--url", "http://127.0.0.1:1"], "", 2, "stop the hall"),
        (["list", "--url", "http://127.0.0.1:1"], "", 1, "start it with 'toolhall serve'"),
    ],
)
def test_secret_command_with_wrong_words_prints_one_line(
    cli: CliRunner, words: list[str], text: str, code: int, said: str
) -> None:
    done = cli.run("secret", *words, text=text)
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()
    assert not (cli.data / "toolhall.db").exists(), "nothing was made, either"


def test_secret_value_that_is_not_text_is_refused(cli: CliRunner) -> None:
    with cli.start("secret", "set", "KEY") as process:
        out, err = process.communicate(b"\xff\xfe\x00\x01 key", timeout=patience())
    assert (process.returncode, out) == (1, b"")
    assert b"no text in UTF-8" in err


def test_secret_value_of_the_longest_size_is_kept(cli: CliRunner) -> None:
    assert cli.run("secret", "set", "KEY", text="x" * 65_536 + "\n").code == 0


def test_secret_remove_of_an_unknown_name_fails(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    for words in (["OTHER"], ["KEY", "--user", "alice"]):
        assert "there is no such secret" in cli.run("secret", "remove", *words).error_line()
    assert names(cli) == [("KEY", None)]


def test_secret_rotate_with_new_key_drops_the_old_one(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    file = cli.data / "vault.key"
    before, sealed = file.read_text(), everything(cli)
    done = cli.run("secret", "rotate")
    assert (done.code, done.out, file.read_text()) == (0, "1 secret sealed anew\n", before)
    assert everything(cli) != sealed
    assert cli.run("secret", "rotate", "--new", "--json").json() == {"rotated": 1}
    after = file.read_text()
    assert (after != before, len(after.split())) == (True, 1)
    assert cli.run("secret", "list", "--json").json()[0]["usable"]
    file.write_text(before)
    assert cli.run("secret", "list").code == 1, "the old key opens nothing any more"


def test_secret_rotate_with_a_key_kept_elsewhere_is_refused(cli: CliRunner) -> None:
    made = cli.run("secret", "key")
    assert (made.code, made.out.count("\n"), len(base64.b64decode(made.out))) == (0, 1, 32)
    assert made.out != cli.run("secret", "key").out
    assert len(base64.b64decode(cli.run("secret", "key", "--json").json()["key"])) == 32
    cli.environment["TOOLHALL_VAULT_KEY"] = made.out.strip()
    cli.run("secret", "set", "KEY", text=VALUE)
    assert not (cli.data / "vault.key").exists()
    assert "TOOLHALL_VAULT_KEY, which only you can change" in cli.run("secret", "rotate", "--new").error_line()
    new = cli.run("secret", "key").out.strip()
    cli.environment["TOOLHALL_VAULT_KEY"] = f"{new} {made.out.strip()}"
    assert cli.run("secret", "rotate").code == 0
    cli.environment["TOOLHALL_VAULT_KEY"] = new
    assert names(cli) == [("KEY", None)]


def test_secret_set_in_server_profile_makes_no_key(cli: CliRunner) -> None:
    cli.environment["TOOLHALL_PROFILE"] = "server"
    done = cli.run("secret", "set", "KEY", text=VALUE)
    assert "TOOLHALL_VAULT_KEY" in done.error_line()
    assert not (cli.data / "vault.key").exists()


def test_secret_key_file_readable_by_others_is_refused(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    (cli.data / "vault.key").chmod(0o644)
    assert "chmod 600" in cli.run("secret", "list").error_line()


def test_secret_rotate_beside_a_running_hall_is_refused(cli: CliRunner) -> None:
    cli.run("secret", "set", "KEY", text=VALUE)
    with cli.serve():
        assert "ask it by --url" in cli.run("secret", "set", "KEY", text=f"{VALUE}x").error_line()
        assert names(cli) == [("KEY", None)], "looking is allowed"
