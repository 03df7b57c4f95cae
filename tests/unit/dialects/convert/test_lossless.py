"""Lossless reading: unknown members stay with the tool, and a changed tool wins over them."""

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tables import each_row
from toolhall.dialects.catalogs import CATALOGS, detect_dialect
from toolhall.dialects.convert import lossless
from toolhall.dialects.findings import BadDocument
from toolhall.model.tool import ToolkitInfo

VECTORS = Path(__file__).parents[3] / "vectors"
FILES = sorted(file for file in VECTORS.glob("*/*.json") if not file.stem.startswith("messages"))
MODERN, JUNE = CATALOGS["mcp@2026-07-28"], CATALOGS["mcp@2025-06-18"]
MACHINE, HUB, OXP = CATALOGS["machine"], CATALOGS["hub"], CATALOGS["oxp"]
SEARCH: dict[str, Any] = {
    "name": "search",
    "inputSchema": {"type": "object"},
    "icons": [{"src": "data:,a", "x-note": 1}, {"src": "data:,b", "x-note": 2}],
    "x-unknown": [None, 1, 1.0, True],
}
CLOCK: dict[str, Any] = {
    "id": "clock",
    "name": "Clock",
    "version": "1.0.0",
    "description": "Tells the time.",
    "x-owner": "time team",
    "capabilities": [
        {
            "name": "now",
            "description": "Now.",
            "x-cost": 1,
            "parameters": [{"name": "zone", "description": "Zone.", "type": "string", "x-hint": "UTC"}],
        },
        {"name": "then", "description": "Then.", "x-cost": 2},
    ],
}


def find(path: str) -> Any:
    return json.loads((VECTORS / path).read_text())


@each_row("file", FILES)
def test_lossless_read_and_write_is_exact(file: Path) -> None:
    document = json.loads(file.read_text())
    catalog = detect_dialect(document)
    assert lossless.write(lossless.read(copy.deepcopy(document), catalog), catalog) == document


def test_lossless_fully_modelled_tool_has_no_remainder() -> None:
    (tool,) = lossless.read(find("mcp/get_weather.json"), MODERN)
    assert tool.remainder is None
    assert (tool,) == MODERN.read(find("mcp/get_weather.json"))


def test_lossless_remainder_is_ignored_by_other_dialects() -> None:
    (tool,) = lossless.read(SEARCH, MODERN)
    assert "x-unknown" not in json.dumps(lossless.write((tool,), OXP))
    assert lossless.write((tool,), OXP) == OXP.write((tool,))


def test_lossless_remainder_is_shared_by_revisions() -> None:
    (tool,) = lossless.read(SEARCH, MODERN)
    written = lossless.write((tool,), JUNE)
    assert written["x-unknown"] == SEARCH["x-unknown"]
    assert "icons" not in written, "this revision has none"


def test_lossless_removed_icon_leaves_no_members() -> None:
    (tool,) = lossless.read(SEARCH, MODERN)
    changed = msgspec.structs.replace(tool, icons=tool.icons[1:])
    assert lossless.write((changed,), MODERN)["icons"] == [{"src": "data:,b"}]


def test_lossless_parameter_is_matched_by_name() -> None:
    now, _ = lossless.read(CLOCK, MACHINE)
    properties = {"day": {"type": "number", "description": "Day."}, **now.input["properties"]}
    changed = msgspec.structs.replace(now, input={"type": "object", "properties": properties})
    day, zone = lossless.write((changed,), MACHINE)["capabilities"][0]["parameters"]
    assert (day["name"], "x-hint" in day) == ("day", False)
    assert (zone["name"], zone["x-hint"]) == ("zone", "UTC")


def test_lossless_toolkit_without_a_tool_is_written() -> None:
    _, then = lossless.read(CLOCK, MACHINE)
    assert lossless.write((then,), MACHINE) == {**CLOCK, "capabilities": [CLOCK["capabilities"][1]]}


def test_lossless_new_tool_joins_read_ones() -> None:
    now, then = lossless.read(CLOCK, MACHINE)
    fresh = msgspec.structs.replace(now, id=msgspec.structs.replace(now.id, tool="later"), remainder=None)
    written = lossless.write((fresh, then), MACHINE)
    assert "x-cost" not in written["capabilities"][0]
    assert written["capabilities"][1] == CLOCK["capabilities"][1]


