"""Anthropic tool definitions."""

import pytest

from tests.tables import each_row
from tests.unit.dialects.model_apis.api_checks import NAME, check_anthropic, check_losses
from tests.unit.dialects.model_apis.sample_tools import FIND, FORECAST, MOVE, NOTHING, SAMPLES, TREE, corpora, tool
from toolhall.dialects.base import Loss
from toolhall.dialects.model_apis import anthropic
from toolhall.model.tool import Tool


def test_anthropic_definition() -> None:
    written = anthropic.write((FORECAST, MOVE))
    assert written.documents == [
        {
            "name": "Weather_forecast",
            "description": "Forecast the weather for a city.",
            "input_schema": FORECAST.input,
        },
        {"name": "Files_move", "description": "Move a file.", "input_schema": MOVE.input},
    ]
    assert {loss.path for loss in written.losses} == {
        "/0/title", "/0/outputSchema", "/0/annotations", "/0/icons", "/0/level", "/0/requirements", "/0/_meta",
        "/0/tags", "/0/toolkit/description", "/0/version",
    }  # fmt: skip


def test_anthropic_tool_without_parameters() -> None:
    (document,) = anthropic.write((NOTHING,)).documents
    assert document == {
        "name": "System_get_timestamp",
        "input_schema": {"type": "object", "additionalProperties": False, "properties": {}},
    }


def test_anthropic_recursion_is_cut() -> None:
    written = anthropic.write((TREE,))
    tree = written.documents[0]["input_schema"]["properties"]["tree"]
    assert tree["properties"]["branches"] == {"type": "array", "items": {"type": "object"}}
    place = "/inputSchema/$defs/Tree/properties/branches/items/$ref"
    assert written.losses == [Loss(place, "anthropic gets no references; this one is not followed")]


def test_anthropic_root_alternatives_become_one_object() -> None:
    (document,) = anthropic.write((FIND,)).documents
    assert document["input_schema"]["required"] == ["by"]
    assert document["description"].endswith("Give exactly one of these: by and id, or by and mail.")


def test_anthropic_refused_member_names_are_described() -> None:
    members = {"filter[id]": {"type": "string"}, "ok.name": {"type": "object", "properties": {"$in": {}}}}
    schema = {"type": "object", "properties": members, "required": ["filter[id]"], "additionalProperties": False}
    written = anthropic.write((tool(schema),))
    (document,) = written.documents
    assert document["input_schema"] == {
        "type": "object",
        "properties": {"ok.name": members["ok.name"]},
        "required": [],
    }
    assert document["description"] == "D.\n\nIt also takes these, which are not described: 'filter[id]'."
    assert [loss.path for loss in written.losses] == ["/inputSchema/properties/filter[id]"]


@each_row("of", SAMPLES)
def test_anthropic_accepts_samples(of: Tool) -> None:
    written = anthropic.write((of,))
    check_anthropic(written.documents[0]["input_schema"])
    check_losses(of, written.losses)


def test_anthropic_accepts_corpora() -> None:
    for of in corpora() or pytest.skip("no corpora here"):
        (document,) = (written := anthropic.write((of,))).documents
        assert NAME.fullmatch(document["name"])
        check_anthropic(document["input_schema"])
        check_losses(of, written.losses)
