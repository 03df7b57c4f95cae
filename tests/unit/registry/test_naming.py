"""What each dialect calls a tool, and which tool is meant by what a dialect says."""

import pytest

from tests.unit.builders import FixedResultRunner, tool_named
from toolhall.model.names import ToolId
from toolhall.registry.registry import DIALECT_NAMINGS, MAX_REMEMBERED, Registry, dialect_names
from toolhall.registry.snapshot import Entry, compile_entry


def entry(toolkit: str, tool: str, version: str, name: str) -> Entry:
    return compile_entry(tool_named(name, id=ToolId(toolkit, tool, version)), FixedResultRunner())


OLD, NEW = entry("pay-roll", "run", "1.0.0", "pay-roll_run"), entry("pay-roll", "run", "1.2.0", "pay-roll_run")
DATED = entry("Diary", "look", "20260401", "Diary_look")


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.add([OLD, NEW, DATED])
    return registry


def test_dialect_names_of_a_tool_differ_by_dialect() -> None:
    assert dialect_names(NEW.tool) == {
        "mcp": "pay-roll_run",
        "machine": "pay-roll.run",
        "hub": "pay-roll.run",
        "oxp": "pay_roll.run",
        "openapi": "pay-roll/run",
    }


@pytest.mark.parametrize("dialect", DIALECT_NAMINGS)
def test_dialect_name_of_a_tool_finds_the_tool(registry: Registry, dialect: str) -> None:
    for each in (NEW, DATED):
        assert registry.dialect_names.find(dialect, DIALECT_NAMINGS[dialect].name_parts(each.tool)) is each
    assert registry.dialect_names.find(dialect, ("nothing",)) is None


@pytest.mark.parametrize("dialect", DIALECT_NAMINGS)
def test_dialect_name_with_version_range_finds_the_newest_match(registry: Registry, dialect: str) -> None:
    find, spelling = registry.dialect_names.find, DIALECT_NAMINGS[dialect]
    name = spelling.name_parts(OLD.tool)
    assert find(dialect, name, "1.0.0") is OLD
    assert find(dialect, name, "^1.0") is find(dialect, name, "~1.2") is find(dialect, name, "1") is NEW
    assert find(dialect, name, "~1.0") is OLD
    assert find(dialect, name, "2") is None
    assert find(dialect, spelling.name_parts(DATED.tool), spelling.format_version("20260401")) is DATED


def test_dialect_names_follow_registry_changes(registry: Registry) -> None:
    registry.remove(NEW.id)
    assert registry.dialect_names.find("hub", ("pay-roll", "run")) is OLD
    registry.remove(OLD.id)
    assert registry.dialect_names.find("hub", ("pay-roll", "run")) is None


def test_dialect_names_remember_a_bounded_number_of_spellings(registry: Registry) -> None:
    names, name = registry.dialect_names, ("pay-roll", "run")
    remembered: dict[object, Entry] = vars(names)["_found"]
    for number in range(MAX_REMEMBERED + 10):
        assert names.find("hub", name, f"^1.0.{number}") is NEW
        assert names.find("hub", ("nothing", str(number))) is None
        assert len(remembered) <= MAX_REMEMBERED
    for spelling in ("^" + "0" * 100_000 + "1", "1." + "0" * 100_000, "1.0.0" + " " * 100_000):
        assert names.find("hub", name, spelling) is None, "a long spelling would be remembered"