def test_lossless_new_version_keeps_unknown_members() -> None:
    tools = lossless.read(CLOCK, MACHINE)
    newer = tuple(msgspec.structs.replace(tool, id=msgspec.structs.replace(tool.id, version="2.0.0")) for tool in tools)
    assert lossless.write(newer, MACHINE) == {**CLOCK, "version": "2.0.0"}


def test_lossless_unwrapped_declaration_stays_unwrapped() -> None:
    document = find("hub/names_only.json") | {"x-owner": "files team"}
    tools = lossless.read(document, HUB)
    newer = tuple(msgspec.structs.replace(tool, id=msgspec.structs.replace(tool.id, version="8")) for tool in tools)
    assert lossless.write(newer, HUB) == document | {"version": "8"}


def test_lossless_changed_schema_wins() -> None:
    document = find("oxp/calculator_add.json")
    direct = {**document, "input_schema": document["input_schema"]["parameters"]}
    (tool,) = lossless.read(direct, OXP)
    assert lossless.write((tool,), OXP) == direct
    other = {"type": "object", "properties": {"c": {"type": "string", "description": "C."}}}
    written = lossless.write((msgspec.structs.replace(tool, input=other),), OXP)
    assert OXP.read(written)[0].input == other


def test_lossless_changed_toolkit_description_wins() -> None:
    tools = lossless.read(CLOCK, MACHINE)
    about = ToolkitInfo(title="Watch", description="Shows the time.")
    written = lossless.write(tuple(msgspec.structs.replace(tool, about=about) for tool in tools), MACHINE)
    assert written == {**CLOCK, "name": "Watch", "description": "Shows the time."}


def declaring(params: Any) -> Any:
    methods = [{"name": "m", "params": params}]
    return {"tool": {"name": "t", "version": "1", "capabilities": {"methods": methods}}}


def returning(schema: Any) -> Any:
    return {**CLOCK, "capabilities": [{"name": "n", "description": "N.", "return": {"schema": schema}}]}


WORD = {"type": "object", "properties": {"a": {"type": "word"}}}
UNUSABLE = [
    ("mcp@2026-07-28", {**SEARCH, "inputSchema": WORD}, "/inputSchema/properties/a/type"),
    ("mcp@2026-07-28", {**SEARCH, "outputSchema": {"$ref": "https://example.org/x"}}, "/outputSchema/$ref"),
    ("hub", declaring({"pattern": "("}), "/tool/capabilities/methods/0/params/pattern"),
    ("oxp", {**find("oxp/doorbell_ring.json"), "output_schema": {"minimum": "1"}}, "/output_schema/minimum"),
    ("machine", returning({"type": 3}), "/capabilities/0/return/schema/type"),
]


@each_row(("name", "document", "path"), UNUSABLE)
def test_lossless_invalid_schema_is_refused_with_path(name: str, document: Any, path: str) -> None:
    with pytest.raises(BadDocument) as refused:
        lossless.read(document, CATALOGS[name])
    (finding,) = refused.value.findings
    assert finding.path == path
    assert finding.rule == f"{name.partition('@')[0]}/schema"


def test_lossless_deep_or_cyclic_schema_is_refused() -> None:
    deep: Any = {"type": "string"}
    for _ in range(20):
        deep = {"type": "array", "items": {"anyOf": [deep]}}
    loop = {"type": "object", "$ref": "#"}
    for schema in ({"type": "object", "properties": {"a": deep}}, loop):
        with pytest.raises(BadDocument, match="mcp/schema"):
            lossless.read({"name": "n", "inputSchema": schema}, MODERN)


def test_lossless_non_json_is_refused() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for strange in ({**SEARCH, "x": deep}, {**SEARCH, "x": object()}, {**SEARCH, "x": "\ud800"}):
        with pytest.raises(BadDocument, match="json/"):
            lossless.read(strange, MODERN)
    nested: Any = []
    for _ in range(70):
        nested = [nested]
    with pytest.raises(BadDocument, match="at most 64 levels"):
        lossless.read({**SEARCH, "x": nested}, MODERN)
