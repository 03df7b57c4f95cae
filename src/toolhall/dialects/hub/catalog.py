"""Hub tool declarations: one document is a toolkit, each method a tool."""

import msgspec

from toolhall.dialects.catalog import DEPRECATED_KEY
from toolhall.dialects.findings import Reading, is_version
from toolhall.dialects.hub.beyond import read_about, read_beyond
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId, published_name
from toolhall.model.tool import About, Tool

name = "hub"
grouped = True
carrier: tuple[str, ...] = ("tool", "metadata", "dev.toolhall/carrier")

# The params of `register_tool` have no wrapper.
BARE_PLACE = ("capabilities", "methods")
_NAME_OR_OBJECT = "write a name or an object here"


def place(document: JsonObject) -> tuple[str, ...]:
    """Where a declaration lists its methods."""
    return ("tool", *BARE_PLACE) if "tool" in document else BARE_PLACE


def read(document: Json) -> tuple[Tool, ...]:
    """Every method as a tool; both the wrapped form and the params of `register_tool` are taken."""
    reading = Reading(name)
    document = reading.object(document, "")
    tool = reading.object(document["tool"], "/tool") if "tool" in document else document
    path = "/tool" if "tool" in document else ""
    key, version = reading.text(tool, "name", path) or "", reading.text(tool, "version", path) or ""
    if version and not is_version(version):
        reading.fault(
            f"{path}/version", "version", "write three numbers such as 1.2.0, a date such as 20260401, or a count"
        )
    capabilities = reading.object(tool.get("capabilities"), f"{path}/capabilities")
    about = About(resources=_resources(reading, capabilities, f"{path}/capabilities/resources"))
    about = read_about(reading, tool, path, about)
    path = f"{path}/capabilities/methods"
    tools: list[Tool] = []
    for index, listed in enumerate(_methods(reading, capabilities, path)):
        # `register_tool` may list names alone.
        method = {"name": listed} if isinstance(listed, str) else listed
        if not isinstance(method, dict):
            reading.fault(f"{path}/{index}", "not-object", _NAME_OR_OBJECT)
            continue
        own = reading.text(method, "name", f"{path}/{index}") or ""
        found = Tool(
            id=ToolId(key, own, version),
            name=published_name(key, own),
            description=reading.text(method, "description", f"{path}/{index}", required=False),
            input=_params(reading, method, f"{path}/{index}/params"),
            about=about,
        )
        tools.append(read_beyond(reading, found, method, f"{path}/{index}"))
    reading.done()
    return tuple(tools)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One declaration with a method for each tool; they are one toolkit's."""
    first = tools[0]
    capabilities: JsonObject = {"methods": [_write_method(tool) for tool in tools]}
    if first.about.resources is not None:
        capabilities["resources"] = list(first.about.resources)
    return {"tool": {"name": first.id.toolkit, "version": first.id.version, "capabilities": capabilities}}


def _methods(reading: Reading, capabilities: JsonObject, path: str) -> list[Json]:
    methods = reading.items(capabilities.get("methods"), path)
    if not methods and capabilities.get("methods") == []:
        reading.fault(path, "empty", "declare at least one method")
    reading.unique(methods, path, "methods")
    return methods


def _params(reading: Reading, method: JsonObject, path: str) -> JsonObject:
    params = method.get("params")
    return reading.arguments({} if params is None else reading.object(params, path), path)


def _write_method(tool: Tool) -> JsonObject:
    method: JsonObject = {"name": tool.id.tool}
    if tool.description is not None:
        method["description"] = tool.description
    method["params"] = tool.input
    if tool.deprecation is not None:
        method[DEPRECATED_KEY] = msgspec.to_builtins(tool.deprecation)
    return method


def _resources(reading: Reading, capabilities: JsonObject, path: str) -> tuple[JsonObject, ...] | None:
    if "resources" not in capabilities:
        return None
    return tuple(
        {"name": resource}
        if isinstance(resource, str)
        else reading.object(resource, f"{path}/{index}", _NAME_OR_OBJECT)
        for index, resource in enumerate(reading.items(capabilities["resources"], path))
    )
