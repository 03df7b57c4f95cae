"""Conversion to write-only dialects: every tool arrives, and losses point into the source."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.catalogs import DIALECTS, WRITE_ONLY_CATALOGS, detect_dialect
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.convert.export import write_tools
from toolhall.dialects.convert.targets import ConversionResult
from toolhall.dialects.findings import BadDocument
from toolhall.model.errors import Malformed

VECTORS = Path(__file__).parents[3] / "vectors"
CALCULATOR = json.loads((VECTORS / "machine/calculator.json").read_text())
FREE_FORM = {  # an object whose members are not known: strict mode would refuse them all
    "name": "label",
    "description": "Label.",
    "inputSchema": {"type": "object", "properties": {"labels": {"type": "object"}}, "additionalProperties": False},
}


def converted(given: list[Any], target: str) -> list[ConversionResult]:
    converter = Converter(target)
    found = [each for index, part in enumerate(given) for each in converter.feed(part, index)]
    return [*found, *converter.finish()]


def resolve(document: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


@each_row("target", [name for name in WRITE_ONLY_CATALOGS if "strict" not in name])
def test_target_toolkit_writes_every_tool(target: str) -> None:
    documents = [document for part in converted([CALCULATOR], target) for document in part.documents]
    assert documents == write_tools(target, detect_dialect(CALCULATOR).read(CALCULATOR)).documents


@pytest.mark.parametrize("target", WRITE_ONLY_CATALOGS)
@pytest.mark.parametrize(
    "file", sorted(VECTORS.glob("*/[!m]*.json")), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_target_loss_pointers_resolve_in_source(file: Path, target: str) -> None:
    document = json.loads(file.read_text())
    try:
        parts = converted([document], target)
    except BadDocument as refused:
        assert "strict" in target
        for finding in refused.findings:
            resolve(document, finding.path)
        return
    for part in parts:
        for loss in part.losses:
            resolve(document, loss.path)


def test_target_loss_pointers_use_source_members() -> None:
    (part,) = converted([CALCULATOR], "anthropic")
    assert {loss.path for loss in part.losses} == {
        "/name",
        "/description",
        "/metadata",
        "/version",
        "/securityLevel",
        "/capabilities/0/return/schema",
        "/capabilities/1/return/schema",
    }


def test_target_openapi_is_one_document() -> None:
    other = {**FREE_FORM, "icons": [{"src": "https://example.com/i.png"}]}
    parts = converted([CALCULATOR, FREE_FORM, other | {"name": "other"}], "openapi")
    assert [len(part.documents) for part in parts] == [1, 0, 0]
    assert len(parts[0].documents[0]["paths"]) == 4
    assert [[loss.path for loss in part.losses] for part in parts[1:]] == [[], ["/icons"]]


def test_target_openapi_without_tools_writes_nothing() -> None:
    assert converted([], "openapi") == []


def test_target_strict_refusal_points_into_source() -> None:
    with pytest.raises(BadDocument) as refused:
        converted([FREE_FORM], "openai@strict")
    assert [finding.path for finding in refused.value.findings] == ["/inputSchema/properties/labels"]


def test_target_write_only_uses_loss_record() -> None:
    there = [document for part in converted([CALCULATOR], "oxp") for document in part.documents]
    assert len(there) == 2
    direct, around = converted([CALCULATOR], "openai"), converted(there, "openai")
    assert [part.documents for part in around] == [part.documents for part in direct]


def test_target_unknown_dialect_lists_dialects() -> None:
    with pytest.raises(Malformed, match="use one of"):
        Converter("esperanto")
    assert set(WRITE_ONLY_CATALOGS) < set(DIALECTS)
