"""OpenAPI 3.1 catalog: all tools in one document, each an operation `POST /tools/{toolkit}/{tool}`."""

import re
from urllib.parse import quote

import msgspec

from toolhall.dialects.base import Loss, WriteResult
from toolhall.dialects.model_apis.function import (
    function_names,
    indexed_losses,
    original_name,
    schema_losses,
    unsupported_members,
    unsupported_toolkit_members,
)
from toolhall.model.json import JsonObject
from toolhall.model.tool import Output, Tool, ToolkitInfo
from toolhall.schema.adapt import AdaptedSchema, SchemaTarget, adapt_schema, adapt_subschemas
from toolhall.schema.cost import BadSchema
from toolhall.schema.validator import Validator

ERROR_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "What happened, in one word for programs."},
                "message": {"type": "string", "description": "What happened, for people and models."},
                "details": {"type": "object", "description": "More, where there is more to say."},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
VERSION_PARAMETER: JsonObject = {
    "name": "version",
    "in": "query",
    "description": "Which version of the tool to call; the newest one if left out.",
    "schema": {"type": "string", "minLength": 1},
}
DIALECT_PARAMETER: JsonObject = {
    "name": "dialect",
    "in": "query",
    "description": "Whose form the arguments have: of a strict function, null leaves a member out.",
    "schema": {"type": "string", "enum": ["openai@strict", "openai@responses-strict"]},
}
_ERRORS_BY_STATUS = {
    "400": ("Malformed", "The message is malformed, or asks for what this interface cannot do."),
    "401": ("Unauthenticated", "A valid credential is required."),
    "403": ("Denied", "This caller may not do this, or something has to be done first."),
    "404": ("NotFound", "There is no such tool, or none that this caller may see."),
    "409": ("ToolFailed", "The tool says that it could not do this, and why."),
    "410": ("Retired", "The tool's last day is over; the message names what to call instead."),
    "413": ("TooLarge", "The body is larger than this server takes."),
    "415": ("WrongType", "The body is not sent as application/json, or is encoded."),
    "422": ("BadArguments", "The arguments do not match the tool's input schema."),
    "429": ("Limited", "Too many calls; try again later."),
    "500": ("Broken", "The tool crashed or broke its promise, or the server has a fault."),
    "503": ("Unavailable", "What the tool runs on cannot be reached now."),
    "504": ("TimedOut", "The tool did not finish in time."),
}
_RETRY_AFTER: JsonObject = {
    "Retry-After": {"description": "In how many seconds.", "schema": {"type": "integer", "minimum": 1}},
}
_RESPONSE_HEADERS: JsonObject = {
    "Unauthenticated": {
        "WWW-Authenticate": {"description": "How to prove who is calling.", "schema": {"type": "string"}},
    },
    **dict.fromkeys(("ToolFailed", "Limited", "Unavailable"), _RETRY_AFTER),
}


def _error_response(key: str, description: str) -> JsonObject:
    headers = {"headers": _RESPONSE_HEADERS[key]} if key in _RESPONSE_HEADERS else {}
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": description, **headers, "content": {"application/json": {"schema": schema}}}


ERROR_RESPONSES: JsonObject = {
    key: _error_response(key, description) for key, description in _ERRORS_BY_STATUS.values()
}


def operation_responses(output: Output, schema: str) -> JsonObject:
    """Every answer of an operation; `schema` is where the schema of its result stands, if it has one."""
    described = output.description or "The result."
    content = {"application/json": {"schema": _result_schema(output, schema)}}
    errors = {status: {"$ref": f"#/components/responses/{key}"} for status, (key, _) in _ERRORS_BY_STATUS.items()}
    return {"200": {"description": described, "content": content}, **errors}


def _result_schema(output: Output, schema: str) -> JsonObject:
    """A tool that returns nothing answers null; one that does not say may answer anything."""
    if output.kind == "none":
        return {"type": "null"}
    return {} if output.schema is None else {"$ref": schema}


name = "openapi"
grouped = True
INPUT_SUFFIX = ".input"  # ends the name of every component that describes arguments
_SIMPLE_KEYWORDS = frozenset(
    {"$schema", "type", "title", "description", "properties", "required", "additionalProperties"}
)
_ANY_NAME = re.compile(r".+", re.DOTALL)
# Every keyword is known; references stay where they recur, and are told where the schema stands.
TARGET = SchemaTarget(name, adapt_subschemas, supports_recursion=True)


class OpenApiInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the document says of the whole interface."""

    title: str = "Toolhall"
    version: str = "1"
    description: str | None = None
    servers: tuple[str, ...] = ()


def write(tools: tuple[Tool, ...], info: OpenApiInfo = OpenApiInfo()) -> WriteResult:  # noqa: B008 - immutable
    """One document with an operation for each tool; of two with the same path, the first."""
    paths: JsonObject = {}
    schemas: JsonObject = {"Error": ERROR_SCHEMA}
    losses: list[list[Loss]] = []
    for tool, given in zip(tools, function_names(tools, _ANY_NAME), strict=True):
        path = f"/tools/{quote(tool.id.toolkit, safe='')}/{quote(tool.id.tool, safe='')}"
        if path in paths:
            losses.append([Loss("", "another version of this tool has its path; call this one by its version")])
            continue
        key = _free_key(given, schemas)
        taken = _component(tool.input, key + INPUT_SUFFIX, schemas)
        returned = None if tool.output.schema is None else _component(tool.output.schema, f"{key}.output", schemas)
        paths[path] = {"post": _operation(tool, given, key)}
        losses.append(_losses(tool, given, taken, returned))
    document: JsonObject = {
        "openapi": "3.1.1",
        "info": _info(info),
        **({"servers": [{"url": url} for url in info.servers]} if info.servers else {}),
        "tags": _tags(tools),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": ERROR_RESPONSES,
            "parameters": {"version": VERSION_PARAMETER, "dialect": DIALECT_PARAMETER},
        },
    }
    return WriteResult([document], indexed_losses(losses))


def _info(info: OpenApiInfo) -> JsonObject:
    described = {} if info.description is None else {"description": info.description}
    return {"title": info.title, "version": info.version, **described}


def _tags(tools: tuple[Tool, ...]) -> list[JsonObject]:
    tags: dict[str, JsonObject] = {}
    for tool in tools:
        about = tool.about.description or tool.about.title
        tags.setdefault(tool.id.toolkit, {"name": tool.id.toolkit, **({"description": about} if about else {})})
    return list(tags.values())


def _free_key(given: str, schemas: JsonObject) -> str:
    """A name under which components may stand (letters, digits, . - _), not taken yet."""
    key = plain = re.sub(r"[^A-Za-z0-9._-]", "_", given)
    count = 2
    while key + INPUT_SUFFIX in schemas:
        key, count = f"{plain}_{count}", count + 1
    return key


def _component(schema: JsonObject, key: str, schemas: JsonObject) -> AdaptedSchema:
    reshaped = adapt_schema(schema, TARGET, f"#/components/schemas/{key}")
    schemas[key] = reshaped.schema
    return reshaped


def _operation(tool: Tool, given: str, key: str) -> JsonObject:
    operation: JsonObject = {"operationId": given, "tags": [tool.id.toolkit]}
    if tool.title is not None:
        operation["summary"] = tool.title
    if tool.description is not None:
        operation["description"] = tool.description
    if tool.deprecation is not None:
        operation["deprecated"] = True
        said = msgspec.to_builtins(tool.deprecation)
        operation |= {f"x-{key}": said[key] for key in ("sunset", "successor") if key in said}
    operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in ("version", "dialect")]
    operation["requestBody"] = {
        "required": _needs_body(tool.input),
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{key}{INPUT_SUFFIX}"}}},
    }
    operation["responses"] = operation_responses(tool.output, f"#/components/schemas/{key}.output")
    return operation


def _needs_body(schema: JsonObject) -> bool:
    """Whether a call without arguments, which is one without a body, is refused."""
    if _SIMPLE_KEYWORDS.issuperset(schema):
        return bool(schema.get("required"))
    try:
        return not Validator(schema).accepts({})
    except BadSchema:
        return True


def _losses(tool: Tool, given: str, accepted: AdaptedSchema, returned: AdaptedSchema | None) -> list[Loss]:
    found = list(unsupported_members(tool, name))
    exact = original_name(tool)
    if given != exact:
        found.append(Loss("/name", f"the operationId is the published name; written as {given} for {exact[:128]!r}"))
    if tool.tags:
        found.append(Loss("/tags", "openapi's tags are the toolkits"))
    about = tool.about
    said = ToolkitInfo(title=None if about.description else about.title, description=about.description)
    found.extend(
        loss for loss in unsupported_toolkit_members(about, name) if getattr(said, loss.path.rpartition("/")[2]) is None
    )
    found.extend(schema_losses(accepted))
    found.extend(schema_losses(returned, "/outputSchema") if returned is not None else ())
    return found
