"""Two digests of a tool: one of what a model reads, one of what the contract says.

Both are SHA-256 over canonical JSON. What means the same has the same digests: the order of keys, the spelling of
numbers, of empty parts and of tuples, and the dialect of the document do not matter.
"""

import hashlib

import msgspec

from toolhall.contracts.canonical import canonical
from toolhall.contracts.sides import rules, words
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Effect, Remainder, Tool

PREFIX = "sha256-"
_SAID: dict[Effect | None, JsonObject] = {
    "reads": {"read_only": True},
    "writes": {"read_only": False, "destructive": False},
    "destroys": {"read_only": False, "destructive": True},
}


class Digests(msgspec.Struct, frozen=True):
    """`shown` changes with what a model reads, `contract` with what programs rely on."""

    shown: str
    contract: str


def digests(tool: Tool) -> Digests:
    """The digests of one tool."""
    return Digests(_digest({"shown": shown(tool)}), _digest({"contract": contract(tool)}))


def former_digests(tool: Tool) -> Digests:
    """The digests of one tool as stores and locks may still hold them: tuples counted as they were written."""
    return Digests(_digest({"shown": shown(tool)}), _digest({"contract": contract(tool, literally=True)}))


def shown(tool: Tool) -> JsonObject:
    """Everything that is there to be read, by a model or by the person beside it."""
    return _stated({
        "name": tool.name,
        "called": tool.stated,
        "title": tool.title,
        "description": tool.description,
        "hint": tool.annotations.title if tool.annotations else None,
        "input": words(tool.input),
        "output": words(tool.output.schema),
        "returns": tool.output.description,
        "tags": sorted(set(tool.tags)),
        "icons": [_stated(msgspec.to_builtins(icon)) for icon in tool.icons],
        "toolkit": _stated({"title": tool.about.title, "description": tool.about.description}),
    })  # fmt: skip


def contract(tool: Tool, *, literally: bool = False) -> JsonObject:
    """Everything that a tool promises and demands; `header_parameters` are in the input schema already."""
    return _stated({
        "id": [tool.id.toolkit, tool.id.tool, tool.id.version],
        "input": rules(tool.input, literally=literally),
        "output": [tool.output.kind, rules(tool.output.schema, literally=literally)],
        "hints": _hints(tool),
        "level": tool.level,
        "timeout": tool.timeout,
        "requirements": tool.requirements,
        "permissions": None if tool.permissions is None else sorted(set(tool.permissions)),
        "meta": tool.meta,
        "toolkit": _stated({"resources": tool.about.resources, "metadata": tool.about.metadata}),
        "beyond": _beyond(tool.remainder),
    })  # fmt: skip


def _hints(tool: Tool) -> JsonObject:
    """What the effect says, and what the annotations say more exactly; most dialects know only those."""
    said = {} if tool.annotations is None else msgspec.structs.asdict(tool.annotations)
    return _SAID.get(tool.effect, {}) | _stated(said | {"title": None})


def _beyond(remainder: Remainder | None) -> list[Json]:
    """What the document said that the model has no place for: not understood, so not to be changed either."""
    if remainder is None:
        return []
    changes = sorted((*remainder.group, *remainder.item), key=lambda change: change.path)
    return [[change.path, *([] if change.value is msgspec.UNSET else [change.value])] for change in changes]


def _stated(members: JsonObject) -> JsonObject:
    """Without what says nothing."""
    return {key: value for key, value in members.items() if value is not None and value not in ({}, [], ())}


def _digest(value: Json) -> str:
    return PREFIX + hashlib.sha256(canonical(value)).hexdigest()
