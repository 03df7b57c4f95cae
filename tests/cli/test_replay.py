"""`toolhall replay`: calls are recorded by real halls, and run again against changed tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.recorded import recorded
from toolhall.model.call_records import RECORDINGS_FILE

TOOLS = '''
from pathlib import Path
from typing import Any, Literal
from toolhall import Context, Toolkit, ToolFailed, tool

class Notes(Toolkit, version="1.0.0"):
    """Notes."""
    @tool(effect="reads")
    def find(self, word: str, limit: int = 1) -> dict[str, Any]:
        """Find notes."""
        print("printed while the tool runs")
        if word == "none":
            raise ToolFailed("no such note")
        return {"found": [word] * limit, "count": 1}

    @tool(effect="reads")
    def login(self, user: str, password: str) -> str:
        """Log in."""
        return f"hello {user}"

    @tool(effect="reads")
    def issue(self, user: str) -> dict[str, str]:
        """Issue a token."""
        return {"user": user, "token": "token-1"}

    @tool(effect="writes")
    def write(self, text: str) -> str:
        """Write a note."""
        Path("written").open("a").write(text)
        return "written"
'''


@pytest.fixture
def notes(shell: Shell) -> Path:
    """A file of tools that a test may change."""
    file = shell.folder / "notes.py"
    file.write_text(TOOLS)
    return file


def call(shell: Shell, tool: str, *words: str, record: str = "Notes.*") -> None:
    """Call a tool in a hall that records."""
    shell.environment["TOOLHALL_RECORD"] = record
    shell.run("call", f"Notes_{tool}", *words, "notes.py", "--yes")
    del shell.environment["TOOLHALL_RECORD"]


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new).replace("1.0.0", "1.1.0"))


def recording(tool: str = "Notes.find@1.0.0", **stated: Any) -> dict[str, Any]:
    answer = {"value": {"found": ["a"], "count": 1}}
    known = {"time": 1.0, "tool": tool, "dialect": "mcp", "outcome": "ok", "arguments": {"word": "a"}, "answer": answer}
    return {**known, **stated}


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def save(shell: Shell, *recordings: Any) -> str:
    lines = (each if isinstance(each, str) else json.dumps(each) for each in recordings)
    (shell.folder / "calls.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return "calls.jsonl"


def test_a_server_records_and_its_calls_are_the_same_again(shell: Shell, notes: Path) -> None:
    shell.environment["TOOLHALL_RECORD"] = "Notes.find@*, Nothing.*"
    with shell.serving("notes.py") as server:
        for words in (["word=a"], ["word=a"], ["word=b", "limit=2"], ["word=none"]):
            shell.run("call", "Notes_find", *words, "--url", server.url)
        shell.run("call", "Notes_login", "user=me", "password=x", "--url", server.url)
    del shell.environment["TOOLHALL_RECORD"]
    before = content(shell.data)
    assert RECORDINGS_FILE in before
    done = shell.run("replay", str(shell.data), "notes.py")
    assert (done.code, done.out) == (0, "Notes.find: 3 same\n")
    assert done.err.endswith("4 recorded calls: 3 same, 1 repeated and run once\n")
    done = shell.run("replay", str(shell.data / RECORDINGS_FILE), "notes.py", "--json")
    assert done.json() == {
        "ok": True,
        "calls": 4,
        "repeated": 1,
        "unreadable": 0,
        "same": 3,
        "hidden": 0,
        **{key: [] for key in ("changed", "refused", "failed", "gone", "skipped")},
    }
    assert content(shell.data) == before, "a replay writes nothing"


def test_what_changed_is_told_for_each_call(shell: Shell, notes: Path) -> None:
    for words in (["word=a"], ["word=b", "limit:=2"], ["word=c"], ["word=none"]):
        call(shell, "find", *words)
    change(notes, '"count": 1', '"count": 1.0, "more": word')
    change(notes, "limit: int", "limit: Literal[1]")
    change(
        notes,
        'if word == "none":',
        'if word == "c":\n            raise ValueError("canary")\n        if word == "none":',
    )
    change(notes, "no such note", "no note")
    done = shell.run("replay", str(shell.data), "notes.py")
    assert done.code == 1
    head, *lines = done.out.splitlines()
    assert head == "Notes.find: 2 changed, 1 refused, 1 failed"
    assert lines[:2] == ['  changed {"word":"a"}', '    /value/more: nothing -> "a"']
    assert lines[2].startswith('  refused {"word":"b","limit":2}: the arguments do not match')
    assert lines[3].startswith('  failed {"word":"c"}: the tool failed')
    assert lines[4:] == ['  changed {"word":"none"}', '    /content/0: "no such note" -> "no note"']
    assert "canary" not in done.out + done.err
    assert "4 recorded calls: 2 changed, 1 refused, 1 failed" in done.err
    found = shell.run("replay", str(shell.data), "notes.py", "--json").json()
    assert (found["ok"], found["same"]) == (False, 0)
    assert found["changed"][0] == {
        "tool": "Notes.find",
        "recorded": "Notes.find@1.0.0",
        "arguments": {"word": "a"},
        "differences": [{"path": "/value/more", "new": "a"}],
    }
    assert [each["arguments"] for each in found["refused"]] == [{"word": "b", "limit": 2}]


def test_an_error_that_is_none_any_more_is_a_change(shell: Shell, notes: Path) -> None:
    call(shell, "find", "word=none")
    change(notes, 'raise ToolFailed("no such note")', 'return {"found": [], "count": 0}')
    found = shell.run("replay", str(shell.data), "notes.py", "--json").json()
    assert found["changed"][0]["differences"][0] == {"path": "/outcome", "old": "tool_error", "new": "ok"}


def test_writes_run_only_when_they_are_wanted(shell: Shell, notes: Path) -> None:
    call(shell, "write", "text=x")
    call(shell, "find", "word=a")
    assert (shell.folder / "written").read_text() == "x"
    done = shell.run("replay", str(shell.data), "notes.py")
    assert done.code == 0
    assert "  skipped 1: its effect is 'writes'; --writes runs it" in done.out
    assert "1 same, 1 skipped" in done.err
    assert (shell.folder / "written").read_text() == "x"
    assert shell.run("replay", str(shell.data), "notes.py", "--writes", "--json").json()["same"] == 2
    assert (shell.folder / "written").read_text() == "xx"


def test_redacted_arguments_cannot_be_run_again(shell: Shell, notes: Path) -> None:
    call(shell, "login", "user=me", "password=hunter2-canary")
    call(shell, "login", "user=me", "password=other-canary")
    assert "canary" not in (shell.data / RECORDINGS_FILE).read_text()
    done = shell.run("replay", str(shell.data), "notes.py")
    assert done.code == 1
    assert done.out.splitlines()[1:] == ["  skipped 2: its arguments were redacted"]
    assert "nothing could be compared" in done.err


def test_secrets_in_answers_are_neither_compared_nor_printed(shell: Shell, notes: Path) -> None:
    call(shell, "issue", "user=me")
    change(notes, '"token": "token-1"', '"token": "token-2-canary"')
    done = shell.run("replay", str(shell.data), "notes.py")
    assert (done.code, done.out) == (0, "Notes.issue: 1 same\n")
    assert "1 redacted place not compared" in done.err
    change(notes, '"user": user', '"user": "you", "api_key": "key-canary"')
    done = shell.run("replay", str(shell.data), "notes.py")
    assert done.code == 1
    assert "/value/user" in done.out
    assert "canary" not in done.out + done.err


def test_a_tool_that_is_gone(shell: Shell, notes: Path) -> None:
    call(shell, "find", "word=a")
    change(notes, "def find", "def search")
    done = shell.run("replay", str(shell.data), "notes.py")
    assert (done.code, done.out.splitlines()[0]) == (1, "Notes.find: 1 gone")
    assert shell.run("replay", str(shell.data), "notes.py", "--json").json()["gone"] == [
        {"tool": "Notes.find", "calls": 1}
    ]


def test_only_some_tools(shell: Shell, notes: Path) -> None:
    file = save(shell, recording(), recording("Notes.gone@1.0.0"))
    assert shell.run("replay", file, "notes.py").code == 1
    done = shell.run("replay", file, "notes.py", "--tool", "Notes.f*")
    assert (done.code, done.out) == (0, "Notes.find: 1 same\n")
    done = shell.run("replay", file, "notes.py", "--tool", "Other.*")
    assert done.code == 1
    assert "0 recorded calls: none to run; nothing could be compared" in done.err


def test_the_newest_of_two_recordings_counts(shell: Shell, notes: Path) -> None:
    wrong = recording(answer={"value": 7})
    for recordings, code in (
        ([recording(time=2.0), {**wrong, "time": 1.0}], 0),
        ([recording(time=1.0), {**wrong, "time": 2.0}], 1),
        ([{**wrong, "tool": "Notes.find@0.9.0"}, recording()], 0),
        ([recording(arguments={"word": "a", "limit": 1}), recording(arguments={"limit": 1.0, "word": "a"})], 0),
    ):
        done = shell.run("replay", save(shell, *recordings), "notes.py", "--json")
        assert (done.code, done.json()["repeated"]) == (code, 1)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"arguments": None, "omitted": ["/arguments"]}, "its arguments were too large to be recorded"),
        ({"answer": None, "omitted": ["/answer"]}, "its answer was too large to be recorded"),
        ({"answer": {"value": "[redacted]"}, "redacted": ["/answer/value"]}, "its answer was redacted"),
    ],
)
def test_what_was_not_recorded_is_skipped(shell: Shell, notes: Path, stated: dict[str, Any], reason: str) -> None:
    done = shell.run("replay", save(shell, recording(**stated)), "notes.py", "--json")
    assert done.code == 1
    assert done.json()["skipped"] == [{"tool": "Notes.find", "calls": 1, "reason": reason}]


def test_who_cannot_be_asked_is_not(shell: Shell) -> None:
    asking = """
