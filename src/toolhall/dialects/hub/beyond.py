"""What a tool server says of its tools beyond the hub's own words: in one member of a method, one of a toolkit."""

from typing import Annotated, Any

import msgspec

from toolhall.dialects.findings import Reading
from toolhall.dialects.oxp.requirements import read_requirements
from toolhall.model.json import JsonObject
from toolhall.model.names import published_name, published_problem
from toolhall.model.patch import escape
from toolhall.model.tool import HINTS, About, Annotations, Effect, Output, Tool

TOOL_KEY = "dev.toolhall/tool"
TOOLKIT_KEY = "dev.toolhall/toolkit"
_ROOT = "write an object with the members that are documented for it"


class _Hints(msgspec.Struct, omit_defaults=True):
    """Annotations in MCP's words."""

    title: str | None = None
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    destructive: bool | None = msgspec.field(default=None, name="destructiveHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")
    open_world: bool | None = msgspec.field(default=None, name="openWorldHint")


class _Beyond(msgspec.Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """All that may be said of a tool; `returns` is a schema, or null for a tool that returns nothing."""

    name: str | None = None
    title: str | None = None
    effect: Effect | None = None
    level: Annotated[int, msgspec.Meta(ge=0, le=10)] | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    tags: tuple[str, ...] = ()
    returns: JsonObject | msgspec.UnsetType | None = msgspec.UNSET
    annotations: _Hints | None = None
    requirements: JsonObject | None = None
    meta: JsonObject | None = None


class _Group(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    title: str | None = None
    description: str | None = None


def write_about(about: About) -> JsonObject:
    """What the hub cannot say of a toolkit; empty where there is nothing."""
    written: JsonObject = msgspec.to_builtins(_Group(about.title, about.description))
    return written


def write_beyond(tool: Tool) -> JsonObject:
    """What the hub cannot say of a tool; empty where there is nothing."""
    implied = tool.effect is not None and tool.annotations == HINTS[tool.effect]  # then they are read from the effect
    hints = None if tool.annotations is None or implied else _Hints(**msgspec.structs.asdict(tool.annotations))
    said = _Beyond(
        name=None if tool.name == published_name(tool.id.toolkit, tool.id.tool) else tool.name,
        title=tool.title,
        effect=tool.effect,
        level=tool.level,
        timeout=tool.timeout,
        tags=tool.tags,
        returns=msgspec.UNSET if tool.output.kind == "unstated" else tool.output.schema,
        annotations=hints,
        requirements=tool.requirements,
        meta=tool.meta,
    )
    written: JsonObject = msgspec.to_builtins(said)
    return written


def read_about(reading: Reading, toolkit: JsonObject, path: str, about: About) -> About:
    """What is said of a toolkit as a whole."""
    said = _said(reading, toolkit, TOOLKIT_KEY, path, _Group)
    return about if said is None else msgspec.structs.replace(about, title=said.title, description=said.description)


def read_beyond(reading: Reading, tool: Tool, method: JsonObject, path: str) -> Tool:
    """The tool with what its method says beyond the hub's own words."""
    said = _said(reading, method, TOOL_KEY, path, _Beyond)
    if said is None:
        return tool
    if said.name is not None and (problem := published_problem(said.name)):
        reading.fault(f"{path}/{escape(TOOL_KEY)}/name", "name", problem)
    return msgspec.structs.replace(
        tool,
        name=said.name or tool.name,
        title=said.title,
        effect=said.effect,
        level=said.level,
        timeout=said.timeout,
        tags=said.tags,
        output=_output(said),
        annotations=_annotations(said),
        requirements=read_requirements(reading, said.requirements, f"{path}/{escape(TOOL_KEY)}/requirements"),
        meta=said.meta,
    )


def _annotations(said: _Beyond) -> Annotations | None:
    """As stated, or as the effect says."""
    if said.annotations is not None:
        return Annotations(**msgspec.structs.asdict(said.annotations))
    return None if said.effect is None else HINTS[said.effect]


def _output(said: _Beyond) -> Output:
    if said.returns is msgspec.UNSET:
        return Output()
    return Output("none") if said.returns is None else Output("schema", said.returns)


def _said(reading: Reading, holder: JsonObject, key: str, path: str, kind: Any) -> Any:
    if key not in holder:
        return None
    try:
        return msgspec.convert(reading.object(holder[key], f"{path}/{escape(key)}", _ROOT), kind)
    except msgspec.ValidationError as error:
        reading.fault(f"{path}/{escape(key)}", "beyond", str(error))
        return None
