"""Definitions that real servers published are read as an upstream lists them: mended, or withheld with a reason."""

from pathlib import Path
from typing import Any

import pytest

from tests.corpora.corpora import FILES, OWN, definitions
from toolhall.model.upstream import Upstream, UpstreamListing, UpstreamSettings
from toolhall.registration.upstream_definitions import DefinitionReader, document_of, identified, own_name
from toolhall.schema.validator import Validator

EVERY = 12  # all of them were read once; a sample shows that it stays so
MOST_WITHHELD = 0.01
SOURCE = Upstream(name="Real", settings=UpstreamSettings(url="https://mcp.example.com"), source="file")


def as_listed(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition as a server of MCP lists it: a function's parameters are its input schema."""
    if "parameters" not in definition:
        return definition
    return {key: each for key, each in definition.items() if key != "parameters"} | {
        "inputSchema": definition["parameters"]
    }


@pytest.mark.parametrize("file", [file for file in FILES if file != OWN], ids=lambda file: file.stem)
def test_corpus_definitions_of_an_upstream_are_read_or_withheld_with_a_reason(file: Path) -> None:
    listed = tuple(as_listed(each) for each in definitions(file)[::EVERY])
    found = list(DefinitionReader().read(UpstreamListing(tools=listed, revision="2025-11-25")))
    assert len(found) == len(listed)
    assert all(each.findings for each in found if each.tool is None)
    assert sum(each.tool is None for each in found) <= 1 + MOST_WITHHELD * len(found)
    for each in found:
        if each.tool is not None:
            tool = identified(each, SOURCE, own_name(each, SOURCE.settings))
            Validator(tool.input)
            assert tool.name.startswith("Real_")
            assert len(tool.name) <= 64
            assert document_of(each, tool)


def test_own_corpus_read_as_tools_of_an_upstream_crashes_nothing() -> None:
    """Definitions of every dialect: most are no MCP, and each of those has a finding."""
    listed = tuple(definitions(OWN))
    for each in DefinitionReader().read(UpstreamListing(tools=listed, resources=listed, prompts=listed, revision="x")):
        assert each.tool is not None or each.findings
