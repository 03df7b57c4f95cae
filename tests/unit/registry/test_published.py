"""What each dialect calls a tool, and which tool is meant by what a dialect says."""

import pytest

from tests.unit.parts import Returning, tool_named
from toolhall.model.names import ToolId
from toolhall.registry.entry import Entry, compile_entry
from toolhall.registry.published import SPELLINGS, names_of
from toolhall.registry.registry import Registry


def entry(toolkit: str, tool: str, version: str, name: str) -> Entry:
    return compile_entry(tool_named(name, id=ToolId(toolkit, tool, version)), Returning())


OLD, NEW = entry("pay-roll", "run", "1.0.0", "pay-roll_run"), entry("pay-roll", "run", "1.2.0", "pay-roll_run")
DATED = entry("Diary", "look", "20260401", "Diary_look")


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.add([OLD, NEW, DATED])
    return registry


def test_every_dialect_has_its_own_name() -> None:
    assert names_of(NEW.tool) == {
        "mcp": "pay-roll_run",
        "machine": "pay-roll.run",
        "hub": "pay-roll.run",
        "oxp": "pay_roll.run",
        "openapi": "pay-roll/run",
    }


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_every_name_leads_back_to_its_tool(registry: Registry, dialect: str) -> None:
    for each in (NEW, DATED):
        assert registry.published.find(dialect, SPELLINGS[dialect].name(each.tool)) is each
    assert registry.published.find(dialect, ("nothing",)) is None


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_versions_are_asked_for_as_the_dialect_spells_them(registry: Registry, dialect: str) -> None:
    find, spelling = registry.published.find, SPELLINGS[dialect]
    name = spelling.name(OLD.tool)
    assert find(dialect, name, "1.0.0") is OLD
    assert find(dialect, name, "^1.0") is find(dialect, name, "~1.2") is find(dialect, name, "1") is NEW
    assert find(dialect, name, "~1.0") is OLD
    assert find(dialect, name, "2") is None
    assert find(dialect, spelling.name(DATED.tool), spelling.version("20260401")) is DATED


def test_the_map_follows_the_registry(registry: Registry) -> None:
    registry.remove(NEW.id)
    assert registry.published.find("hub", ("pay-roll", "run")) is OLD
    registry.remove(OLD.id)
    assert registry.published.find("hub", ("pay-roll", "run")) is None
