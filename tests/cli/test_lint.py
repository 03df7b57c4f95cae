"""`toolhall lint`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import CliRunner

VECTORS = Path(__file__).parents[1] / "vectors"
SAYS = "Find the weather of a place."


def tool(**stated: Any) -> dict[str, Any]:
    return {"name": "get_weather", "description": SAYS, "inputSchema": {"type": "object"}, **stated}


@pytest.fixture
def folder(cli: CliRunner) -> Path:
    """Files with errors, with a warning, and with nothing wrong."""
    (cli.folder / "good.json").write_text(json.dumps([tool()]))
    (cli.folder / "warned.json").write_text(json.dumps({"tools": [tool(name="a"), tool(name="b", description="Hm")]}))
    lines = [json.dumps(each) for each in (tool(name="c"), {"name": "d", "inputSchema": 1}, tool())]
    (cli.folder / "bad.jsonl").write_text("\n".join([*lines, "{nope}"]))
    return cli.folder


def test_lint_of_a_good_document_finds_nothing(cli: CliRunner, folder: Path) -> None:
    done = cli.run("lint", "good.json")
    assert (done.code, done.out, done.err) == (0, "", "0 errors and 0 warnings in 1 document\n")
    assert cli.run("lint", "good.json", "--json").json() == []


def test_lint_with_warnings_only_succeeds(cli: CliRunner, folder: Path) -> None:
    done = cli.run("lint", "warned.json")
    place = "warned.json:1: document 1, /description: warning: "
    assert done.code == 0
    assert done.out == f"{place}say what the tool does and when to use it [tool/description-short]\n"
    assert done.err == "0 errors and 1 warning in 2 documents\n"


def test_lint_of_several_files_lists_the_errors_of_each(cli: CliRunner, folder: Path) -> None:
    done = cli.run("lint", "good.json", "warned.json", "bad.jsonl", "--json")
    assert done.code == 1
    assert done.error_line() == "toolhall: 3 errors and 1 warning in 7 documents"
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


def test_lint_of_a_file_that_is_not_json_checks_the_others(cli: CliRunner, folder: Path) -> None:
    (folder / "broken.json").write_text('{"tools":\n [}')
    done = cli.run("lint", "broken.json", "warned.json")
    assert done.code == 1
    assert [line.partition(": document")[0] for line in done.out.splitlines()] == ["broken.json:2", "warned.json:1"]
    assert done.error_line() == "toolhall: 1 error and 1 warning in 3 documents"


def test_lint_of_an_unknown_dialect_names_the_option(cli: CliRunner) -> None:
    done = cli.run("lint", "-", text='{"title": "x"}')
    assert "this looks like no known definition; say what it is: --from mcp, " in done.out


def test_lint_of_stdin_with_a_stated_dialect_checks_it(cli: CliRunner) -> None:
    text = (VECTORS / "oxp/calculator_add.json").read_text()
    assert cli.run("lint", "-", text=text).code == 0
    done = cli.run("lint", "-", "--from", "machine", "--json", text=text)
    assert done.code == 1
    assert all(each["file"] == "<stdin>" for each in done.json())
    assert any(each["rule"].startswith("machine/") for each in done.json())


def test_lint_of_the_same_tool_in_two_files_finds_the_conflict(cli: CliRunner, folder: Path) -> None:
    (folder / "other.json").write_text(json.dumps(tool(name="e", description="Call this before get_weather.")))
    done = cli.run("lint", "other.json", "good.json")
    assert (done.code, done.out.count("\n")) == (0, 1)
    assert done.out.startswith("other.json:1: document 0, /description: warning: ")
    assert "get_weather" in done.out


def test_lint_of_hidden_characters_shows_them(cli: CliRunner) -> None:
    done = cli.run("lint", "-", text=json.dumps(tool(inputSchema={"type": "object", "properties": {"a\u202eb": True}})))
    assert "/inputSchema/properties/a<U+202E>b: warning: " in done.out
    assert "\u202e" not in done.out


def test_lint_at_terminal_prints_colours(cli: CliRunner, folder: Path) -> None:
    code, shown, _ = cli.run("lint", "warned.json", terminal=True)
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
def test_lint_with_wrong_usage_names_the_fix(cli: CliRunner, folder: Path, words: list[str], said: str) -> None:
    done = cli.run("lint", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.error_line()


def test_lint_of_a_file_of_servers_names_packages_without_a_version_and_what_is_not_read(
    cli: CliRunner, tmp_path: Path
) -> None:
    file = tmp_path / "servers.json"
    file.write_text(
        '{"mcpServers": {\n  "files": {"command": "npx", "args": ["-y", "files"], "alwaysAllow": ["x"]},\n'
        '  "bad": {},\n  "waits": {"url": "https://a.example", "headers": {"X": "${NOT_SET_HERE}"}}, // comment\n}}'
    )
    done = cli.run("lint", str(file), "--json")
    assert done.code == 1
    assert [(each["line"], each["rule"], each["path"]) for each in done.json()] == [
        (2, "client-file/not-read", "/mcpServers/files/alwaysAllow"),
        (2, "client-file/risk", "/files"),
        (3, "client-file/unusable", "/bad"),
        (4, "client-file/variable", "/waits"),
    ]
