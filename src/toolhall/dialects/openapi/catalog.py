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

name = "openapi"
grouped = True
INPUT_SUFFIX = ".input"  # suffix of the component names of input schemas
_SIMPLE_KEYWORDS = frozenset(
    {"$schema", "type", "title", "description", "properties", "required", "additionalProperties"}
)
_ANY_NAME = re.compile(r".+", re.DOTALL)
# OpenAPI 3.1 supports every keyword; recursive references stay, relative to the component.
TARGET = SchemaTarget(name, adapt_subschemas, supports_recursion=True)
ERROR_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "The kind of error, for programs."},
                "message": {"type": "string", "description": "What went wrong, for people and models."},
                "details": {"type": "object", "description": "Further information; absent if there is none."},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
VERSION_PARAMETER: JsonObject = {
    "name": "version",
    "in": "query",
    "description": "The version of the tool; the newest one if left out.",
    "schema": {"type": "string", "minLength": 1},
}
DIALECT_PARAMETER: JsonObject = {
    "name": "dialect",
    "in": "query",
    "description": "The dialect of the arguments: in a strict function's, null stands for an absent member.",
    "schema": {"type": "string", "enum": ["openai@strict", "openai@responses-strict"]},
}
_ERRORS_BY_STATUS = {
    "400": ("Malformed", "The request is malformed, or needs a feature that this interface does not have."),
    "401": ("Unauthenticated", "A valid credential is required."),
    "403": ("Denied", "The caller may not do this, or a person has to verify, link or set something first."),
    "404": ("NotFound", "There is no such tool or record, or the caller may not see it."),
    "409": ("ToolFailed", "The tool reported a failure; the message says why."),
    "410": ("Retired", "The tool was retired; the message names what to call instead."),
    "413": ("TooLarge", "The body is larger than this server accepts."),
    "415": ("WrongType", "The body is not application/json, or has a content encoding."),
    "422": ("BadArguments", "The arguments do not match the tool's input schema."),
    "429": ("Limited", "Too many calls; try again later."),
    "500": ("Broken", "The tool crashed or returned an invalid result, or the server has a fault."),
    "503": ("Unavailable", "The server is busy, or the tool cannot be reached now."),
    "504": ("TimedOut", "The tool did not finish in time."),
}
_RETRY_AFTER: JsonObject = {
    "Retry-After": {"description": "Seconds until a retry may succeed.", "schema": {"type": "integer", "minimum": 1}},
}
_RESPONSE_HEADERS: JsonObject = {
    "Unauthenticated": {
        "WWW-Authenticate": {"description": "The authentication scheme to use.", "schema": {"type": "string"}},
    },
    **dict.fromkeys(("ToolFailed", "Limited", "Unavailable"), _RETRY_AFTER),
}


class OpenApiInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Title, version and servers of the document."""

    title: str = "Toolhall"
    version: str = "1"
    description: str | None = None
    servers: tuple[str, ...] = ()


def _error_response(key: str, description: str) -> JsonObject:
    headers = {"headers": _RESPONSE_HEADERS[key]} if key in _RESPONSE_HEADERS else {}
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": description, **headers, "content": {"application/json": {"schema": schema}}}


ERROR_RESPONSES: JsonObject = {
    key: _error_response(key, description) for key, description in _ERRORS_BY_STATUS.values()
}


def write(tools: tuple[Tool, ...], info: OpenApiInfo = OpenApiInfo()) -> WriteResult:  # noqa: B008 - immutable
    """One document with an operation per tool; of two tools with the same path, the first."""
    paths: JsonObject = {}
    schemas: JsonObject = {"Error": ERROR_SCHEMA}
    losses: list[list[Loss]] = []
    for tool, operation_id in zip(tools, function_names(tools, _ANY_NAME), strict=True):
        path = f"/tools/{quote(tool.id.toolkit, safe='')}/{quote(tool.id.tool, safe='')}"
        if path in paths:
            losses.append([Loss("", "another version of this tool has its path; call this one by its version")])
            continue
        key = _free_key(operation_id, schemas)
        input_schema = _component(tool.input, key + INPUT_SUFFIX, schemas)
        output_schema = None if tool.output.schema is None else _component(tool.output.schema, f"{key}.output", schemas)
        paths[path] = {"post": _operation(tool, operation_id, key)}
        losses.append(_losses(tool, operation_id, input_schema, output_schema))
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


def _free_key(operation_id: str, schemas: JsonObject) -> str:
    """A component name with the allowed characters (letters, digits, . - _) that is not taken."""
    key = safe = re.sub(r"[^A-Za-z0-9._-]", "_", operation_id)
    count = 2
    while key + INPUT_SUFFIX in schemas:
        key, count = f"{safe}_{count}", count + 1
    return key


def _component(schema: JsonObject, key: str, schemas: JsonObject) -> AdaptedSchema:
    adapted = adapt_schema(schema, TARGET, f"#/components/schemas/{key}")
    schemas[key] = adapted.schema
    return adapted


def _operation(tool: Tool, operation_id: str, key: str) -> JsonObject:
    operation: JsonObject = {"operationId": operation_id, "tags": [tool.id.toolkit]}
    if tool.title is not None:
        operation["summary"] = tool.title
    if tool.description is not None:
        operation["description"] = tool.description
    if tool.deprecation is not None:
        operation["deprecated"] = True
        deprecation = msgspec.to_builtins(tool.deprecation)
        operation |= {f"x-{key}": deprecation[key] for key in ("sunset", "successor") if key in deprecation}
    operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in ("version", "dialect")]
    operation["requestBody"] = {
        "required": _needs_body(tool.input),
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{key}{INPUT_SUFFIX}"}}},
    }
    operation["responses"] = operation_responses(tool.output, f"#/components/schemas/{key}.output")
    return operation


def _needs_body(schema: JsonObject) -> bool:
    """True if a call without arguments, which has no body, is refused."""
    if _SIMPLE_KEYWORDS.issuperset(schema):
        return bool(schema.get("required"))
    try:
        return not Validator(schema).accepts({})
    except BadSchema:
        return True


def _losses(tool: Tool, operation_id: str, accepted: AdaptedSchema, returned: AdaptedSchema | None) -> list[Loss]:
    losses = list(unsupported_members(tool, name))
    original = original_name(tool)
    if operation_id != original:
        losses.append(
            Loss("/name", f"the operationId is the published name; written as {operation_id} for {original[:128]!r}")
        )
    if tool.tags:
        losses.append(Loss("/tags", "openapi's tags are the toolkits"))
    about = tool.about
    kept_info = ToolkitInfo(title=None if about.description else about.title, description=about.description)
    losses.extend(
        loss
        for loss in unsupported_toolkit_members(about, name)
        if getattr(kept_info, loss.path.rpartition("/")[2]) is None
    )
    losses.extend(schema_losses(accepted))
    losses.extend(schema_losses(returned, "/outputSchema") if returned is not None else ())
    return losses


def operation_responses(output: Output, schema: str) -> JsonObject:
    """All responses of an operation; `schema` is the reference to its output schema, if it has one."""
    described = output.description or "The result."
    content = {"application/json": {"schema": _result_schema(output, schema)}}
    errors = {status: {"$ref": f"#/components/responses/{key}"} for status, (key, _) in _ERRORS_BY_STATUS.items()}
    return {"200": {"description": described, "content": content}, **errors}


def _result_schema(output: Output, schema: str) -> JsonObject:
    """`null` for a tool that returns nothing; anything for a tool without an output schema."""
    if output.kind == "none":
        return {"type": "null"}
    return {} if output.schema is None else {"$ref": schema}
