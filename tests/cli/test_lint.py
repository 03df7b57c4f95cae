"""`toolhall lint`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell

VECTORS = Path(__file__).parents[1] / "vectors"
SAYS = "Find the weather of a place."


def tool(**stated: Any) -> dict[str, Any]:
    return {"name": "get_weather", "description": SAYS, "inputSchema": {"type": "object"}, **stated}


@pytest.fixture
def folder(shell: Shell) -> Path:
    """Files with errors, with a warning, and with nothing wrong."""
    (shell.folder / "good.json").write_text(json.dumps([tool()]))
    (shell.folder / "warned.json").write_text(json.dumps({"tools": [tool(name="a"), tool(name="b", description="Hm")]}))
    lines = [json.dumps(each) for each in (tool(name="c"), {"name": "d", "inputSchema": 1}, tool())]
    (shell.folder / "bad.jsonl").write_text("\n".join([*lines, "{nope}"]))
    return shell.folder


def test_nothing_wrong(shell: Shell, folder: Path) -> None:
    done = shell.run("lint", "good.json")
    assert (done.code, done.out, done.err) == (0, "", "0 errors and 0 warnings in 1 document\n")
    assert shell.run("lint", "good.json", "--json").json() == []


def test_a_warning_alone_is_no_failure(shell: Shell, folder: Path) -> None:
    done = shell.run("lint", "warned.json")
    place = "warned.json:1: document 1, /description: warning: "
    assert done.code == 0
    assert done.out == f"{place}say what the tool does and when to use it [tool/description-short]\n"
    assert done.err == "0 errors and 1 warning in 2 documents\n"


def test_errors_in_several_files(shell: Shell, folder: Path) -> None:
    done = shell.run("lint", "good.json", "warned.json", "bad.jsonl", "--json")
    assert done.code == 1
    assert done.complaint() == "toolhall: 3 errors and 1 warning in 7 documents"
    found = done.json()
    assert [(each["file"], each["line"], each["index"], each["rule"], each["severity"]) for each in found] == [
        ("warned.json", 1, 1, "tool/description-short", "warning"),
        ("bad.jsonl", 2, 1, "mcp/missing", "error"),
        ("bad.jsonl", 3, 2, "tool/id-twice", "error"),
        ("bad.jsonl", 4, 3, "json/malformed", "error"),
    ]
    assert found[1]["path"] == "/inputSchema"
    assert "good.json:1" in found[2]["fix"]
    assert all(each["fix"] for each in found)


def test_a_file_that_is_no_json_does_not_keep_the_others_back(shell: Shell, folder: Path) -> None:
    (folder / "broken.json").write_text('{"tools":\n [}')
    done = shell.run("lint", "broken.json", "warned.json")
    assert done.code == 1
    assert [line.partition(": document")[0] for line in done.out.splitlines()] == ["broken.json:2", "warned.json:1"]
    assert done.complaint() == "toolhall: 1 error and 1 warning in 3 documents"


def test_what_looks_like_nothing_names_the_option_to_use(shell: Shell) -> None:
    done = shell.run("lint", "-", text='{"title": "x"}')
    assert "this looks like no known definition; say what it is: --from mcp, " in done.out


def test_the_standard_input_and_a_stated_dialect(shell: Shell) -> None:
    text = (VECTORS / "oxp/calculator_add.json").read_text()
    assert shell.run("lint", "-", text=text).code == 0
    done = shell.run("lint", "-", "--from", "machine", "--json", text=text)
    assert done.code == 1
    assert all(each["file"] == "<stdin>" for each in done.json())
    assert any(each["rule"].startswith("machine/") for each in done.json())


def test_another_tool_in_another_file(shell: Shell, folder: Path) -> None:
    (folder / "other.json").write_text(json.dumps(tool(name="e", description="Call this before get_weather.")))
    done = shell.run("lint", "other.json", "good.json")
    assert (done.code, done.out.count("\n")) == (0, 1)
    assert done.out.startswith("other.json:1: document 0, /description: warning: ")
    assert "get_weather" in done.out


def test_what_hides_is_shown(shell: Shell) -> None:
    done = shell.run(
        "lint", "-", text=json.dumps(tool(inputSchema={"type": "object", "properties": {"a\u202eb": True}}))
    )
    assert "/inputSchema/properties/a<U+202E>b: warning: " in done.out
    assert "\u202e" not in done.out


def test_colours_on_a_terminal(shell: Shell, folder: Path) -> None:
    with shell.terminal("lint", "warned.json") as terminal:
        code, shown = terminal.end()
    assert code == 0
    assert "\x1b[33m warning: \x1b[0m" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "lint needs a file"),
        (["missing.json"], "there is no file missing.json"),
        (["good.json", "."], ". is a folder"),
        (["good.json", "--from", "openai"], "use one of mcp"),
        (["--nope"], "there is no option --nope"),
    ],
)
def test_wrong_usage(shell: Shell, folder: Path, words: list[str], said: str) -> None:
    done = shell.run("lint", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.complaint()
