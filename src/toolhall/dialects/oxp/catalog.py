"""OXP 1.0 tool definitions: one document is one version of one tool."""

import re
from collections.abc import Iterator
from operator import is_

from toolhall.dialects.findings import VERSION_LIMIT, Reading
from toolhall.dialects.oxp.requirements import read_requirements
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import NAME_LIMIT, ToolId, semantic_version
from toolhall.model.patch import escape
from toolhall.model.tool import Output, Tool
from toolhall.schema.references import DEFINITIONS, REFERENCES
from toolhall.schema.reshape import has_references, without_references
from toolhall.schema.walk import children

name = "oxp"
grouped = False
carrier: tuple[str, ...] = ("requirements", "x-toolhall")

_ID = re.compile(r"([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)(?:@([0-9]+(?:\.[0-9]+\.[0-9]+)?))?")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_PART = re.compile(r"[^A-Za-z0-9_]")
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MARK = re.compile(r"[-+]")


def place(document: JsonObject) -> tuple[str, ...]:  # noqa: ARG001 - the same in every document
    """A definition is one tool itself."""
    return ()


def read(document: Json) -> tuple[Tool, ...]:
    """The one tool of a document; BadDocument with every finding."""
    reading = Reading(name)
    document = reading.object(document, "")
    tool_id = _id(reading, document)
    published = reading.text(document, "name", "") or ""
    if published and not _NAME.fullmatch(published):
        reading.fault("/name", "name", "use 1 to 64 letters, digits, _ and -")
    tool = Tool(
        id=tool_id,
        name=published,
        description=reading.text(document, "description", ""),
        input=_input(reading, document.get("input_schema")),
        output=_output(reading, document),
        requirements=read_requirements(reading, document.get("requirements"), "/requirements"),
    )
    reading.done()
    return (tool,)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One definition; both schemas without references, every parameter described."""
    (tool,) = tools
    version = plain_version(tool.id.version)
    document: JsonObject = {
        "id": f"{part(tool.id.toolkit)}.{part(tool.id.tool)}@{version}",
        "name": _NO_NAME.sub("_", tool.name)[:NAME_LIMIT],
        "description": tool.description or tool.title or tool.name,
        "version": version,
        "input_schema": {"parameters": _described(without_references(tool.input))},
        "output_schema": _write_output(tool.output),
    }
    if tool.requirements is not None:
        document["requirements"] = tool.requirements
    return document


def plain_version(version: str) -> str:
    """The three numbers that OXP wants: a date or a count gets zeros, a pre-release loses its mark."""
    return _MARK.split(semantic_version(version), maxsplit=1)[0]


def part(text: str) -> str:
    """A toolkit's or a tool's name as an OXP id can hold it."""
    return _NO_PART.sub("_", text) or "_"


def _id(reading: Reading, document: JsonObject) -> ToolId:
    text = reading.text(document, "id", "") or ""
    version = reading.text(document, "version", "") or ""
    found = _ID.fullmatch(text)
    if text and not found:
        reading.fault("/id", "id", "write Toolkit.Tool@1.0.0 with letters, digits and _")
    if version and not (_VERSION.fullmatch(version) and len(version) <= VERSION_LIMIT):
        reading.fault("/version", "version", "write three numbers such as 1.0.0")
    elif found and found[3] and version not in (found[3], f"{found[3]}.0.0"):  # a count stands for x.0.0
        reading.fault("/version", "version", "write the same version as in the id")
    return ToolId(found[1], found[2], version) if found else ToolId("", "", version)


def _input(reading: Reading, schema: Json) -> JsonObject:
    if schema is None:
        return {"type": "object"}
    path = "/input_schema"
    schema = reading.object(schema, path)
    # The specification's site wraps the schema in "parameters", its OpenAPI file does not.
    if "parameters" in schema and not schema.keys() & {"type", "properties", "$schema"}:
        path = f"{path}/parameters"
        schema = reading.object(schema["parameters"], path)
    _refuse_references(reading, schema, path)
    properties = schema.get("properties")
    for key, each in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(each, dict) or not isinstance(each.get("description"), str):
            where = f"{path}/properties/{escape(key)}"
            reading.fault(where, "description", "describe this parameter in a 'description'")
    return reading.arguments(schema, path)


def _output(reading: Reading, document: JsonObject) -> Output:
    if "output_schema" not in document:
        return Output()
    schema = document["output_schema"]
    if schema is None:
        return Output("none")
    schema = reading.object(schema, "/output_schema")
    _refuse_references(reading, schema, "/output_schema")
    return Output("schema", schema)


def _refuse_references(reading: Reading, schema: JsonObject, path: str) -> None:
    """Name every place of a schema that OXP excludes."""
    places = list(_references(schema, path)) or [path] if has_references(schema) else []
    for place in places:
        fix = "inline what is referred to; OXP schemas have no references or definitions"
        reading.fault(place, "references", fix)


def _references(schema: JsonObject, path: str) -> Iterator[str]:
    pending = [(schema, path)]
    while pending:
        found, where = pending.pop()
        yield from (f"{where}/{key}" for key in (*REFERENCES, *DEFINITIONS) if key in found)
        inner = [child for child in children(found, where) if child.applies and isinstance(child.schema, dict)]
        pending.extend((child.schema, child.pointer) for child in inner)


def _write_output(output: Output) -> JsonObject | None:
    if output.kind == "none":
        return None
    schema = {} if output.schema is None else without_references(output.schema)
    if output.description is not None and "description" not in schema:
        return {**schema, "description": output.description}
    return schema


def _described(schema: JsonObject) -> JsonObject:
    """The schema with a description for every parameter; itself, where nothing is missing."""
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
