"""`toolhall tool` and text that means no good: it is shown as it is, and never reaches the terminal raw."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_remote import Stub, stub
from tests.cli.test_tool import definition
from tests.harness.cli import CliRunner

CLEAR, TURN, TITLE, HIDDEN = "\x1b[2J", "\u202e", "\x1b]0;owned\x07", "\u200b\U000e0041"
EVIL = f"Pick one. {CLEAR}{TURN}{TITLE}{HIDDEN}\x9b1m\r\x7f"
RAW = ["\x1b[2J", "\x1b]", TURN, "\u200b", "\U000e0041", "\x9b", "\x07", "\x7f"]
PICK = "Kit.pick@1.0.0"
DIGEST = "sha256-" + "ab" * 32


@pytest.fixture
def hostile(cli: CliRunner) -> Path:
    """A definition with everything that steers a terminal or hides in it."""
    file = cli.folder / "evil.json"
    file.write_text(json.dumps(definition(description=EVIL, title=EVIL, **{f"x-{CLEAR}{TURN}": EVIL})))
    return file


def harmless(text: str) -> None:
    assert not [each for each in RAW if each in text], repr(text)


def test_hostile_definition_in_any_command_is_not_printed_raw(cli: CliRunner, hostile: Path) -> None:
    added = cli.run("tool", "add", hostile.name)
    assert (added.code, "[text/" in added.out) == (0, True)
    shown = cli.run("tool", "show", PICK)
    for written in (r"\u001b[2J", "<U+202E>", "<U+200B>", "<U+E0041>", "<U+009B>", "<U+007F>"):
        assert written in shown.out
    assert "title         Pick one. <U+001B>[2J<U+202E>" in shown.out
    for done in (
        added,
        shown,
        cli.run("tool", "list"),
        cli.run("tool", "activate", PICK),
        cli.run("tool", "activate", PICK, "--yes"),
        cli.run("tool", "history"),
        cli.run("tool", "show", f"No.such{CLEAR}{TURN}"),
        cli.run("tool", "remove", PICK, "--yes"),
    ):
        harmless(done.out + done.err)
    assert cli.run("tool", "add", hostile.name, "--json").json()["tools"][0]["title"] == EVIL


def test_hostile_definition_at_terminal_is_shown_whole_before_yes(cli: CliRunner, hostile: Path) -> None:
    cli.environment["NO_COLOR"] = "1"
    assert cli.run("tool", "add", hostile.name).code == 0
    for typed, code, state in (("n", 1, "quarantined"), ("y", 0, "active")):
        with cli.terminal("tool", "activate", PICK) as terminal:
            seen = terminal.expect(f"Serve {PICK} with this text? [y/N] ")
            harmless(seen)
            for part in (r"\u001b[2J", "<U+202E>", "[text/", "sha256-", "in the document:"):
                assert part in seen
            terminal.type(typed)
            ended, rest = terminal.end()
        harmless(rest)
        assert (ended, cli.run("tool", "show", PICK, "--json").json()["state"]) == (code, state)
    seen = cli.run("tool", "show", PICK, "--json", terminal=True).out
    harmless(seen)
    assert json.loads(seen[seen.index("{") :])["title"] == EVIL  # a busy machine shows first that it is waiting


@pytest.mark.parametrize("command", ["remove", "rollback"])
def test_tool_remove_or_rollback_at_terminal_asks_first(cli: CliRunner, hostile: Path, command: str) -> None:
    assert cli.run("tool", "add", hostile.name).code == 0
    with cli.terminal("tool", command, PICK) as terminal:
        terminal.expect("? [y/N] ")
        terminal.type("")
        code, rest = terminal.end()
    assert (code, "nothing was changed: you did not say yes" in rest) == (1, True)
    assert len(cli.run("tool", "history", "--json").json()) == 1


Answers = Callable[[Stub, Any], None]


def answering(monkeypatch: pytest.MonkeyPatch, told: Any, status: int = 200) -> tuple[Answers, list[Any]]:
    """A server that says this to every GET, and remembers what is sent to it."""
    sent: list[Any] = []

    def get(http: Stub) -> None:
        http.reply(status, json.dumps(told).encode())

    def post(http: Stub, message: Any) -> None:
        sent.append((http.path, message))
        http.reply(200, json.dumps(told | {"state": "active"}).encode())

    monkeypatch.setattr(Stub, "do_GET", get, raising=False)
    return post, sent


def test_tool_activate_sends_the_digest_that_was_shown(cli: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = dict.fromkeys(
        ("name", "title", "registeredAt", "changedAt", "by", "origin", "originDetail", "dialect"), "x"
    )
    tool = {**plain, "id": PICK, "state": "quarantined", "deprecatedAt": None, "sunset": None, "successor": None}
    tool |= {"digests": {"document": DIGEST}, "document": {}, "findings": [], "versions": []}  # type: ignore[dict-item]
    answers, sent = answering(monkeypatch, tool)
    with stub(answers) as url:
        done = cli.run("tool", "activate", PICK, "--yes", "--url", url)
    assert done.code == 0
    assert DIGEST in done.err
    assert sent == [("/api/tools/Kit.pick%401.0.0/activate", {"seen": DIGEST})]


@pytest.mark.parametrize(
    ("told", "status", "said"),
    [
        ({"error": {"code": "x", "message": f"no {CLEAR}{TURN}\nmore"}}, 404, "no <U+001B>[2J<U+202E><U+000A>more"),
        ({"error": "no"}, 500, "this is no hall that can be managed"),
        ([], 200, "this is no hall that can be managed"),
        ({}, 200, "is this the right URL?"),
        ({"tools": [1]}, 200, "is this the right URL?"),
        ({"tools": [{"id": 1}]}, 200, "is this the right URL?"),
    ],
)
def test_tool_command_at_a_server_that_is_no_hall_prints_one_line(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, told: Any, status: int, said: str
) -> None:
    answers, _ = answering(monkeypatch, told, status)
    with stub(answers) as url:
        done = cli.run("tool", "list", "--url", url)
    assert (done.code, done.out) == (1, "")
    assert said in done.error_line()