from dataclasses import dataclass
from toolhall import Context, tool

@dataclass
class Guest:
    name: str

@tool(effect="reads")
async def ask(ctx: Context) -> str:
    given = await ctx.ask("Who?", Guest)
    return given.action

@tool(effect="reads", level=9)
async def risky() -> str:
    return "done"
"""
    (shell.folder / "asking.py").write_text(asking)
    file = save(shell, *(recording(f"asking.{name}@0.1.0", arguments={}) for name in ("ask", "risky")))
    skipped = shell.run("replay", file, "asking.py", "--json").json()["skipped"]
    assert all("nobody to ask" in each["reason"] for each in skipped)
    assert [each["tool"] for each in skipped] == ["asking.ask", "asking.risky"]


def test_an_authors_own_hall_stays_out_of_it(shell: Shell, notes: Path) -> None:
    own = '\nfrom toolhall import Config, Toolhall\nhall = Toolhall(Notes, config=Config(data="own", record=("*",)))\n'
    notes.write_text(TOOLS + own)
    done = shell.run("replay", save(shell, recording()), "notes.py")
    assert (done.code, done.out) == (0, "Notes.find: 1 same\n")
    assert recorded(shell.folder / "own") == []
    assert (shell.folder / "own" / RECORDINGS_FILE).read_text() == ""


def test_broken_lines_are_counted(shell: Shell, notes: Path) -> None:
    deep = json.dumps(recording()).replace('"a"', "[" * 300 + "]" * 300)
    file = save(shell, recording(), '{"time":1.0,"tool":"No', "", "[]", '{"time":"x"}', recording(arguments=3), deep)
    done = shell.run("replay", file, "notes.py")
    assert done.code == 0
    assert "1 recorded call: 1 same; 5 lines could not be read" in done.err


def test_nothing_hides_on_the_screen(shell: Shell, notes: Path) -> None:
    file = save(shell, recording(arguments={"word": "a\u202eb\x1b[2J"}), recording("No\u202e.tool@1.0.0"))
    done = shell.run("replay", file, "notes.py")
    assert done.code == 1
    assert "\u202e" not in done.out
    assert "\x1b" not in done.out
    assert "<U+202E>" in done.out


def test_long_values_are_cut(shell: Shell, notes: Path) -> None:
    done = shell.run("replay", save(shell, recording(answer={"value": "x" * 5_000})), "notes.py")
    assert done.code == 1
    assert max(map(len, done.out.splitlines())) < 250
    assert f'"{"x" * 50}' in done.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "requires an argument"),
        (["missing"], 2, "there is no file missing; calls are recorded where the setting 'record'"),
        (["."], 2, f"there is no file {RECORDINGS_FILE}"),
        (["notes.py", "notes.py"], 1, "no line of notes.py is a recorded call"),
        (["calls.jsonl", "missing.py"], 2, "there is no file missing.py"),
        (["calls.jsonl", "notes.py", "more"], 2, "too many words"),
    ],
)
def test_wrong_usage(shell: Shell, notes: Path, words: list[str], code: int, said: str) -> None:
    save(shell, recording())
    done = shell.run("replay", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.complaint()


def test_recording_needs_no_more_than_the_setting(shell: Shell, notes: Path) -> None:
    (shell.folder / "toolhall.toml").write_text('record = ["Notes.find"]\n')
    assert shell.run("call", "Notes_find", "word=a", "notes.py").code == 0
    assert shell.run("replay", str(shell.data), "notes.py").code == 0
