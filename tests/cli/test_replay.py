"""`toolhall replay`: calls are recorded by real halls, and run again against changed tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import CliRunner
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
def notes(cli: CliRunner) -> Path:
    """A file of tools that a test may change."""
    file = cli.folder / "notes.py"
    file.write_text(TOOLS)
    return file


def call(cli: CliRunner, tool: str, *words: str, record: str = "Notes.*") -> None:
    """Call a tool in a hall that records."""
    cli.environment["TOOLHALL_RECORD"] = record
    cli.run("call", f"Notes_{tool}", *words, "notes.py", "--yes")
    del cli.environment["TOOLHALL_RECORD"]


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


def save(cli: CliRunner, *recordings: Any) -> str:
    lines = (each if isinstance(each, str) else json.dumps(each) for each in recordings)
    (cli.folder / "calls.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return "calls.jsonl"


def test_replay_of_recorded_calls_gives_the_same_answers(cli: CliRunner, notes: Path) -> None:
    cli.environment["TOOLHALL_RECORD"] = "Notes.find@*, Nothing.*"
    with cli.serve("notes.py") as server:
        for words in (["word=a"], ["word=a"], ["word=b", "limit=2"], ["word=none"]):
            cli.run("call", "Notes_find", *words, "--url", server.url)
        cli.run("call", "Notes_login", "user=me", "password=x", "--url", server.url)
    del cli.environment["TOOLHALL_RECORD"]
    before = content(cli.data)
    assert RECORDINGS_FILE in before
    done = cli.run("replay", str(cli.data), "notes.py")
    assert (done.code, done.out) == (0, "Notes.find: 3 same\n")
    assert done.err.endswith("4 recorded calls: 3 same, 1 repeated and run once\n")
    done = cli.run("replay", str(cli.data / RECORDINGS_FILE), "notes.py", "--json")
    assert done.json() == {
        "ok": True,
        "calls": 4,
        "repeated": 1,
        "unreadable": 0,
        "same": 3,
        "hidden": 0,
        **{key: [] for key in ("changed", "refused", "failed", "gone", "skipped")},
    }
    assert content(cli.data) == before, "a replay writes nothing"


def test_replay_after_a_change_names_it_for_each_call(cli: CliRunner, notes: Path) -> None:
    for words in (["word=a"], ["word=b", "limit:=2"], ["word=c"], ["word=none"]):
        call(cli, "find", *words)
    change(notes, '"count": 1', '"count": 1.0, "more": word')
    change(notes, "limit: int", "limit: Literal[1]")
    change(
        notes,
        'if word == "none":',
        'if word == "c":\n            raise ValueError("canary")\n        if word == "none":',
    )
    change(notes, "no such note", "no note")
    done = cli.run("replay", str(cli.data), "notes.py")
    assert done.code == 1
    head, *lines = done.out.splitlines()
    assert head == "Notes.find: 2 changed, 1 refused, 1 failed"
    assert lines[:2] == ['  changed {"word":"a"}', '    /value/more: nothing -> "a"']
    assert lines[2].startswith('  refused {"word":"b","limit":2}: the arguments do not match')
    assert lines[3].startswith('  failed {"word":"c"}: the tool failed')
    assert lines[4:] == ['  changed {"word":"none"}', '    /content/0: "no such note" -> "no note"']
    assert "canary" not in done.out + done.err
    assert "4 recorded calls: 2 changed, 1 refused, 1 failed" in done.err
    found = cli.run("replay", str(cli.data), "notes.py", "--json").json()
    assert (found["ok"], found["same"]) == (False, 0)
    assert found["changed"][0] == {
        "tool": "Notes.find",
        "recorded": "Notes.find@1.0.0",
        "arguments": {"word": "a"},
        "differences": [{"path": "/value/more", "new": "a"}],
    }
    assert [each["arguments"] for each in found["refused"]] == [{"word": "b", "limit": 2}]


def test_replay_of_an_error_that_is_gone_is_a_change(cli: CliRunner, notes: Path) -> None:
    call(cli, "find", "word=none")
    change(notes, 'raise ToolFailed("no such note")', 'return {"found": [], "count": 0}')
    found = cli.run("replay", str(cli.data), "notes.py", "--json").json()
    assert found["changed"][0]["differences"][0] == {"path": "/outcome", "old": "tool_error", "new": "ok"}


def test_replay_of_writes_runs_only_on_request(cli: CliRunner, notes: Path) -> None:
    call(cli, "write", "text=x")
    call(cli, "find", "word=a")
    assert (cli.folder / "written").read_text() == "x"
    done = cli.run("replay", str(cli.data), "notes.py")
    assert done.code == 0
    assert "  skipped 1: its effect is 'writes'; --writes runs it" in done.out
    assert "1 same, 1 skipped" in done.err
    assert (cli.folder / "written").read_text() == "x"
    assert cli.run("replay", str(cli.data), "notes.py", "--writes", "--json").json()["same"] == 2
    assert (cli.folder / "written").read_text() == "xx"


def test_replay_of_redacted_arguments_is_skipped(cli: CliRunner, notes: Path) -> None:
    call(cli, "login", "user=me", "password=hunter2-canary")
    call(cli, "login", "user=me", "password=other-canary")
    assert "canary" not in (cli.data / RECORDINGS_FILE).read_text()
    done = cli.run("replay", str(cli.data), "notes.py")
    assert done.code == 1
    assert done.out.splitlines()[1:] == ["  skipped 2: its arguments were redacted"]
    assert "nothing could be compared" in done.err


def test_replay_of_secrets_in_answers_neither_compares_nor_prints_them(cli: CliRunner, notes: Path) -> None:
    call(cli, "issue", "user=me")
    change(notes, '"token": "token-1"', '"token": "token-2-canary"')
    done = cli.run("replay", str(cli.data), "notes.py")
    assert (done.code, done.out) == (0, "Notes.issue: 1 same\n")
    assert "1 redacted place not compared" in done.err
    change(notes, '"user": user', '"user": "you", "api_key": "key-canary"')
    done = cli.run("replay", str(cli.data), "notes.py")
    assert done.code == 1
    assert "/value/user" in done.out
    assert "canary" not in done.out + done.err


def test_replay_of_a_removed_tool_says_so(cli: CliRunner, notes: Path) -> None:
    call(cli, "find", "word=a")
    change(notes, "def find", "def search")
    done = cli.run("replay", str(cli.data), "notes.py")
    assert (done.code, done.out.splitlines()[0]) == (1, "Notes.find: 1 gone")
    assert cli.run("replay", str(cli.data), "notes.py", "--json").json()["gone"] == [{"tool": "Notes.find", "calls": 1}]


def test_replay_with_a_filter_runs_only_those_tools(cli: CliRunner, notes: Path) -> None:
    file = save(cli, recording(), recording("Notes.gone@1.0.0"))
    assert cli.run("replay", file, "notes.py").code == 1
    done = cli.run("replay", file, "notes.py", "--tool", "Notes.f*")
    assert (done.code, done.out) == (0, "Notes.find: 1 same\n")
    done = cli.run("replay", file, "notes.py", "--tool", "Other.*")
    assert done.code == 1
    assert "0 recorded calls: none to run; nothing could be compared" in done.err


def test_replay_of_two_recordings_uses_the_newest(cli: CliRunner, notes: Path) -> None:
    wrong = recording(answer={"value": 7})
    for recordings, code in (
        ([recording(time=2.0), {**wrong, "time": 1.0}], 0),
        ([recording(time=1.0), {**wrong, "time": 2.0}], 1),
        ([{**wrong, "tool": "Notes.find@0.9.0"}, recording()], 0),
        ([recording(arguments={"word": "a", "limit": 1}), recording(arguments={"limit": 1.0, "word": "a"})], 0),
    ):
        done = cli.run("replay", save(cli, *recordings), "notes.py", "--json")
        assert (done.code, done.json()["repeated"]) == (code, 1)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"arguments": None, "omitted": ["/arguments"]}, "its arguments were too large to be recorded"),
        ({"answer": None, "omitted": ["/answer"]}, "its answer was too large to be recorded"),
        ({"answer": {"value": "[redacted]"}, "redacted": ["/answer/value"]}, "its answer was redacted"),
    ],
)
def test_replay_of_what_was_not_recorded_is_skipped(
    cli: CliRunner, notes: Path, stated: dict[str, Any], reason: str
) -> None:
    done = cli.run("replay", save(cli, recording(**stated)), "notes.py", "--json")
    assert done.code == 1
    assert done.json()["skipped"] == [{"tool": "Notes.find", "calls": 1, "reason": reason}]


def test_replay_of_tools_that_ask_skips_them(cli: CliRunner) -> None:
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
    (cli.folder / "asking.py").write_text(asking)
    file = save(cli, *(recording(f"asking.{name}@0.1.0", arguments={}) for name in ("ask", "risky")))
    skipped = cli.run("replay", file, "asking.py", "--json").json()["skipped"]
    assert all("nobody to ask" in each["reason"] for each in skipped)
    assert [each["tool"] for each in skipped] == ["asking.ask", "asking.risky"]


def test_replay_of_an_own_hall_leaves_it_alone(cli: CliRunner, notes: Path) -> None:
    own = '\nfrom toolhall import Config, Toolhall\nhall = Toolhall(Notes, config=Config(data="own", record=("*",)))\n'
    notes.write_text(TOOLS + own)
    done = cli.run("replay", save(cli, recording()), "notes.py")
    assert (done.code, done.out) == (0, "Notes.find: 1 same\n")
    assert recorded(cli.folder / "own") == []
    assert (cli.folder / "own" / RECORDINGS_FILE).read_text() == ""


def test_replay_of_broken_lines_counts_them(cli: CliRunner, notes: Path) -> None:
    deep = json.dumps(recording()).replace('"a"', "[" * 300 + "]" * 300)
    file = save(cli, recording(), '{"time":1.0,"tool":"No', "", "[]", '{"time":"x"}', recording(arguments=3), deep)
    done = cli.run("replay", file, "notes.py")
    assert done.code == 0
    assert "1 recorded call: 1 same; 5 lines could not be read" in done.err


def test_replay_of_hidden_characters_shows_them(cli: CliRunner, notes: Path) -> None:
    file = save(cli, recording(arguments={"word": "a\u202eb\x1b[2J"}), recording("No\u202e.tool@1.0.0"))
    done = cli.run("replay", file, "notes.py")
    assert done.code == 1
    assert "\u202e" not in done.out
    assert "\x1b" not in done.out
    assert "<U+202E>" in done.out


def test_replay_of_long_values_cuts_them(cli: CliRunner, notes: Path) -> None:
    done = cli.run("replay", save(cli, recording(answer={"value": "x" * 5_000})), "notes.py")
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
def test_replay_with_wrong_usage_names_the_fix(
    cli: CliRunner, notes: Path, words: list[str], code: int, said: str
) -> None:
    save(cli, recording())
    done = cli.run("replay", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()


def test_recording_with_the_setting_alone_records(cli: CliRunner, notes: Path) -> None:
    (cli.folder / "toolhall.toml").write_text('record = ["Notes.find"]\n')
    assert cli.run("call", "Notes_find", "word=a", "notes.py").code == 0
    assert cli.run("replay", str(cli.data), "notes.py").code == 0
