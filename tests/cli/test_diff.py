"""`toolhall diff`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import CliRunner

VECTORS = Path(__file__).parents[1] / "vectors"
NUMBER = {"type": "number", "description": "A number."}


def oxp(version: str, **stated: Any) -> dict[str, Any]:
    return {
        "id": f"Calculator.Add@{version}",
        "name": "Calculator_Add",
        "description": "Add numbers.",
        "version": version,
        "input_schema": {"parameters": {"type": "object", "properties": {"a": NUMBER}, "required": ["a"]}},
        "output_schema": {"type": "number"},
        **stated,
    }


def needing(*names: str) -> dict[str, Any]:
    members = dict.fromkeys(names, NUMBER)
    return {"input_schema": {"parameters": {"type": "object", "properties": members, "required": list(names)}}}


def mcp(name: str, **stated: Any) -> dict[str, Any]:
    return {"name": name, "description": "Find something.", "inputSchema": {"type": "object"}, **stated}


def save(cli: CliRunner, name: str, document: Any) -> str:
    (cli.folder / name).write_text(json.dumps(document))
    return name


def test_diff_with_too_small_a_version_fails(cli: CliRunner) -> None:
    old = save(cli, "old.json", oxp("1.2.0"))
    new = save(cli, "new.json", oxp("1.3.0", description="Adds.", **needing("a", "b")))
    done = cli.run("diff", old, new)
    assert done.code == 1
    assert done.out.splitlines() == [
        "breaking",
        "  /inputSchema/required: no longer accepts objects without 'b'",
        "feature",
        "  /inputSchema/properties/b: also accepts the member 'b'",
        "fix",
        "  /description: the description changed",
    ]
    assert done.error_line() == (
        "toolhall: 3 changes: required major, declared minor; the next version is 2.0.0 at least"
    )
    done = cli.run("diff", old, new, "--json")
    assert done.code == 1
    assert done.json() == {
        "required": "major",
        "declared": "minor",
        "ok": False,
        "changes": [
            {
                "kind": "breaking",
                "path": "/inputSchema/required",
                "reason": "no longer accepts objects without 'b'",
            },
            {"kind": "feature", "path": "/inputSchema/properties/b", "reason": "also accepts the member 'b'"},
            {"kind": "fix", "path": "/description", "reason": "the description changed"},
        ],
    }


def test_diff_with_a_sufficient_version_succeeds(cli: CliRunner) -> None:
    old = save(cli, "old.json", oxp("1.2.0"))
    done = cli.run("diff", old, "-", text=json.dumps(oxp("2.0.0", **needing("b"))))
    assert done.code == 0
    assert done.err == "4 changes: required major, declared major\n"


def test_diff_of_equal_definitions_says_no_changes(cli: CliRunner) -> None:
    old = save(cli, "old.json", oxp("1.2.0"))
    done = cli.run("diff", old, old)
    assert (done.code, done.out, done.err) == (0, "", "no changes\n")
    assert cli.run("diff", "-", old, "--json", text=json.dumps(oxp("1.2.0"))).json() == {
        "required": "none",
        "declared": "none",
        "ok": True,
        "changes": [],
    }


def test_diff_with_a_declared_version_compares_it(cli: CliRunner) -> None:
    old, new = save(cli, "old.json", oxp("1.2.0")), save(cli, "new.json", oxp("1.2.1", description="Adds."))
    assert cli.run("diff", old, new).code == 0
    assert cli.run("diff", old, new, "--behaviour", "feature", "--json").json()["required"] == "minor"
    done = cli.run("diff", old, new, "--behaviour", "breaking")
    assert done.code == 1
    assert "  /: its author says that it behaves differently" in done.out


def test_diff_of_definitions_without_versions_refuses_breaking_changes(cli: CliRunner) -> None:
    old = save(cli, "old.json", {"tools": [mcp("a"), mcp("b")]})
    new = save(cli, "new.jsonl", mcp("b", description="Find it."))
    done = cli.run("diff", old, new)
    assert done.code == 1
    assert done.out.splitlines()[:2] == ["breaking", "  /tools/a: the tool was removed"]
    assert "without a version must not break" in done.error_line()
    assert cli.run("diff", new, old).code == 0


def test_diff_of_mcp_reads_the_version_from_metadata(cli: CliRunner) -> None:
    old, new = (mcp("K_a", _meta={"dev.toolhall/id": f"K.a@{version}"}) for version in ("1.0.0", "1.1.0"))
    done = cli.run("diff", save(cli, "old.json", old), save(cli, "new.json", new), "--json")
    assert (done.json()["declared"], done.json()["ok"]) == ("minor", True)


def test_diff_between_dialects_finds_wording_at_most(cli: CliRunner) -> None:
    source = str(VECTORS / "oxp/calculator_add.json")
    for target in ("mcp", "machine", "hub"):
        assert cli.run("convert", source, "--to", target, "--out", f"{target}.json").code == 0
        done = cli.run("diff", source, f"{target}.json", "--json")
        assert {change["kind"] for change in done.json()["changes"]} <= {"fix"}


def test_diff_of_toolkits_compares_their_capabilities(cli: CliRunner) -> None:
    def machine(version: str, *names: str) -> dict[str, Any]:
        capabilities = [{"name": name, "description": f"Do {name}.", "parameters": []} for name in names]
        known = {"id": "kit", "name": "Kit", "version": version, "description": "Does things."}
        return {**known, "securityLevel": 1, "capabilities": capabilities}

    old = save(cli, "old.json", machine("1.0.0", "a", "b"))
    done = cli.run("diff", old, save(cli, "new.json", machine("1.1.0", "b", "c")), "--json")
    assert (done.code, done.json()["required"], done.json()["declared"]) == (1, "major", "minor")
    assert [change["path"] for change in done.json()["changes"]] == ["/capabilities/a", "/capabilities/c"]


def test_diff_of_hidden_characters_shows_them(cli: CliRunner) -> None:
    old = save(cli, "old.json", mcp("a"))
    new = save(cli, "new.json", mcp("a", inputSchema={"type": "object", "properties": {"a\u202eb": {}}}))
    done = cli.run("diff", old, new)
    assert "/inputSchema/properties/a<U+202E>b: " in done.out
    assert "\u202e" not in done.out


def test_diff_of_unreadable_files_says_so(cli: CliRunner) -> None:
    old, new = save(cli, "old.json", [mcp("a"), {"name": 7, "inputSchema": {}}]), save(cli, "new.json", mcp("a"))
    done = cli.run("diff", old, new)
    assert (done.code, done.out) == (1, "")
    assert done.error_line().startswith("toolhall: old.json:1: document 1, /")
    assert cli.run("diff", new, "-", text="{").code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "requires an argument"),
        (["old.json"], "requires an argument"),
        (["-", "-"], "only one of the two"),
        (["old.json", "missing.json"], "there is no file missing.json"),
        (["old.json", "old.json", "--behaviour", "fix"], "--behaviour"),
        (["old.json", "old.json", "--from", "openai"], "use one of mcp"),
    ],
)
def test_diff_with_wrong_usage_names_the_fix(cli: CliRunner, words: list[str], said: str) -> None:
    save(cli, "old.json", mcp("a"))
    done = cli.run("diff", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.error_line()
