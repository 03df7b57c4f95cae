"""Translation between all dialects: exact round trips, and every loss listed."""

import copy
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.base import Loss
from toolhall.dialects.catalogs import CATALOGS, detect_dialect, readable_catalog
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.convert.targets import ConversionResult
from toolhall.dialects.convert.translate import LOSS_RECORD_VERSION, detach_loss_record
from toolhall.dialects.findings import BadDocument
from toolhall.model.errors import Malformed

VECTORS = Path(__file__).parents[3] / "vectors"
FILES = sorted(file for file in VECTORS.glob("*/*.json") if not file.stem.startswith("messages"))


def converted(given: list[Any], target: str, source: str | None = None) -> list[ConversionResult]:
    converter = Converter(target, source)
    found = [each for index, part in enumerate(given) for each in converter.feed(copy.deepcopy(part), index)]
    return [*found, *converter.finish()]


def documents(parts: list[ConversionResult]) -> list[Any]:
    return [document for part in parts for document in part.documents]


def losses(parts: list[ConversionResult]) -> list[Loss]:
    return [loss for part in parts for loss in part.losses]


@each_row(
    ("file", "target"),
    [(file, target) for file, target in product(FILES, CATALOGS) if target.partition("@")[0] != file.parent.name],
)
def test_translate_round_trip_is_exact(file: Path, target: str) -> None:
    original = json.loads(file.read_text())
    source = detect_dialect(original).name
    there = documents(converted([original], target, source))
    for document in there:
        bare, _ = detach_loss_record(document, CATALOGS[target])
        CATALOGS[target].read(bare)  # a reader that drops the carrier gets a valid document
    back = documents(converted(there, source, target))
    assert back == [original]
    assert json.dumps(back, sort_keys=True) == json.dumps([original], sort_keys=True), "1, 1.0 and true are told apart"


@each_row("file", FILES)
def test_translate_same_dialect_is_unchanged(file: Path) -> None:
    original = json.loads(file.read_text())
    source = detect_dialect(original).name
    parts = converted([original], source, source)
    assert documents(parts) == [original]
    assert losses(parts) == []


def test_translate_through_all_dialects_is_exact() -> None:
    original = json.loads((VECTORS / "machine/calculator.json").read_text())
    there = [original]
    for target in ("hub", "oxp", "mcp@2025-06-18", "mcp@2026-07-28", "machine"):
        there = documents(converted(there, target))
    assert there == [original]


def test_translate_losses_point_into_source() -> None:
    original = json.loads((VECTORS / "machine/calculator.json").read_text())
    paths = [loss.path for loss in losses(converted([original], "mcp@2026-07-28"))]
    assert paths == [
        "/name",
        "/description",
        "/metadata",
        "/capabilities/0/return/description",
        "/capabilities/1/return/description",
    ]


def test_translate_edited_field_wins_over_record() -> None:
    original = json.loads((VECTORS / "mcp/everything.json").read_text())
    (machine,) = documents(converted([original], "machine"))
    machine["capabilities"][0]["description"] = "edited"
    machine["capabilities"][0]["parameters"][0]["description"] = "edited too"
    (back,) = documents(converted([machine], "mcp@2026-07-28", "machine"))
    assert back["description"] == "edited"
    assert back["inputSchema"]["properties"]["query"]["description"] == "edited too"
    assert back["inputSchema"]["properties"]["query"]["minLength"] == 1, "what the edit does not touch is restored"
    assert back["annotations"] == original["annotations"]


def test_translate_split_toolkit_is_joined_when_complete() -> None:
    original = json.loads((VECTORS / "machine/calculator.json").read_text())
    add, subtract = documents(converted([original], "oxp"))
    (half,) = documents(converted([subtract], "machine"))
    assert [part["name"] for part in half["capabilities"]] == ["subtract"]
    assert half["name"] == "Calculator Tool"
    assert documents(converted([subtract, add], "machine")) == [original], "in any order"


