"""Builders for OpenAPI schemas, parameters, bodies and operations, and the wire limits added to tool schemas.

Strict JSON has no U+0000, no integer of more than 20 digits and no key of more than 256 characters
(`dialects/strict_json.py`). `with_wire_limits` writes that into a tool's schema, so that the description is true.
"""

from toolhall.dialects.error_details import headers_of, hints_of, problems_of, retry_after_of, row_and_message
from toolhall.dialects.strict_json import MAX_DIGITS, MAX_KEY_LENGTH
from toolhall.model import errors
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import WireResponse

MANAGEMENT_TAG_NAME = "management"  # the tag of all of them
TEXT: JsonObject = {"type": "string", "pattern": r"^[^\u0000]*$"}
TIMESTAMP: JsonObject = {"type": "string", "format": "date-time"}
_BODY_ALLOWED = ("remove", "revoke")  # may have one, if it says nothing


def object_schema(**properties: JsonObject) -> JsonObject:
    """An object with all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def array_schema(items: JsonObject) -> JsonObject:
    """An array of these."""
    return {"type": "array", "items": items}


def nullable(schema: JsonObject) -> JsonObject:
    """This, or nothing."""
    return {"anyOf": [schema, {"type": "null"}]}


def management_operation(name: str, description: str, result: JsonObject, *parameters: JsonObject) -> JsonObject:
    """One operation of management, with everything that may come of it."""
    return {
        "operationId": f"management.{name}",
        "tags": [MANAGEMENT_TAG_NAME],
        "description": description,
        **({"parameters": list(parameters)} if parameters else {}),
        "responses": {
            "200": json_response("It is so.", result),
            **error_responses(body=name.startswith(_BODY_ALLOWED)),
        },
    }


def query_parameter(name: str, schema: JsonObject, description: str = "") -> JsonObject:
    """A parameter of the query."""
    return {"name": name, "in": "query", **({"description": description} if description else {}), "schema": schema}


def request_body(schema: JsonObject, *, required: bool) -> JsonObject:
    """What is sent."""
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def error_responses(*, body: bool) -> JsonObject:
    """What may go wrong; more with a body."""
    named = {"400": "Malformed", "403": "Denied", "404": "NotFound", "503": "Unavailable"}
    named |= {"413": "TooLarge", "415": "WrongType"} if body else {}
    found: JsonObject = {status: {"$ref": f"#/components/responses/{key}"} for status, key in named.items()}
    if body:
        found["409"] = json_response(
            "Not with what is registered now, or not a definition that could be.",
            {"$ref": "#/components/schemas/Error"},
        )
    return found


def json_response(description: str, schema: JsonObject) -> JsonObject:
    """What is answered."""
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_MAX_INTEGER = 10**MAX_DIGITS - 1
_TEXT_PATTERN = r"^[^\u0000]*$"
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


def with_wire_limits(schema: Json) -> Json:
    """The schema with the limits of the wire, where it says nothing itself."""
    if not isinstance(schema, dict):
        return schema
    found: JsonObject = dict(schema)
    for key in _LIST_KEYWORDS:
        if isinstance(found.get(key), list):
            found[key] = [with_wire_limits(part) for part in found[key]]
    for key in _SINGLE_KEYWORDS:
        if key in found:
            found[key] = with_wire_limits(found[key])
    for key in _MAP_KEYWORDS:
        if isinstance(found.get(key), dict):
            found[key] = {name: with_wire_limits(part) for name, part in found[key].items()}
    return found | _missing_limits(found)


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


TABLE: dict[type, tuple[int, str]] = {
    errors.Malformed: (400, "malformed"),
    errors.NotFound: (404, "not_found"),
    errors.NotActive: (404, "not_active"),
    errors.Retired: (410, "retired"),
    errors.BadArguments: (422, "bad_arguments"),
    errors.Unsupported: (400, "unsupported"),
    errors.Unauthenticated: (401, "unauthenticated"),
    errors.Denied: (403, "denied"),
    errors.NeedsVerification: (403, "needs_verification"),
    errors.NeedsRequirement: (403, "needs_requirement"),
    errors.Limited: (429, "limited"),
    # What a tool says of itself is no fault of the server: like a conflict, the caller may change something and retry.
    errors.ToolFailed: (409, "tool_failed"),
    errors.ToolError: (409, "tool_failed"),
    errors.Crashed: (500, "crashed"),
    errors.TimedOut: (504, "timed_out"),
    errors.Cancelled: (500, "cancelled"),
    errors.BadOutput: (500, "bad_output"),
    errors.Unavailable: (503, "unavailable"),
    errors.Broken: (500, "broken"),
}


def write_error(error: errors.ToolhallError) -> WireResponse:
    """Any error; a subclass is said like its nearest listed ancestor."""
    (status, code), message = row_and_message(TABLE, error)
    body: JsonObject = {"code": code, "message": message}
    details = hints_of(error)
    if "can_retry" in details and (wait := retry_after_of(error)) is not None:
        details["retry_after"] = wait
    if problems := problems_of(error):
        details["problems"] = problems
    if details:
        body["details"] = details
    return WireResponse(encode({"error": body}), status, headers_of(error))
