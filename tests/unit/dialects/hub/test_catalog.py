"""Declarations of tool servers: the whole tool arrives at the hall."""

from typing import Any

import msgspec
import pytest

from tests.tables import each_row
from toolhall import Annotations, Context, Toolkit, tool
from toolhall.authoring.definition import definitions_of
from toolhall.dialects.convert import lossless
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.hub import catalog
from toolhall.dialects.hub.catalog import TOOL_KEY, write_declaration
from toolhall.model.json import JsonObject


class Calendar(Toolkit, version="1.2.0", level=5, secrets=("KEY",), account="google:calendar", tags=["time"]):
    """Read and change a calendar."""

    @tool(
        effect="writes", timeout=3, title="Create it", annotations=Annotations(idempotent=True), meta={"color": "red"}
    )
    async def create(self, ctx: Context, title: str, days: int = 3) -> dict[str, int]:
        """Create an entry."""
        ctx.progress(days)
        return {title: days}

    @tool(name="drop_all", user_id=True, level=8)
    def drop(self) -> None:
        """Drop everything."""

    @tool(level=0)
    def plain(self, title: str) -> str:
        return title


@tool
def alone(city: str) -> int:
    """A function outside a toolkit is published by its bare name."""
    return len(city)


@pytest.mark.parametrize("target", [Calendar, alone])
def test_declaration_round_trip_is_exact(target: object) -> None:
    tools = tuple(each.tool for each in definitions_of(target))
    document = write_declaration(tools)
    read = lossless.read(document, catalog)
    assert tuple(msgspec.structs.replace(each, remainder=None) for each in read) == tools
    assert lossless.write(read, catalog) == document


def test_declaration_plain_has_no_extension() -> None:
    (found,) = lossless.read({"tool": {"name": "a", "version": "1.0.0", "capabilities": {"methods": ["b"]}}}, catalog)
    assert TOOL_KEY not in write_declaration((found,))["tool"]["capabilities"]["methods"][0]


@each_row(
    ("said", "fault"),
    [
        ({"level": 11}, "level"),
        ({"level": "5"}, "level"),
        ({"timeout": 0}, "timeout"),
        ({"effect": "explodes"}, "effect"),
        ({"lvel": 5}, "lvel"),
        ({"name": "no/slash"}, "cannot be published"),
        ({"requirements": {"secrets": [{}]}}, "give 'id' as a text"),
        ({"returns": {"type": "nonsense"}}, "/tool/capabilities/methods/0"),
        ("text", "write an object"),
    ],
)
def test_declaration_invalid_extension_is_refused_with_path(said: Any, fault: str) -> None:
    methods: list[JsonObject] = [{"name": "b", "params": {}, TOOL_KEY: said}]
    document = {"tool": {"name": "a", "version": "1.0.0", "capabilities": {"methods": methods}}}
    with pytest.raises(BadDocument, match=fault) as refused:
        lossless.read(document, catalog)
    assert all(finding.path.startswith("/tool/capabilities/methods/0") for finding in refused.value.findings)
