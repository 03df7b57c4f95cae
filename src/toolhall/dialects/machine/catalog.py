"""Machine Context tool definitions: one document is a toolkit, each capability a tool with a flat parameter list."""

import msgspec

from toolhall.dialects.base import DEPRECATED_KEY
from toolhall.dialects.findings import MAX_VERSION_LENGTH, DocumentReader
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId, published_name, safe_name, semantic_version, version_problem
from toolhall.model.tool import LEVELS, Output, Tool, ToolkitInfo

PARAMETER_TYPES = ("string", "number", "boolean", "object", "array", "any")
name = "machine"
grouped = True
loss_record_path: tuple[str, ...] = ("metadata", "dev.toolhall/carrier")


def tools_path(document: JsonObject) -> tuple[str, ...]:  # noqa: ARG001 - the same in every document
    """The path to the list of capabilities."""
    return ("capabilities",)


def read(document: Json) -> tuple[Tool, ...]:
    """Read every capability as a tool; raises BadDocument with every finding."""
    reader = DocumentReader(name)
    document = reader.object(document, "")
    toolkit_id, title = reader.string(document, "id", "") or "", reader.string(document, "name", "")
    version, description = _version(reader, document), reader.string(document, "description", "")
    metadata = document.get("metadata")
    about = ToolkitInfo(
        title=title,
        description=description,
        metadata=None if metadata is None else reader.object(metadata, "/metadata"),
    )
    level = _level(reader, document)
    tools: list[Tool] = []
    for index, item in enumerate(_capabilities(reader, document)):
        path = f"/capabilities/{index}"
        capability = reader.object(item, path)
        capability_name, description = (
            reader.string(capability, "name", path) or "",
            reader.string(capability, "description", path),
        )
        permissions = capability.get("requiredPermissions")
        tools.append(
            Tool(
                id=ToolId(toolkit_id, capability_name, version),
                name=safe_name(published_name(toolkit_id, capability_name)),
                description=description,
                input=read_parameters(reader, capability.get("parameters"), f"{path}/parameters"),
                output=_output(reader, capability, path),
                permissions=None if permissions is None else reader.strings(permissions, f"{path}/requiredPermissions"),
                level=level,
                about=about,
            )
        )
    reader.raise_findings()
    return tuple(tools)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """Write one definition with a capability per tool; all tools must be of one toolkit."""
    first = tools[0]
    # A tool without a toolkit describes its own; a member of a toolkit must not describe the whole of it.
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
        document["securityLevel"] = max(levels)  # one level for all capabilities, never below that of any of them
    if first.about.metadata is not None:
        document["metadata"] = first.about.metadata
    return document


def _version(reader: DocumentReader, document: JsonObject) -> str:
    version = reader.string(document, "version", "") or ""
    if len(version) > MAX_VERSION_LENGTH:
        reader.add_error("/version", "version", f"write a version of at most {MAX_VERSION_LENGTH} characters")
    elif version and (problem := version_problem(version)):
        reader.add_error("/version", "version", problem)
    return version


def _level(reader: DocumentReader, document: JsonObject) -> int | None:
    level = document.get("securityLevel")
    if "securityLevel" not in document:
        return None
    if type(level) is not int or level not in LEVELS:
        reader.add_error("/securityLevel", "level", "give a whole number from 0 to 10")
        return None
    return level


def _capabilities(reader: DocumentReader, document: JsonObject) -> list[Json]:
    listed = reader.array(document.get("capabilities"), "/capabilities")
    if not listed and document.get("capabilities") == []:
        reader.add_error("/capabilities", "empty", "define at least one capability")
    reader.check_unique_names(listed, "/capabilities", "capabilities")
    return listed


def _output(reader: DocumentReader, capability: JsonObject, path: str) -> Output:
    if capability.get("return") is None:
        return Output()
    returned = reader.object(capability["return"], f"{path}/return")
    description = reader.string(returned, "description", f"{path}/return", required=False)
    if "schema" not in returned:
        return Output(description=description)
    return Output("schema", reader.object(returned["schema"], f"{path}/return/schema"), description)


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


def read_parameters(reader: DocumentReader, parameters: Json, path: str) -> JsonObject:
    """The input schema of a parameter list."""
    properties: JsonObject = {}
    required: list[str] = []
    items = reader.array([] if parameters is None else parameters, path)
    reader.check_unique_names(items, path, "parameters")
    for index, item in enumerate(items):
        pointer = f"{path}/{index}"
        parameter = reader.object(item, pointer)
        name = reader.string(parameter, "name", pointer) or ""
        properties[name] = _read_property(reader, parameter, pointer)
        if _is_required(reader, parameter, pointer):
            required.append(name)
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema


def _read_property(reader: DocumentReader, parameter: JsonObject, pointer: str) -> JsonObject:
    kind = parameter.get("type")
    if kind not in PARAMETER_TYPES:
        reader.add_error(f"{pointer}/type", "type", f"use one of {', '.join(PARAMETER_TYPES)}")
    schema: JsonObject = {} if kind == "any" else {"type": kind}
    schema["description"] = reader.string(parameter, "description", pointer)
    if "default" in parameter:
        schema["default"] = parameter["default"]
    return schema


def _is_required(reader: DocumentReader, parameter: JsonObject, pointer: str) -> bool:
    required = parameter.get("required", False)
    if not isinstance(required, bool):
        reader.add_error(f"{pointer}/required", "not-boolean", "write true or false")
    return required is True


def write_parameters(schema: JsonObject) -> list[JsonObject]:
    """The parameter list of an input schema, as far as six types can express it."""
    properties, required = schema.get("properties"), schema.get("required")
    named = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    # JSON Schema allows an empty property name, a parameter list does not.
    return [_write_parameter(name, part, name in needed) for name, part in named.items() if name]


def _write_parameter(name: str, schema: Json, required: bool) -> JsonObject:
    schema = schema if isinstance(schema, dict) else {}
    parameter: JsonObject = {
        "name": name,
        "description": _description(schema, name),
        "type": _parameter_type(schema.get("type")),
        "required": required,
    }
    if "default" in schema:
        parameter["default"] = schema["default"]
    return parameter


def _description(schema: JsonObject, name: str) -> str:
    description = schema.get("description") or schema.get("title")
    return description if description and isinstance(description, str) else name


def _parameter_type(kind: Json) -> str:
    if kind == "integer":
        return "number"
    return kind if kind in PARAMETER_TYPES else "any"
