"""What every call over REST may say and answer: the tool's bare result, or an error with a code and a message."""

from toolhall.model.json import JsonObject
from toolhall.model.tool import Output

ERROR: JsonObject = {
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

VERSION: JsonObject = {
    "name": "version",
    "in": "query",
    "description": "Which version of the tool to call; the newest one if left out.",
    "schema": {"type": "string", "minLength": 1},
}

DIALECT: JsonObject = {
    "name": "dialect",
    "in": "query",
    "description": "Whose form the arguments have: of a strict function, null leaves a member out.",
    "schema": {"type": "string", "enum": ["openai@strict", "openai@responses-strict"]},
}

_ERRORS = {
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
_HEADERS: JsonObject = {
    "Unauthenticated": {
        "WWW-Authenticate": {"description": "How to prove who is calling.", "schema": {"type": "string"}},
    },
    **dict.fromkeys(("ToolFailed", "Limited", "Unavailable"), _RETRY_AFTER),
}


def _response(key: str, description: str) -> JsonObject:
    headers = {"headers": _HEADERS[key]} if key in _HEADERS else {}
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": description, **headers, "content": {"application/json": {"schema": schema}}}


RESPONSES: JsonObject = {key: _response(key, description) for key, description in _ERRORS.values()}


def responses_of(output: Output, schema: str) -> JsonObject:
    """Every answer of an operation; `schema` is where the schema of its result stands, if it has one."""
    described = output.description or "The result."
    content = {"application/json": {"schema": _result(output, schema)}}
    errors = {status: {"$ref": f"#/components/responses/{key}"} for status, (key, _) in _ERRORS.items()}
    return {"200": {"description": described, "content": content}, **errors}


def _result(output: Output, schema: str) -> JsonObject:
    """A tool that returns nothing answers null; one that does not say may answer anything."""
    if output.kind == "none":
        return {"type": "null"}
    return {} if output.schema is None else {"$ref": schema}
