"""The page about managing tools is a story, and every command on it works; the reference names every operation."""

import json
import re
from pathlib import Path
from typing import Any

from tests.harness.cli import CliRunner
from toolhall.dialects.openapi import paths

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = re.findall(r"^toolhall (tool .*)$", (DOCS / "how-to/manage-tools.md").read_text(), re.MULTILINE)
ASKING = ("activate", "rollback", "remove")


def definition(version: str, **more: Any) -> str:
    schema = {"type": "object", "properties": {"harbour": {"type": "string"}, **more}}
    meta = {"dev.toolhall/id": f"Tides.high@{version}"}
    return json.dumps({"name": "Tides_high", "description": "Say when.", "inputSchema": schema, "_meta": meta})


def test_managing_page_commands_all_work(tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    (tmp_path / "tides.json").write_text(definition("1.0.0"))
    (tmp_path / "tides-2.json").write_text(definition("1.1.0", day={"type": "string"}))
    for command in COMMANDS:
        words = command.split()
        done = cli.run(*words, *(["--yes"] if words[1] in ASKING else []))
        assert done.code == 0, (command, done)
    used = {command.split()[1] for command in COMMANDS}
    assert used == {"add", "show", "callers", "deprecate", "deactivate", "history", *ASKING}
    (left,) = cli.run("tool", "list", "--json").json()
    assert (left["id"], left["state"]) == ("Tides.high@1.1.0", "inactive")


def test_management_reference_names_every_operation() -> None:
    page = (DOCS / "reference/management.md").read_text()
    told = re.findall(r"^\| `([A-Z]+) ([^?`]+)", page, re.MULTILINE)
    described = [
        (method.upper(), path) for path, methods in paths.management_paths(["mcp"]).items() for method in methods
    ]
    assert sorted(told) == sorted(described)
    for member in paths.MANAGEMENT_SCHEMAS["RegisteredTool"]["properties"]:
        assert f"`{member}`" in page
