"""Tool, the definition of one callable tool: id, schemas, annotations, effect, level and requirements."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.model.json import JsonObject
from toolhall.model.json_diff import JsonChange
from toolhall.model.names import ToolId

Effect: TypeAlias = Literal["reads", "writes", "destroys"]
LEVELS = range(11)


class Annotations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hints for a client's user interface; None means that the author did not say."""

    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


# What an effect says in the words of MCP.
EFFECT_ANNOTATIONS: Mapping[Effect, Annotations] = {
    "reads": Annotations(read_only=True),
    "writes": Annotations(read_only=False, destructive=False),
    "destroys": Annotations(read_only=False, destructive=True),
}


class Icon(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that a client may show beside the tool's name."""

    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] | None = None
    theme: str | None = None  # light or dark; what else may come is kept


class Output(msgspec.Struct, frozen=True):
    """What comes back: `unstated`, `none` (nothing), or values of `schema` (`{}` allows any)."""

    kind: Literal["unstated", "none", "schema"] = "unstated"
    schema: JsonObject | None = None
    description: str | None = None


class ToolkitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a toolkit as a whole; every tool of it carries the same."""

    title: str | None = None
    description: str | None = None
    resources: tuple[JsonObject, ...] | None = None
    metadata: JsonObject | None = None


class Deprecation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The hall's word that a tool will go: the first day (UTC) without it, and what to call instead."""

    since: int | None = None  # seconds since 1970
    sunset: str | None = None  # an ISO date
    successor: str | None = None


class HeaderParameter(msgspec.Struct, frozen=True):
    """An argument that HTTP clients repeat in a header (`x-mcp-header`)."""

    header: str
    path: tuple[str, ...]


class Remainder(msgspec.Struct, frozen=True):
    """What the dialect that a tool was read in said beyond the model: of its toolkit, and of the tool itself."""

    dialect: str
    group: tuple[JsonChange, ...] = ()
    item: tuple[JsonChange, ...] = ()
    bare: bool = False  # the document had no wrapper around it


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be called."""

    id: ToolId
    name: str
    stated: str | None = None  # what its document calls it, where that cannot be published
    input: JsonObject
    output: Output = Output()
    title: str | None = None
    description: str | None = None
    effect: Effect | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()
    tags: tuple[str, ...] = ()
    meta: JsonObject | None = None
    level: int | None = None  # None: not stated, which is not 0
    timeout: float | None = None
    header_parameters: tuple[HeaderParameter, ...] = ()
    requirements: JsonObject | None = None
    permissions: tuple[str, ...] | None = None
    about: ToolkitInfo = ToolkitInfo()
    foreign: bool = False  # it came from outside the operator's own code
    deprecation: Deprecation | None = None  # said by who runs the hall, not by the definition
    remainder: Remainder | None = None
