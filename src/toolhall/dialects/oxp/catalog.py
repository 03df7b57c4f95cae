"""OXP 1.0 tool definitions: one document is one version of one tool, with its requirements."""

import re
from collections.abc import Iterator
from operator import is_

from toolhall.dialects.findings import MAX_VERSION_LENGTH, DocumentReader
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.names import MAX_NAME_LENGTH, ToolId, oxp_id_part, oxp_version
from toolhall.model.tool import Output, Tool
from toolhall.schema.adapt import has_references, without_references
from toolhall.schema.keywords import DEFINITION_KEYWORDS, REFERENCE_KEYWORDS, subschemas

name = "oxp"
grouped = False
loss_record_path: tuple[str, ...] = ("requirements", "x-toolhall")
_ID_PATTERN = re.compile(r"([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)(?:@([0-9]+(?:\.[0-9]+\.[0-9]+)?))?")
_VERSION_PATTERN = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INVALID_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


def tools_path(document: JsonObject) -> tuple[str, ...]:  # noqa: ARG001 - the same in every document
    """Empty: a document is one tool."""
    return ()


def read(document: Json) -> tuple[Tool, ...]:
    """Read the tool of a document; raises BadDocument with every finding."""
    reader = DocumentReader(name)
    document = reader.object(document, "")
    tool_id = _read_id(reader, document)
    published = reader.string(document, "name", "") or ""
    if published and not _NAME_PATTERN.fullmatch(published):
        reader.add_error("/name", "name", "use 1 to 64 letters, digits, _ and -")
    tool = Tool(
        id=tool_id,
        name=published,
        description=reader.string(document, "description", ""),
        input=_read_input(reader, document.get("input_schema")),
        output=_read_output(reader, document),
        requirements=read_requirements(reader, document.get("requirements"), "/requirements"),
    )
    reader.raise_findings()
    return (tool,)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """Write one definition; both schemas without references, every parameter with a description."""
    (tool,) = tools
    version = oxp_version(tool.id.version)
    document: JsonObject = {
        "id": f"{oxp_id_part(tool.id.toolkit)}.{oxp_id_part(tool.id.tool)}@{version}",
        "name": _INVALID_IN_NAME.sub("_", tool.name)[:MAX_NAME_LENGTH],
        "description": tool.description or tool.title or tool.name,
        "version": version,
        "input_schema": {"parameters": _with_descriptions(without_references(tool.input))},
        "output_schema": _write_output(tool.output),
    }
    if tool.requirements is not None:
        document["requirements"] = tool.requirements
    return document


def _read_id(reader: DocumentReader, document: JsonObject) -> ToolId:
    stated = reader.string(document, "id", "") or ""
    version = reader.string(document, "version", "") or ""
    match = _ID_PATTERN.fullmatch(stated)
    if stated and not match:
        reader.add_error("/id", "id", "write Toolkit.Tool@1.0.0 with letters, digits and _")
    if version and not (_VERSION_PATTERN.fullmatch(version) and len(version) <= MAX_VERSION_LENGTH):
        reader.add_error("/version", "version", "write three numbers such as 1.0.0")
    elif match and match[3] and version not in (match[3], f"{match[3]}.0.0"):  # a bare number means x.0.0
        reader.add_error("/version", "version", "write the same version as in the id")
    return ToolId(match[1], match[2], version) if match else ToolId("", "", version)


def _read_input(reader: DocumentReader, schema: Json) -> JsonObject:
    if schema is None:
        return {"type": "object"}
    path = "/input_schema"
    schema = reader.object(schema, path)
    # The specification's site wraps the schema in "parameters", its OpenAPI file does not.
    if "parameters" in schema and not schema.keys() & {"type", "properties", "$schema"}:
        path = f"{path}/parameters"
        schema = reader.object(schema["parameters"], path)
    _refuse_references(reader, schema, path)
    properties = schema.get("properties")
    for key, part in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(part, dict) or not isinstance(part.get("description"), str):
            pointer = f"{path}/properties/{escape_pointer(key)}"
            reader.add_error(pointer, "description", "describe this parameter in a 'description'")
    return reader.arguments_schema(schema, path)


def _read_output(reader: DocumentReader, document: JsonObject) -> Output:
    if "output_schema" not in document:
        return Output()
    schema = document["output_schema"]
    if schema is None:
        return Output("none")
    schema = reader.object(schema, "/output_schema")
    _refuse_references(reader, schema, "/output_schema")
    return Output("schema", schema)


def _refuse_references(reader: DocumentReader, schema: JsonObject, path: str) -> None:
    """Record every reference in a schema; OXP excludes them."""
    pointers = list(_references(schema, path)) or [path] if has_references(schema) else []
    for pointer in pointers:
        fix = "inline what is referred to; OXP schemas have no references or definitions"
        reader.add_error(pointer, "references", fix)


def _references(schema: JsonObject, path: str) -> Iterator[str]:
    pending = [(schema, path)]
    while pending:
        current, pointer = pending.pop()
        yield from (f"{pointer}/{key}" for key in (*REFERENCE_KEYWORDS, *DEFINITION_KEYWORDS) if key in current)
        inner = [child for child in subschemas(current, pointer) if child.applies and isinstance(child.schema, dict)]
        pending.extend((child.schema, child.pointer) for child in inner)


def _write_output(output: Output) -> JsonObject | None:
    if output.kind == "none":
        return None
    schema = {} if output.schema is None else without_references(output.schema)
    if output.description is not None and "description" not in schema:
        return {**schema, "description": output.description}
    return schema


def _with_descriptions(schema: JsonObject) -> JsonObject:
    """The schema with a description for every parameter; the same object if none is missing."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    described = {key: _with_description(key, part) for key, part in properties.items()}
    unchanged = all(map(is_, described.values(), properties.values()))
    return schema if unchanged else {**schema, "properties": described}


def _with_description(key: str, part: Json) -> JsonObject:
    if not isinstance(part, dict):
        return {"description": key}
    if isinstance(part.get("description"), str):
        return part
    return {**part, "description": part.get("title") if isinstance(part.get("title"), str) else key}


def read_requirements(reader: DocumentReader, requirements: Json, path: str) -> JsonObject | None:
    """The requirements, unchanged; None if there are none."""
    if requirements is None:
        return None
    members = reader.object(requirements, path)
    for key in ("authorization", "secrets"):
        for index, item in enumerate(reader.array(members.get(key, []), f"{path}/{key}")):
            reader.string(reader.object(item, f"{path}/{key}/{index}"), "id", f"{path}/{key}/{index}")
    if not isinstance(members.get("user_id", False), bool):
        reader.add_error(f"{path}/user_id", "not-boolean", "write true or false")
    return members
