"""Hub tool declarations: one document is a toolkit, each method a tool.

The hub's own members hold name, description and parameters of a method. `dev.toolhall/tool` and `dev.toolhall/toolkit`
members (the extension) hold everything else; `write_declaration` adds them for tool servers, `write` does not. A method
with a `dev.toolhall/resource` or `dev.toolhall/prompt` member is a resource or a prompt: see `kinds`.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from toolhall.dialects.base import DEPRECATED_KEY
from toolhall.dialects.findings import DocumentReader, is_version
from toolhall.dialects.hub.kinds import read_extension, read_kind, write_kind
from toolhall.dialects.oxp.catalog import read_requirements
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.names import ToolId, published_name, published_name_problem
from toolhall.model.tool import EFFECT_ANNOTATIONS, Annotations, Effect, Output, Tool, ToolkitInfo

TOOL_KEY = "dev.toolhall/tool"
TOOLKIT_KEY = "dev.toolhall/toolkit"
_OBJECT_FIX = "write an object with the members that are documented for it"
name = "hub"
grouped = True
loss_record_path: tuple[str, ...] = ("tool", "metadata", "dev.toolhall/carrier")
# `register_tool` sends the declaration without the outer `tool` member.
UNWRAPPED_TOOLS_PATH = ("capabilities", "methods")
_NAME_OR_OBJECT = "write a name or an object here"


def tools_path(document: JsonObject) -> tuple[str, ...]:
    """The path to the list of methods."""
    return ("tool", *UNWRAPPED_TOOLS_PATH) if "tool" in document else UNWRAPPED_TOOLS_PATH


def read(document: Json) -> tuple[Tool, ...]:
    """Read every method as a tool; accepts the wrapped form and the params of `register_tool`."""
    reader = DocumentReader(name)
    document = reader.object(document, "")
    tool = reader.object(document["tool"], "/tool") if "tool" in document else document
    path = "/tool" if "tool" in document else ""
    toolkit_name, version = reader.string(tool, "name", path) or "", reader.string(tool, "version", path) or ""
    if version and not is_version(version):
        reader.add_error(
            f"{path}/version", "version", "write three numbers such as 1.2.0, a date such as 20260401, or a count"
        )
    capabilities = reader.object(tool.get("capabilities"), f"{path}/capabilities")
    about = ToolkitInfo(resources=_resources(reader, capabilities, f"{path}/capabilities/resources"))
    about = read_toolkit_extension(reader, tool, path, about)
    path = f"{path}/capabilities/methods"
    tools: list[Tool] = []
    for index, item in enumerate(_methods(reader, capabilities, path)):
        # `register_tool` may list methods by name only.
        method = {"name": item} if isinstance(item, str) else item
        if not isinstance(method, dict):
            reader.add_error(f"{path}/{index}", "not-object", _NAME_OR_OBJECT)
            continue
        method_name = reader.string(method, "name", f"{path}/{index}") or ""
        declared = Tool(
            id=ToolId(toolkit_name, method_name, version),
            name=published_name(toolkit_name, method_name),
            description=reader.string(method, "description", f"{path}/{index}", required=False),
            input=_params(reader, method, f"{path}/{index}/params"),
            about=about,
        )
        extended = read_tool_extension(reader, declared, method, f"{path}/{index}")
        tools.append(read_kind(reader, extended, method, f"{path}/{index}"))
    reader.raise_findings()
    return tuple(tools)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """Write one declaration with a method per tool; all tools must be of one toolkit."""
    first = tools[0]
    capabilities: JsonObject = {"methods": [_write_method(tool) for tool in tools]}
    if first.about.resources is not None:
        capabilities["resources"] = list(first.about.resources)
    return {"tool": {"name": first.id.toolkit, "version": first.id.version, "capabilities": capabilities}}


def write_declaration(tools: tuple[Tool, ...]) -> JsonObject:
    """Write a declaration with the extension; all tools must be of one toolkit and version."""
    document = write(tools)
    toolkit = document["tool"]
    for method, tool in zip(toolkit["capabilities"]["methods"], tools, strict=True):
        if extension := write_tool_extension(tool):
            method[TOOL_KEY] = extension
        method.update(write_kind(tool))
    if toolkit_extension := write_toolkit_extension(tools[0].about):
        toolkit[TOOLKIT_KEY] = toolkit_extension
    return document


def with_resources(document: JsonObject, resources: Sequence[Tool]) -> JsonObject:
    """The document with resources and templates of the toolkit behind those that it declares: name, type, description.

    The hub has no way to read them: its clients learn what there is. Whoever reads the document gets them as told, too,
    and never as resources that can be read.
    """
    if not resources:
        return document
    inner = document.get("tool", document)
    capabilities = inner["capabilities"]
    declared = capabilities.get("resources", [])
    names = {each.get("name") for each in declared}
    told = [_write_resource(each) for each in resources if each.resource and each.resource.uri not in names]
    listed = [*declared, *told]
    inner = {**inner, "capabilities": {**capabilities, "resources": listed}}
    return {**document, "tool": inner} if "tool" in document else inner


def _write_resource(tool: Tool) -> JsonObject:
    """Write what the hub can say of a resource; its name is the URI, or the URI template."""
    info = tool.resource
    if info is None:
        raise TypeError(f"{tool.id} is no resource")
    stated = (("name", info.uri), ("type", info.mime_type), ("description", tool.description))
    return {key: value for key, value in stated if value is not None}


def _methods(reader: DocumentReader, capabilities: JsonObject, path: str) -> list[Json]:
    methods = reader.array(capabilities.get("methods"), path)
    if not methods and capabilities.get("methods") == []:
        reader.add_error(path, "empty", "declare at least one method")
    reader.check_unique_names(methods, path, "methods")
    return methods


def _params(reader: DocumentReader, method: JsonObject, path: str) -> JsonObject:
    params = method.get("params")
    return reader.arguments_schema({} if params is None else reader.object(params, path), path)


def _write_method(tool: Tool) -> JsonObject:
    method: JsonObject = {"name": tool.id.tool}
    if tool.description is not None:
        method["description"] = tool.description
    method["params"] = tool.input
    if tool.deprecation is not None:
        method[DEPRECATED_KEY] = msgspec.to_builtins(tool.deprecation)
    return method


def _resources(reader: DocumentReader, capabilities: JsonObject, path: str) -> tuple[JsonObject, ...] | None:
    if "resources" not in capabilities:
        return None
    return tuple(
        {"name": resource} if isinstance(resource, str) else reader.object(resource, f"{path}/{index}", _NAME_OR_OBJECT)
        for index, resource in enumerate(reader.array(capabilities["resources"], path))
    )


class _Hints(msgspec.Struct, omit_defaults=True):
    """Annotations under MCP's names."""

    title: str | None = None
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    destructive: bool | None = msgspec.field(default=None, name="destructiveHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")
    open_world: bool | None = msgspec.field(default=None, name="openWorldHint")


