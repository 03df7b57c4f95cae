"""Machine Context Protocol tool definitions: one document is a toolkit, each capability a tool."""

import msgspec

from toolhall.dialects.catalog import DEPRECATED_KEY
from toolhall.dialects.findings import VERSION_LIMIT, Reading
from toolhall.dialects.machine.parameters import read_parameters, write_parameters
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId, published_name, safe_name, semantic_version, version_problem
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
    version, description = _version(reading, document), reading.text(document, "description", "")
    metadata = document.get("metadata")
    about = About(
        title=title,
        description=description,
        metadata=None if metadata is None else reading.object(metadata, "/metadata"),
    )
    level = _level(reading, document)
    tools: list[Tool] = []
    for index, listed in enumerate(_capabilities(reading, document)):
        path = f"/capabilities/{index}"
        capability = reading.object(listed, path)
        own, description = reading.text(capability, "name", path) or "", reading.text(capability, "description", path)
        permissions = capability.get("requiredPermissions")
        tools.append(
            Tool(
                id=ToolId(key, own, version),
                name=safe_name(published_name(key, own)),
                description=description,
                input=read_parameters(reading, capability.get("parameters"), f"{path}/parameters"),
                output=_output(reading, capability, path),
                permissions=None if permissions is None else reading.texts(permissions, f"{path}/requiredPermissions"),
                level=level,
                about=about,
            )
        )
    reading.done()
    return tuple(tools)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One definition with a capability for each tool; they are one toolkit's."""
    first = tools[0]
    # A tool without a toolkit is one itself; any other may be gone tomorrow, and says nothing of the rest.
    alone = first.id.toolkit == first.id.tool
    title = first.about.title or (first.title if alone else None) or first.id.toolkit
    document: JsonObject = {
        "id": first.id.toolkit,
        "name": title,
        "version": semantic_version(first.id.version),
        "description": first.about.description or (first.description if alone else None) or title,
        "capabilities": [_write_capability(tool) for tool in tools],
    }
    levels = [tool.level for tool in tools if tool.level is not None]
    if levels:
        document["securityLevel"] = max(levels)  # one for all capabilities: never less than any of them asks for
    if first.about.metadata is not None:
        document["metadata"] = first.about.metadata
    return document


def _version(reading: Reading, document: JsonObject) -> str:
    version = reading.text(document, "version", "") or ""
    if len(version) > VERSION_LIMIT:
        reading.fault("/version", "version", f"write a version of at most {VERSION_LIMIT} characters")
    elif version and (problem := version_problem(version)):
        reading.fault("/version", "version", problem)
    return version


def _level(reading: Reading, document: JsonObject) -> int | None:
    level = document.get("securityLevel")
    if "securityLevel" not in document:
        return None
    if type(level) is not int or level not in LEVELS:
        reading.fault("/securityLevel", "level", "give a whole number from 0 to 10")
        return None
    return level


def _capabilities(reading: Reading, document: JsonObject) -> list[Json]:
    listed = reading.items(document.get("capabilities"), "/capabilities")
    if not listed and document.get("capabilities") == []:
        reading.fault("/capabilities", "empty", "define at least one capability")
    reading.unique(listed, "/capabilities", "capabilities")
    return listed


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
    if tool.deprecation is not None:
        capability[DEPRECATED_KEY] = msgspec.to_builtins(tool.deprecation)
    return capability
