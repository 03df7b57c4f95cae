"""Hub tool declarations: one document is a toolkit, each method a tool."""

import msgspec

from toolhall.dialects.findings import Reading
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId, published_name
from toolhall.model.tool import About, Tool

name = "hub"
grouped = True
carrier: tuple[str, ...] = ("tool", "metadata", "dev.toolhall/carrier")


def place(document: JsonObject) -> tuple[str, ...]:
    """Where a declaration lists its methods; the params of `register_tool` have no wrapper."""
    return ("tool", "capabilities", "methods") if "tool" in document else ("capabilities", "methods")


def read(document: Json) -> tuple[Tool, ...]:
    """Every method as a tool; both the wrapped form and the params of `register_tool` are taken."""
    reading = Reading(name)
    document = reading.object(document, "")
    tool = reading.object(document["tool"], "/tool") if "tool" in document else document
    path = "/tool" if "tool" in document else ""
    key, version = reading.text(tool, "name", path) or "", reading.text(tool, "version", path) or ""
    capabilities = reading.object(tool.get("capabilities"), f"{path}/capabilities")
    about = About(resources=_resources(reading, capabilities, f"{path}/capabilities/resources"))
    place = f"{path}/capabilities/methods"
    methods = [
        _method(reading, method, f"{place}/{index}")
        for index, method in enumerate(reading.items(capabilities.get("methods"), place))
    ]
    _refuse_twins(reading, methods, place)
    reading.done()
    return tuple(
        msgspec.structs.replace(
            method,
            id=ToolId(key, method.id.tool, version),
            name=published_name(key, method.id.tool),
            about=about,
        )
        for method in methods
    )


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One declaration with a method for each tool; they are one toolkit's."""
    first = tools[0]
    capabilities: JsonObject = {"methods": [_write_method(tool) for tool in tools]}
    if first.about.resources is not None:
        capabilities["resources"] = list(first.about.resources)
    return {"tool": {"name": first.id.toolkit, "version": first.id.version, "capabilities": capabilities}}


def _method(reading: Reading, method: Json, path: str) -> Tool:
    if isinstance(method, str):  # `register_tool` may list names alone
        return Tool(id=ToolId("", method, ""), name=method, input={"type": "object"})
    method = reading.object(method, path)
    key = reading.text(method, "name", path) or ""
    params = method.get("params")
    schema = {} if params is None else reading.object(params, f"{path}/params")
    return Tool(
        id=ToolId("", key, ""),
        name=key,
        description=reading.text(method, "description", path, required=False),
        input=schema if "type" in schema else {"type": "object", **schema},
    )


def _write_method(tool: Tool) -> JsonObject:
    method: JsonObject = {"name": tool.id.tool}
    if tool.description is not None:
        method["description"] = tool.description
    method["params"] = tool.input
    return method


def _resources(reading: Reading, capabilities: JsonObject, path: str) -> tuple[JsonObject, ...] | None:
    if "resources" not in capabilities:
        return None
    return tuple(
        {"name": resource} if isinstance(resource, str) else reading.object(resource, f"{path}/{index}")
        for index, resource in enumerate(reading.items(capabilities["resources"], path))
    )


def _refuse_twins(reading: Reading, methods: list[Tool], path: str) -> None:
    seen: set[str] = set()
    for index, method in enumerate(methods):
        if method.id.tool in seen:
            reading.fault(f"{path}/{index}/name", "twice", f"{method.id.tool!r} names two methods; rename one")
        seen.add(method.id.tool)