class _ToolExtension(msgspec.Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the hub cannot express of a tool; `returns` is a schema, or null for a tool that returns nothing."""

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


class _ToolkitExtension(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    title: str | None = None
    description: str | None = None


def write_toolkit_extension(about: ToolkitInfo) -> JsonObject:
    """What the hub cannot express of a toolkit; empty if there is nothing."""
    written: JsonObject = msgspec.to_builtins(_ToolkitExtension(about.title, about.description))
    return written


def write_tool_extension(tool: Tool) -> JsonObject:
    """What the hub cannot express of a tool; empty if there is nothing."""
    # Annotations that follow from the effect are not written; the reader derives them.
    implied = tool.effect is not None and tool.annotations == EFFECT_ANNOTATIONS[tool.effect]
    hints = None if tool.annotations is None or implied else _Hints(**msgspec.structs.asdict(tool.annotations))
    extension = _ToolExtension(
        name=None if tool.name == published_name(tool.id.toolkit, tool.id.tool) else tool.name,
        title=tool.title,
        effect=tool.effect if tool.kind == "tool" else None,  # of the others it follows from their kind
        level=tool.level,
        timeout=tool.timeout,
        tags=tool.tags,
        returns=msgspec.UNSET if tool.output.kind == "unstated" else tool.output.schema,
        annotations=hints,
        requirements=tool.requirements,
        meta=tool.meta,
    )
    written: JsonObject = msgspec.to_builtins(extension)
    return written


def read_toolkit_extension(reader: DocumentReader, toolkit: JsonObject, path: str, about: ToolkitInfo) -> ToolkitInfo:
    """The toolkit's information with what its extension states."""
    extension = read_extension(reader, toolkit, TOOLKIT_KEY, path, _ToolkitExtension)
    return (
        about
        if extension is None
        else msgspec.structs.replace(about, title=extension.title, description=extension.description)
    )


def read_tool_extension(reader: DocumentReader, tool: Tool, method: JsonObject, path: str) -> Tool:
    """The tool with what its method's extension states."""
    extension = read_extension(reader, method, TOOL_KEY, path, _ToolExtension)
    if extension is None:
        return tool
    if extension.name is not None and (problem := published_name_problem(extension.name)):
        reader.add_error(f"{path}/{escape_pointer(TOOL_KEY)}/name", "name", problem)
    return msgspec.structs.replace(
        tool,
        name=extension.name or tool.name,
        title=extension.title,
        effect=extension.effect,
        level=extension.level,
        timeout=extension.timeout,
        tags=extension.tags,
        output=_output(extension),
        annotations=_annotations(extension),
        requirements=read_requirements(
            reader, extension.requirements, f"{path}/{escape_pointer(TOOL_KEY)}/requirements"
        ),
        meta=extension.meta,
    )


def _annotations(extension: _ToolExtension) -> Annotations | None:
    """The stated annotations, or those that follow from the effect."""
    if extension.annotations is not None:
        return Annotations(**msgspec.structs.asdict(extension.annotations))
    return None if extension.effect is None else EFFECT_ANNOTATIONS[extension.effect]


def _output(extension: _ToolExtension) -> Output:
    if extension.returns is msgspec.UNSET:
        return Output()
    return Output("none") if extension.returns is None else Output("schema", extension.returns)
