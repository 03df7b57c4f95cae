"""Machine Context Protocol tool definitions: one document is a toolkit, each capability a tool."""

import msgspec

from toolhall.dialects.findings import Reading
from toolhall.dialects.machine.parameters import read_parameters, write_parameters
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId, published_name, semantic_version, version_problem
from toolhall.model.tool import LEVELS, About, Output, Tool

name = "machine"
grouped = True
carrier: tuple[str, ...] = ("metadata", "dev.toolhall/carrier")


def place(document: JsonObject) -> tuple[str, ...]:  # noqa: ARG001 - the same in every document
    """Where a definition lists its capabilities."""
    return ("capabilities",)


def read(document: Json) -> tuple[Tool, ...]:
    """Every capability as a tool; BadDocument with every finding."""
    reading = Reading(name)
    document = reading.object(document, "")
    key, title = reading.text(document, "id", "") or "", reading.text(document, "name", "")
    version, description = reading.text(document, "version", "") or "", reading.text(document, "description", "")
    if version and (problem := version_problem(version)):
        reading.fault("/version", "version", problem)
    metadata = document.get("metadata")
    about = About(
        title=title,
        description=description,
        metadata=None if metadata is None else reading.object(metadata, "/metadata"),
    )
    level = _level(reading, document)
    tools = tuple(
        msgspec.structs.replace(
            tool,
            id=ToolId(key, tool.id.tool, version),
            name=published_name(key, tool.id.tool),
            level=level,
            about=about,
        )
        for tool in _capabilities(reading, document)
    )
    reading.done()
    return tools


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One definition with a capability for each tool; they are one toolkit's."""
    first = tools[0]
    title = first.about.title or first.title or first.id.toolkit
    document: JsonObject = {
        "id": first.id.toolkit,
        "name": title,
        "version": semantic_version(first.id.version),
        "description": first.about.description or first.description or title,
        "capabilities": [_write_capability(tool) for tool in tools],
    }
    if first.level is not None:
        document["securityLevel"] = first.level
    if first.about.metadata is not None:
        document["metadata"] = first.about.metadata
    return document


def _level(reading: Reading, document: JsonObject) -> int | None:
    level = document.get("securityLevel")
    if "securityLevel" not in document:
        return None
    if type(level) is not int or level not in LEVELS:
        reading.fault("/securityLevel", "level", "give a whole number from 0 to 10")
        return None
    return level


def _capabilities(reading: Reading, document: JsonObject) -> list[Tool]:
    listed = reading.items(document.get("capabilities"), "/capabilities")
    if not listed and "capabilities" in document and isinstance(document["capabilities"], list):
        reading.fault("/capabilities", "empty", "define at least one capability")
    found: dict[str, Tool] = {}
    tools = []
    for index, capability in enumerate(listed):
        path = f"/capabilities/{index}"
        tool = _capability(reading, reading.object(capability, path), path)
        if tool.id.tool in found:
            reading.fault(f"{path}/name", "twice", f"{tool.id.tool!r} is the name of two capabilities; rename one")
        found[tool.id.tool] = tool
        tools.append(tool)
    return tools


def _capability(reading: Reading, capability: JsonObject, path: str) -> Tool:
    key, description = reading.text(capability, "name", path) or "", reading.text(capability, "description", path)
    permissions = capability.get("requiredPermissions")
    return Tool(
        id=ToolId("", key, ""),
        name=key,
        description=description,
        input=read_parameters(reading, capability.get("parameters"), f"{path}/parameters"),
        output=_output(reading, capability, path),
        permissions=None if permissions is None else tuple(reading.items(permissions, f"{path}/requiredPermissions")),
    )


def _output(reading: Reading, capability: JsonObject, path: str) -> Output:
    if capability.get("return") is None:
        return Output()
    returned = reading.object(capability["return"], f"{path}/return")
    description = reading.text(returned, "description", f"{path}/return", required=False)
    if "schema" not in returned:
        return Output(description=description)
    return Output("schema", reading.object(returned["schema"], f"{path}/return/schema"), description)


def _write_capability(tool: Tool) -> JsonObject:
    capability: JsonObject = {
        "name": tool.id.tool,
        "description": tool.description or tool.title or tool.id.tool,
        "parameters": write_parameters(tool.input),
    }
    if tool.output.kind == "schema" or tool.output.description is not None:
        described = {} if tool.output.description is None else {"description": tool.output.description}
        schema = {} if tool.output.schema is None else {"schema": tool.output.schema}
        capability["return"] = described | schema
    if tool.permissions is not None:
        capability["requiredPermissions"] = list(tool.permissions)
    return capability
