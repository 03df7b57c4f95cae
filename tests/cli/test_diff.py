"""`toolhall diff`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell

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


def save(shell: Shell, name: str, document: Any) -> str:
    (shell.folder / name).write_text(json.dumps(document))
    return name


def test_a_version_that_is_too_small(shell: Shell) -> None:
    old = save(shell, "old.json", oxp("1.2.0"))
    new = save(shell, "new.json", oxp("1.3.0", description="Adds.", **needing("a", "b")))
    done = shell.run("diff", old, new)
    assert done.code == 1
    assert done.out.splitlines() == [
        "breaking",
        "  /inputSchema/required: no longer accepts objects without 'b'",
        "feature",
        "  /inputSchema/properties/b: also accepts the member 'b'",
        "fix",
        "  /description: the description changed",
    ]
    assert done.complaint() == (
        "toolhall: 3 changes: required major, declared minor; the next version is 2.0.0 at least"
    )
    done = shell.run("diff", old, new, "--json")
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


def test_a_version_that_is_large_enough(shell: Shell) -> None:
    old = save(shell, "old.json", oxp("1.2.0"))
    done = shell.run("diff", old, "-", text=json.dumps(oxp("2.0.0", **needing("b"))))
    assert done.code == 0
    assert done.err == "4 changes: required major, declared major\n"


def test_nothing_changed(shell: Shell) -> None:
    old = save(shell, "old.json", oxp("1.2.0"))
    done = shell.run("diff", old, old)
    assert (done.code, done.out, done.err) == (0, "", "no changes\n")
    assert shell.run("diff", "-", old, "--json", text=json.dumps(oxp("1.2.0"))).json() == {
        "required": "none",
        "declared": "none",
        "ok": True,
        "changes": [],
    }


def test_what_the_author_declares(shell: Shell) -> None:
    old, new = save(shell, "old.json", oxp("1.2.0")), save(shell, "new.json", oxp("1.2.1", description="Adds."))
    assert shell.run("diff", old, new).code == 0
    assert shell.run("diff", old, new, "--behaviour", "feature", "--json").json()["required"] == "minor"
    done = shell.run("diff", old, new, "--behaviour", "breaking")
    assert done.code == 1
    assert "  /: its author says that it behaves differently" in done.out


def test_definitions_without_versions_may_not_break(shell: Shell) -> None:
    old = save(shell, "old.json", {"tools": [mcp("a"), mcp("b")]})
    new = save(shell, "new.jsonl", mcp("b", description="Find it."))
    done = shell.run("diff", old, new)
    assert done.code == 1
    assert done.out.splitlines()[:2] == ["breaking", "  /tools/a: the tool is gone"]
    assert "without a version must not break" in done.complaint()
    assert shell.run("diff", new, old).code == 0


def test_mcp_states_its_version_in_metadata(shell: Shell) -> None:
    old, new = (mcp("K_a", _meta={"dev.toolhall/id": f"K.a@{version}"}) for version in ("1.0.0", "1.1.0"))
    done = shell.run("diff", save(shell, "old.json", old), save(shell, "new.json", new), "--json")
    assert (done.json()["declared"], done.json()["ok"]) == ("minor", True)


def test_another_dialect_changes_words_at_most(shell: Shell) -> None:
    source = str(VECTORS / "oxp/calculator_add.json")
    for target in ("mcp", "machine", "hub"):
        assert shell.run("convert", source, "--to", target, "--out", f"{target}.json").code == 0
        done = shell.run("diff", source, f"{target}.json", "--json")
        assert {change["kind"] for change in done.json()["changes"]} <= {"fix"}


def test_a_toolkit_by_its_capabilities(shell: Shell) -> None:
    def machine(version: str, *names: str) -> dict[str, Any]:
        capabilities = [{"name": name, "description": f"Do {name}.", "parameters": []} for name in names]
        known = {"id": "kit", "name": "Kit", "version": version, "description": "Does things."}
        return {**known, "securityLevel": 1, "capabilities": capabilities}

    old = save(shell, "old.json", machine("1.0.0", "a", "b"))
    done = shell.run("diff", old, save(shell, "new.json", machine("1.1.0", "b", "c")), "--json")
    assert (done.code, done.json()["required"], done.json()["declared"]) == (1, "major", "minor")
    assert [change["path"] for change in done.json()["changes"]] == ["/capabilities/a", "/capabilities/c"]


def test_what_hides_is_shown(shell: Shell) -> None:
    old = save(shell, "old.json", mcp("a"))
    new = save(shell, "new.json", mcp("a", inputSchema={"type": "object", "properties": {"a\u202eb": {}}}))
    done = shell.run("diff", old, new)
    assert "/inputSchema/properties/a<U+202E>b: " in done.out
    assert "\u202e" not in done.out


def test_what_cannot_be_read(shell: Shell) -> None:
    old, new = save(shell, "old.json", [mcp("a"), {"name": 7, "inputSchema": {}}]), save(shell, "new.json", mcp("a"))
    done = shell.run("diff", old, new)
    assert (done.code, done.out) == (1, "")
    assert done.complaint().startswith("toolhall: old.json:1: document 1, /")
    assert shell.run("diff", new, "-", text="{").code == 1


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
def test_wrong_usage(shell: Shell, words: list[str], said: str) -> None:
    save(shell, "old.json", mcp("a"))
    done = shell.run("diff", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.complaint()
