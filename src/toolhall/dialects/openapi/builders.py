"""Builders for OpenAPI schemas, parameters, bodies and operations, and the wire limits added to tool schemas.

Strict JSON has no U+0000, no integer of more than 20 digits and no key of more than 256 characters
(`dialects/strict_json.py`). `with_wire_limits` writes these limits into a tool's schema, so that clients and fuzzers
that generate requests from the document stay within them.
"""

import re

from toolhall.dialects.openapi.examples import with_example
from toolhall.dialects.strict_json import MAX_DIGITS, MAX_KEY_LENGTH
from toolhall.model.json import Json, JsonObject

MANAGEMENT_TAG_NAME = "management"
_TEXT_PATTERN = r"^[^\u0000]*$"
TEXT: JsonObject = {"type": "string", "pattern": _TEXT_PATTERN}
ID_SCHEMA: JsonObject = {**TEXT, "minLength": 1}
TIMESTAMP: JsonObject = {"type": "string", "format": "date-time"}
EMPTY_BODY: JsonObject = {"type": "object", "additionalProperties": False}
REMOVED: JsonObject = {"type": "object", "properties": {"removed": TEXT}, "required": ["removed"]}
_OPTIONAL_BODY_PREFIXES = ("remove", "revoke")  # these operations accept an empty body
_SENTENCE_END = re.compile(r"[;.](?:\s|$)")
_MAX_INTEGER = 10**MAX_DIGITS - 1
_OWN_CONSTRAINTS = ("enum", "const", "pattern", "format")
_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE_KEYWORDS = (
    "items",
    "additionalProperties",
    "contains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "if",
    "then",
    "else",
)
_MAP_KEYWORDS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def object_schema(**properties: JsonObject) -> JsonObject:
    """An object in which all of these properties are required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def array_schema(items: JsonObject) -> JsonObject:
    """An array of these items."""
    return {"type": "array", "items": items}


def nullable(schema: JsonObject) -> JsonObject:
    """The schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def reference(name: str) -> JsonObject:
    """A reference to a schema of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


def query_parameter(name: str, schema: JsonObject, description: str = "") -> JsonObject:
    """A parameter in the query string."""
    return {"name": name, "in": "query", **({"description": description} if description else {}), "schema": schema}


def path_parameter(name: str, schema: JsonObject, description: str = "") -> JsonObject:
    """A parameter in the path."""
    described = {"description": description} if description else {}
    return {"name": name, "in": "path", "required": True, **described, "schema": schema}


def request_body(schema: JsonObject, *, required: bool = True) -> JsonObject:
    """A JSON request body."""
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def json_response(description: str, schema: JsonObject) -> JsonObject:
    """A response with a JSON body."""
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def ok(description: str, schema: JsonObject) -> JsonObject:
    """The responses of an operation that returns 200."""
    return {"200": json_response(description, schema)}


def created(description: str, schema: JsonObject, links: JsonObject | None = None) -> JsonObject:
    """The responses of an operation that returns 201; `links` are operations on the new resource."""
    return {"201": {**json_response(description, schema), **({"links": links} if links else {})}}


def accepted(description: str, schema: JsonObject) -> JsonObject:
    """The responses of an operation that returns 202: a person has to finish it."""
    return {"202": json_response(description, schema)}


def management_operation(
    name: str,
    description: str,
    success: JsonObject,
    *parameters: JsonObject,
    body: JsonObject | None = None,
    rate_limited: bool = False,
) -> JsonObject:
    """One management operation with all its responses; `success` comes from `ok`, `created` or `accepted`.

    Its summary is the description up to the first semicolon or full stop; its example is that of `examples.py`.
    """
    operation: JsonObject = {
        "operationId": f"management.{name}",
        "tags": [MANAGEMENT_TAG_NAME],
        "summary": _summary(description),
        "description": description,
        **({"parameters": list(parameters)} if parameters else {}),
        **({"requestBody": body} if body is not None else {}),
        "responses": {
            **success,
            **error_responses(body=body is not None or name.startswith(_OPTIONAL_BODY_PREFIXES)),
            **({"429": {"$ref": "#/components/responses/Limited"}} if rate_limited else {}),
        },
    }
    return with_example(name, operation)


def _summary(description: str) -> str:
    return _SENTENCE_END.split(description, maxsplit=1)[0]


def error_responses(*, body: bool) -> JsonObject:
    """The error responses of an operation; there are more if it takes a body."""
    names = {"400": "Malformed", "403": "Denied", "404": "NotFound", "503": "Unavailable"}
    names |= {"413": "TooLarge", "415": "WrongType"} if body else {}
    responses: JsonObject = {status: {"$ref": f"#/components/responses/{name}"} for status, name in names.items()}
    if body:
        responses["409"] = json_response(
            "The change conflicts with what is registered, or the definition is not valid.", reference("Error")
        )
    return responses


def with_wire_limits(schema: Json) -> Json:
    """The schema with the limits of strict JSON, where it has no constraint of its own."""
    if not isinstance(schema, dict):
        return schema
    limited: JsonObject = dict(schema)
    for key in _LIST_KEYWORDS:
        if isinstance(limited.get(key), list):
            limited[key] = [with_wire_limits(part) for part in limited[key]]
    for key in _SINGLE_KEYWORDS:
        if key in limited:
            limited[key] = with_wire_limits(limited[key])
    for key in _MAP_KEYWORDS:
        if isinstance(limited.get(key), dict):
            limited[key] = {name: with_wire_limits(part) for name, part in limited[key].items()}
    return limited | _missing_limits(limited)


def _missing_limits(schema: JsonObject) -> JsonObject:
    if schema.keys() & set(_OWN_CONSTRAINTS):
        return {}
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind}
    limits: JsonObject = {}
    if "string" in kinds:
        limits["pattern"] = _TEXT_PATTERN
    if "integer" in kinds and "number" not in kinds:  # a number may be larger if it is not written as an integer
        limits |= {} if schema.keys() & {"minimum", "exclusiveMinimum"} else {"minimum": -_MAX_INTEGER}
        limits |= {} if schema.keys() & {"maximum", "exclusiveMaximum"} else {"maximum": _MAX_INTEGER}
    if "object" in kinds and schema.get("additionalProperties") is not False and "propertyNames" not in schema:
        limits["propertyNames"] = {"pattern": _TEXT_PATTERN, "maxLength": MAX_KEY_LENGTH}
    return limits
