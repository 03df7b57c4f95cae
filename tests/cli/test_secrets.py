"""`toolhall secret` on a data folder: values go in by the keyboard or a pipe, and come out nowhere."""

import base64
import stat

import pytest

from tests.cli.shell import Shell

VALUE = "tw-9f8a7b6c5d4e3f2a1b0c"


def everything(shell: Shell) -> bytes:
    """Every byte in the data folder."""
    return b"".join(file.read_bytes() for file in shell.data.rglob("*") if file.is_file())


def names(shell: Shell) -> list[tuple[str, str | None]]:
    return [(each["name"], each["user"]) for each in shell.run("secret", "list", "--json").json()]


def hint(shell: Shell) -> str:
    (found,) = shell.run("secret", "list", "--json").json()
    return str(found["hint"])


def test_a_secret_is_set_listed_and_removed(shell: Shell) -> None:
    done = shell.run("secret", "set", "TWILIO_API_KEY", text=VALUE)
    assert (done.code, done.out, done.err) == (0, "TWILIO_API_KEY is kept\n", "")
    told = shell.run("secret", "set", "TWILIO_API_KEY", "--user", "alice", "--json", text=f"{VALUE}-alice").json()
    assert sorted(told) == ["by", "changedAt", "createdAt", "hint", "name", "usable", "user"]
    listed = shell.run("secret", "list")
    assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
        ["TWILIO_API_KEY", "everybody", "good"],
        ["TWILIO_API_KEY", "alice", "good"],
    ]
    assert VALUE not in listed.out + listed.err
    assert shell.run("secret", "remove", "TWILIO_API_KEY", "--user", "alice").out.endswith("is removed for alice\n")
    assert names(shell) == [("TWILIO_API_KEY", None)]
    assert shell.run("secret", "remove", "TWILIO_API_KEY", "--json").json() == {"removed": "TWILIO_API_KEY"}
    assert "there are no secrets" in shell.run("secret", "list").err


def test_all_of_a_user_go_at_once(shell: Shell) -> None:
    for name, user in (("ONE", ["--user", "alice"]), ("TWO", ["--user", "alice"]), ("ONE", [])):
        shell.run("secret", "set", name, *user, text=VALUE)
    for wrong in (["--all"], ["ONE", "--all", "--user", "alice"]):
        assert "--user" in shell.run("secret", "remove", *wrong).complaint()
    assert "--yes" in shell.run("secret", "remove", "--user", "alice", "--all").complaint()
    gone = shell.run("secret", "remove", "--user", "alice", "--all", "--yes")
    assert (gone.code, gone.out) == (0, "every secret of alice is removed\n")
    assert names(shell) == [("ONE", None)]
    assert "nothing is sealed" in shell.run("secret", "remove", "--user", "alice", "--all", "--yes").complaint()


