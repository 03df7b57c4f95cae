"""Tool, the definition of one callable tool: id, schemas, annotations, effect, level and requirements."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.model.json import JsonChange, JsonObject
from toolhall.model.names import ToolId

Effect: TypeAlias = Literal["reads", "writes", "destroys"]
LEVELS = range(11)


class Annotations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """MCP tool annotations, hints for a client's user interface; None means not stated."""

    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


# The MCP annotations that an effect implies.
EFFECT_ANNOTATIONS: Mapping[Effect, Annotations] = {
    "reads": Annotations(read_only=True),
    "writes": Annotations(read_only=False, destructive=False),
    "destroys": Annotations(read_only=False, destructive=True),
}


class Icon(msgspec.Struct, frozen=True, kw_only=True):
    """An icon that a client may show beside the tool's name."""

    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] | None = None
    theme: str | None = None  # light or dark; other values are kept


class Output(msgspec.Struct, frozen=True):
    """The result type: `unstated`, `none` (no value), or values of `schema` (`{}` allows any)."""

    kind: Literal["unstated", "none", "schema"] = "unstated"
    schema: JsonObject | None = None
    description: str | None = None


class ToolkitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a toolkit; every tool of the toolkit carries the same."""

    title: str | None = None
    description: str | None = None
    resources: tuple[JsonObject, ...] | None = None
    metadata: JsonObject | None = None


class Deprecation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The operator's deprecation of a tool: the first day (UTC) without it, and its successor."""

    since: int | None = None  # seconds since 1970
    sunset: str | None = None  # an ISO date
    successor: str | None = None


class HeaderParameter(msgspec.Struct, frozen=True):
    """An argument that HTTP clients repeat in a header (`x-mcp-header`)."""

    header: str
    path: tuple[str, ...]


class Remainder(msgspec.Struct, frozen=True):
    """What the source document states beyond this model, about the toolkit (`group`) and the tool (`item`).

    It is applied again when the tool is written in the dialect that it was read from.
    """

    dialect: str
    group: tuple[JsonChange, ...] = ()
    item: tuple[JsonChange, ...] = ()
    bare: bool = False  # the document had no wrapper around it


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of one tool.

    The fields of Tool and its parts are stored data: they must not be renamed.
    """

    id: ToolId
    name: str
    stated: str | None = None  # the name in its document, if that is not a valid published name
    input: JsonObject
    output: Output = Output()
    title: str | None = None
    description: str | None = None
    effect: Effect | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()
    tags: tuple[str, ...] = ()
    meta: JsonObject | None = None
    level: int | None = None  # None: not stated, which does not mean 0
    timeout: float | None = None
    header_parameters: tuple[HeaderParameter, ...] = ()
    requirements: JsonObject | None = None
    permissions: tuple[str, ...] | None = None
    about: ToolkitInfo = ToolkitInfo()
    foreign: bool = False  # not from the operator's own code
    deprecation: Deprecation | None = None  # set by the operator, not by the definition
    remainder: Remainder | None = None
