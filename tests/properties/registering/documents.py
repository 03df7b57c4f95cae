"""Definitions whose differences are known by how they are made, in several dialects, and code that says the same."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.unit.builders import tool_named
from toolhall.model.names import ToolId, safe_name
from toolhall.model.tool import Tool


class Recipe(NamedTuple):
    """What a tool says: another text is a fix, an offer more a feature, an offer less or another demand breaks."""

    words: int = 0
    offers: int = 0  # arguments that may be given
    demands: int = 0  # which argument must be given


class Draft(NamedTuple):
    """One document: a toolkit's tools in one version."""

    toolkit: str
    version: str
    tools: tuple[tuple[str, Recipe], ...]  # by name

    @property
    def dialect(self) -> str:
        return KITS[self.toolkit].dialect

    @property
    def whole(self) -> bool:
        """Whether a tool that is not in it is gone."""
        return self.dialect in ("machine", "hub")

    @property
    def recipes(self) -> dict[str, Recipe]:
        """By tool id."""
        return {f"{self.toolkit}.{name}@{self.version}": recipe for name, recipe in self.tools}

    @property
    def document(self) -> dict[str, Any]:
        return _WRITE[self.dialect](self)


class Kit(NamedTuple):
    """A toolkit from outside: its dialect, its tools, and what its name looks like to a person."""

    dialect: str
    names: tuple[str, ...]
    looks: str = ""
    versions: tuple[str, ...] = ("0.1.0", "0.1.1", "1.0.0", "1.0.1", "1.1.0", "2.0.0-rc.1", "2.0.0")


CYRILLIC = "\N{CYRILLIC CAPITAL LETTER IE}ye_look"
SAFE = safe_name(CYRILLIC)  # it says nothing but its name, so this is its id too
CODE = "Own"
NO_MARKS = ("0.1.0", "1.0.0", "1.0.1", "1.1.0", "2.0.0")
ONE = ("1.0.0",)
KITS: dict[str, Kit] = {
    "calc": Kit("machine", ("add", "sub")),
    "Wire": Kit("hub", ("go", "stop")),
    "Ox": Kit("oxp", ("pick",), versions=NO_MARKS),
    "Eye": Kit("mcp", ("look", "see")),
    "EYE": Kit("mcp@2025-11-25", ("LOOK",), "Eye.look", ONE),
    SAFE: Kit("mcp@2025-06-18", (SAFE,), "Eye.look", ("0.1.0",)),
    "file": Kit("machine", ("one", "two")),
    "also": Kit("machine", ("three",)),
    "own": Kit("mcp", ("run",), versions=ONE),  # like the code's, but for the case of a letter
    CODE: Kit("machine", ("run", "fly"), versions=("1.0.0", "3.0.0")),
}
CODE_NAMES = ("run", "stop")
CODE_VERSIONS = ("0.1.0", "1.0.0", "1.1.0", "2.0.0")
FILES = ("file", "also")


def look(key: str) -> str:
    """What people take a tool for."""
    toolkit, _, name = key.partition(".")
    kit = KITS.get(toolkit)
    return (kit.looks if kit and kit.looks else f"{toolkit}.{name}").casefold()


def code(tool_id: str, recipe: Recipe) -> Tool:
    """A tool of the operator's own."""
    toolkit, _, rest = tool_id.partition(".")
    name, _, version = rest.partition("@")
    shape = _schema(recipe)
    return tool_named(
        f"{toolkit}_{name}", id=ToolId(toolkit, name, version), description=_text(name, recipe), input=shape
    )


def _text(name: str, recipe: Recipe) -> str:
    return f"Does {name}, in {recipe.words} words."


def _arguments(recipe: Recipe) -> Mapping[str, bool]:
    """By name, whether it must be given."""
    return {f"demand{recipe.demands}": True, **{f"offer{number}": False for number in range(recipe.offers)}}


def _schema(recipe: Recipe) -> dict[str, Any]:
    given = _arguments(recipe)
    properties = {name: {"type": "string", "description": "Says it."} for name in given}
    return {"type": "object", "properties": properties, "required": [name for name, must in given.items() if must]}


def _machine(draft: Draft) -> dict[str, Any]:
    tools = [
        {
            "name": name,
            "description": _text(name, recipe),
            "parameters": [
                {"name": each, "description": "Says it.", "type": "string", "required": must}
                for each, must in _arguments(recipe).items()
            ],
        }
        for name, recipe in draft.tools
    ]
    about = {"name": draft.toolkit, "description": "A few tools.", "securityLevel": 1}
    return {"id": draft.toolkit, "version": draft.version, "capabilities": tools, **about}


def _hub(draft: Draft) -> dict[str, Any]:
    methods = [
        {"name": name, "description": _text(name, recipe), "params": _schema(recipe)} for name, recipe in draft.tools
    ]
    return {"tool": {"name": draft.toolkit, "version": draft.version, "capabilities": {"methods": methods}}}


def _oxp(draft: Draft) -> dict[str, Any]:
    ((name, recipe),) = draft.tools
    return {
        "id": f"{draft.toolkit}.{name}@{draft.version}",
        "name": f"{draft.toolkit}_{name}",
        "description": _text(name, recipe),
        "version": draft.version,
        "input_schema": {"parameters": _schema(recipe)},
        "output_schema": None,
    }


def _mcp(draft: Draft) -> dict[str, Any]:
    ((name, recipe),) = draft.tools
    said = {"description": _text(name, recipe), "inputSchema": _schema(recipe)}
    if draft.toolkit == SAFE:
        return {"name": CYRILLIC, **said}
    stated = {"dev.toolhall/id": f"{draft.toolkit}.{name}@{draft.version}"}
    return {"name": f"{draft.toolkit}_{name}", **said, "_meta": stated}


_WRITE = {
    "machine": _machine,
    "hub": _hub,
    "oxp": _oxp,
    "mcp": _mcp,
    "mcp@2025-11-25": _mcp,
    "mcp@2025-06-18": _mcp,
}