def test_translate_foreign_record_is_data() -> None:
    document = json.loads((VECTORS / "mcp/get_weather.json").read_text())
    carriers: list[Any] = [{"from": "nowhere"}, {"v": 99, "from": "machine"}, {"from": "machine", "group": 3}, [], "x"]
    for carrier in carriers:
        strange = {**document, "_meta": {"dev.toolhall/carrier": carrier}}
        assert documents(converted([strange], "oxp"))[0]["id"] == "get_weather.get_weather@0.1.0"


def test_translate_record_of_other_version_is_data() -> None:
    (oxp,) = documents(converted([json.loads((VECTORS / "mcp/everything.json").read_text())], "oxp"))
    oxp["requirements"]["x-toolhall"]["v"] = LOSS_RECORD_VERSION + 1
    (back,) = documents(converted([oxp], "mcp@2026-07-28", "oxp"))
    assert "annotations" not in back


def test_translate_removed_tool_drops_its_record() -> None:
    original = json.loads((VECTORS / "machine/calculator.json").read_text())
    (hub,) = documents(converted([original], "hub"))
    del hub["tool"]["capabilities"]["methods"][0]
    (back,) = documents(converted([hub], "machine"))
    assert back == {**original, "capabilities": original["capabilities"][1:]}


def test_translate_added_tool_is_kept() -> None:
    original = json.loads((VECTORS / "mcp/get_weather.json").read_text()) | {"x-note": 1}
    (machine,) = documents(converted([original], "machine"))
    machine["capabilities"].insert(0, {"name": "more", "description": "More."})
    more, back = documents(converted([machine], "mcp@2026-07-28", "machine"))
    assert (more["description"], back) == ("More.", original)


def test_translate_renamed_tool_keeps_its_record() -> None:
    original = json.loads((VECTORS / "mcp/get_weather.json").read_text()) | {"x-note": 1}
    (machine,) = documents(converted([original], "machine"))
    machine["capabilities"][0]["name"] = "renamed"
    (back,) = documents(converted([machine], "mcp@2026-07-28", "machine"))
    assert back["x-note"] == 1
    assert back["name"] == "get_weather_renamed"


def test_translate_reference_is_restored_completely_or_not() -> None:
    original = json.loads((VECTORS / "mcp/everything.json").read_text())
    (oxp,) = documents(converted([original], "oxp"))
    oxp["input_schema"]["parameters"]["properties"]["where"] = {"type": "string", "description": "A city."}
    (back,) = documents(converted([oxp], "mcp@2026-07-28", "oxp"))
    assert back["inputSchema"]["properties"]["where"] == {"type": "string", "description": "A city."}
    assert back["inputSchema"]["properties"]["query"] == original["inputSchema"]["properties"]["query"]


def test_translate_unwrapped_declaration_is_restored() -> None:
    original = json.loads((VECTORS / "hub/names_only.json").read_text())
    there = converted([original], "oxp")
    assert {loss.path for loss in losses(there)} == {
        "/version",
        "/capabilities/resources",
        "/capabilities/methods/0",
        "/capabilities/methods/1",
    }
    read, write = documents(there)
    read["version"] = write["version"] = "8.0.0"
    read["id"], write["id"] = "filesystem.read@8.0.0", "filesystem.write@8.0.0"
    (back,) = documents(converted([read, write], "hub"))
    assert back == original | {"version": "8.0.0"}


def test_translate_empty_parent_of_record_is_kept() -> None:
    for meta in ({}, {"dev.toolhall/carrier": {"from": "nowhere"}}):
        original = {"name": "n", "inputSchema": {"type": "object"}, "icons": [{"src": "data:,"}], "_meta": meta}
        there = documents(converted([original], "mcp@2025-06-18", "mcp@2026-07-28"))
        assert documents(converted(there, "mcp@2026-07-28", "mcp@2025-06-18")) == [original]


def test_detect_dialect_unknown_document_is_refused() -> None:
    strange: list[Any] = [{}, [], "x", None, {"title": "x"}]
    for document in strange:
        with pytest.raises(BadDocument, match="no known definition"):
            detect_dialect(document)


def test_catalogs_names_and_aliases_resolve() -> None:
    assert readable_catalog("mcp") is CATALOGS["mcp@2026-07-28"]
    with pytest.raises(Malformed, match="use one of mcp, mcp@"):
        readable_catalog("nothing")