def test_the_value_is_nowhere_in_the_folder(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    found = everything(shell)
    for form in (VALUE.encode(), VALUE.encode().hex().encode(), base64.b64encode(VALUE.encode()).rstrip(b"=")):
        assert form not in found
    assert b"set secret KEY" in found, "that it was set is in the audit"
    mode = stat.S_IMODE((shell.data / "vault.key").stat().st_mode)
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
def test_one_line_break_at_the_end_is_cut(shell: Shell, one: str, other: str, same: bool) -> None:
    """A hint is the same for the same value."""
    shell.run("secret", "set", "KEY", text=one)
    first = hint(shell)
    shell.run("secret", "set", "KEY", text=other)
    assert (hint(shell) == first) is same


def test_a_value_is_typed_twice_and_not_shown(shell: Shell) -> None:
    with shell.terminal("secret", "set", "KEY") as terminal:
        seen = terminal.expect("not shown): ")
        terminal.type(VALUE)
        seen += terminal.expect("again: ")
        terminal.type(VALUE)
        code, rest = terminal.end()
    assert (code, "KEY is kept" in rest) == (0, True)
    assert VALUE not in seen + rest
    typed = hint(shell)
    shell.run("secret", "set", "KEY", text=VALUE)
    assert hint(shell) == typed


def test_two_values_that_differ_are_none(shell: Shell) -> None:
    with shell.terminal("secret", "set", "KEY") as terminal:
        for question, value in (("not shown): ", VALUE), ("again: ", f"{VALUE}x")):
            terminal.expect(question)
            terminal.type(value)
        code, rest = terminal.end()
    assert (code, "nothing was changed: the two were not the same" in rest) == (1, True)
    assert not (shell.data / "toolhall.db").exists()


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
def test_what_goes_wrong_is_one_line_and_a_code(
    shell: Shell, words: list[str], text: str, code: int, said: str
) -> None:
    done = shell.run("secret", *words, text=text)
    assert (done.code, done.out) == (code, "")
    assert said in done.complaint()
    assert not (shell.data / "toolhall.db").exists(), "nothing was made, either"


def test_what_is_no_text_is_refused(shell: Shell) -> None:
    with shell.started("secret", "set", "KEY") as process:
        out, err = process.communicate(b"\xff\xfe\x00\x01 key", timeout=30)
    assert (process.returncode, out) == (1, b"")
    assert b"no text in UTF-8" in err


def test_the_longest_value_fits(shell: Shell) -> None:
    assert shell.run("secret", "set", "KEY", text="x" * 65_536 + "\n").code == 0


def test_what_is_not_there_cannot_be_removed(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    for words in (["OTHER"], ["KEY", "--user", "alice"]):
        assert "there is no such secret" in shell.run("secret", "remove", *words).complaint()
    assert names(shell) == [("KEY", None)]


def test_a_rotation_makes_a_new_key_and_drops_the_old_one(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    file = shell.data / "vault.key"
    before, sealed = file.read_text(), everything(shell)
    done = shell.run("secret", "rotate")
    assert (done.code, done.out, file.read_text()) == (0, "1 secret sealed anew\n", before)
    assert everything(shell) != sealed
    assert shell.run("secret", "rotate", "--new", "--json").json() == {"rotated": 1}
    after = file.read_text()
    assert (after != before, len(after.split())) == (True, 1)
    assert shell.run("secret", "list", "--json").json()[0]["usable"]
    file.write_text(before)
    assert shell.run("secret", "list").code == 1, "the old key opens nothing any more"


def test_a_key_that_somebody_else_keeps_is_not_replaced(shell: Shell) -> None:
    made = shell.run("secret", "key")
    assert (made.code, made.out.count("\n"), len(base64.b64decode(made.out))) == (0, 1, 32)
    assert made.out != shell.run("secret", "key").out
    assert len(base64.b64decode(shell.run("secret", "key", "--json").json()["key"])) == 32
    shell.environment["TOOLHALL_VAULT_KEY"] = made.out.strip()
    shell.run("secret", "set", "KEY", text=VALUE)
    assert not (shell.data / "vault.key").exists()
    assert "TOOLHALL_VAULT_KEY, which only you can change" in shell.run("secret", "rotate", "--new").complaint()
    new = shell.run("secret", "key").out.strip()
    shell.environment["TOOLHALL_VAULT_KEY"] = f"{new} {made.out.strip()}"
    assert shell.run("secret", "rotate").code == 0
    shell.environment["TOOLHALL_VAULT_KEY"] = new
    assert names(shell) == [("KEY", None)]


def test_a_servers_key_is_never_made_unasked(shell: Shell) -> None:
    shell.environment["TOOLHALL_PROFILE"] = "server"
    done = shell.run("secret", "set", "KEY", text=VALUE)
    assert "TOOLHALL_VAULT_KEY" in done.complaint()
    assert not (shell.data / "vault.key").exists()


def test_a_key_that_others_can_read_is_refused(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    (shell.data / "vault.key").chmod(0o644)
    assert "chmod 600" in shell.run("secret", "list").complaint()


def test_a_hall_that_runs_is_left_alone(shell: Shell) -> None:
    shell.run("secret", "set", "KEY", text=VALUE)
    with shell.serving():
        assert "ask it by --url" in shell.run("secret", "set", "KEY", text=f"{VALUE}x").complaint()
        assert names(shell) == [("KEY", None)], "looking is allowed"
