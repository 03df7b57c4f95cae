"""The operations of management, for callers who may manage the hall."""

from collections.abc import Sequence

from toolhall.model.json import JsonObject

TAG: JsonObject = {"name": "management", "description": "What is registered, in which state, and every change of that."}
BEHAVIOURS = ("breaking", "feature")
STATES = ("registered", "quarantined", "active", "inactive")
ORIGINS = ("code", "file", "http", "cli", "tool-server")
HAPPENED = (
    "registered",
    "activated",
    "deactivated",
    "quarantined",
    "deprecated",
    "removed",
    "replaced",
    "rolled back",
)
_TEXT: JsonObject = {"type": "string", "pattern": r"^[^\u0000]*$"}
_DIGEST: JsonObject = {"type": "string", "pattern": "^sha256-[0-9a-f]{64}$"}
_MOMENT: JsonObject = {"type": "string", "format": "date-time"}
_DAY: JsonObject = {"type": "string", "format": "date", "description": "The first day without the tool, in UTC."}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_SUMMARY: JsonObject = {"$ref": "#/components/schemas/RegisteredTool"}
_FINDING: JsonObject = {"$ref": "#/components/schemas/Finding"}


def _object(**properties: JsonObject) -> JsonObject:
    """An object with all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def _or_null(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}]}


_TOOL = {
    "id": _TEXT,
    "toolkit": _TEXT,
    "tool": _TEXT,
    "version": _TEXT,
    "name": {**_TEXT, "description": "What it is published as."},
    "title": _or_null(_TEXT),
    "state": {"enum": list(STATES)},
    "origin": {"enum": list(ORIGINS)},
    "originDetail": _TEXT,
    "by": {**_TEXT, "description": "Who registered it."},
    "registeredAt": _MOMENT,
    "changedAt": _MOMENT,
    "deprecatedAt": _or_null(_MOMENT),
    "sunset": _or_null(_DAY),
    "successor": _or_null(_TEXT),
    "dialect": {**_TEXT, "description": "What its document is written in; `toolhall` for tools that are code."},
    "digests": _object(shown=_TEXT, contract=_TEXT, document=_DIGEST),
    "served": {"type": "boolean", "description": "Whether it can be called now."},
}
SCHEMAS: JsonObject = {
    "RegisteredTool": _object(**_TOOL),
    "Json": {
        "description": "Any JSON, without U+0000 and within 15 digits.",
        "anyOf": [
            {"type": ["string", "boolean", "null"], "pattern": r"^[^\u0000]*$"},
            {"type": "number", "minimum": -(10**15), "maximum": 10**15},
            {"type": "array", "items": {"$ref": "#/components/schemas/Json"}},
            {
                "type": "object",
                "propertyNames": {"pattern": r"^[^\u0000]*$", "maxLength": 256},
                "additionalProperties": {"$ref": "#/components/schemas/Json"},
            },
        ],
    },
    "Finding": _object(path=_TEXT, rule=_TEXT, fix=_TEXT, severity={"enum": ["error", "warning"]}),
}
_WHOLE = _object(
    **_TOOL,
    document={"description": "As it came."},
    findings=_list(_FINDING),
    versions=_list(_object(id=_TEXT, state={"enum": list(STATES)})),
)
_EVENTS = _object(
    events=_list(_object(at=_MOMENT, by=_TEXT, id=_TEXT, what={"enum": list(HAPPENED)}, detail={"type": "object"}))
)
_CALLERS = _object(
    callers=_list(_object(caller=_TEXT, calls=_COUNT, last=_MOMENT, versions=_list(_TEXT), dialects=_list(_TEXT))),
    others={**_COUNT, "description": "Calls of callers that are not named, because there are too many."},
)
_PAGE: JsonObject = {
    "type": "object",
    "properties": {
        "tools": _list(_SUMMARY),
        "nextCursor": {**_TEXT, "description": "Send it as `cursor` to get the next page."},
    },
    "required": ["tools"],
}
_ID: JsonObject = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "`Toolkit.tool@1.2.0`, or `Toolkit.tool`, which means its newest version.",
    "schema": {**_TEXT, "minLength": 1},
}
_LIMIT: JsonObject = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
_SEEN: JsonObject = {
    "type": "object",
    "properties": {
        "seen": {"anyOf": [_DIGEST, {"type": "null"}], "description": "The document digest of what you saw."}
    },
    "additionalProperties": False,
}
_ENDING: JsonObject = {
    "type": "object",
    "properties": {
        "sunset": _or_null(_DAY),
        "successor": {**_or_null({**_TEXT, "minLength": 1, "maxLength": 256}), "description": "What to call instead."},
    },
    "additionalProperties": False,
}
_NOTHING: JsonObject = {"type": "object", "additionalProperties": False}
_DEFINITION: JsonObject = {
    "type": "object",
    "description": "A definition of that dialect.",
    "propertyNames": {"pattern": r"^[^\u0000]*$", "maxLength": 256},
    "additionalProperties": {"$ref": "#/components/schemas/Json"},
}
_EXAMPLE: JsonObject = {
    "name": "get_tide",
    "description": "Say when the tide is high at a harbour today.",
    "inputSchema": {
        "type": "object",
        "properties": {"harbour": {"type": "string", "description": "Its name, such as Bergen."}},
        "required": ["harbour"],
    },
}
# What can be done next with what was registered.
_LINKS: JsonObject = {
    name: {"operationId": f"management.{name}", "parameters": {"id": "$response.body#/tools/0/id"}}
    for name in ("show", "activate", "deactivate", "deprecate", "rollback", "history", "callers", "remove")
}


def paths(readable: Sequence[str]) -> JsonObject:
    """Every operation; definitions are read in these dialects."""
    return {
        "/api/tools": {"get": _listing(), "post": _registering(readable)},
        "/api/tools/{id}": {
            "get": _operation("show", "One tool, with its document and all that lint says of it.", _WHOLE, _ID),
            "delete": _operation("remove", "Forget a tool; its history stays.", _object(removed=_TEXT), _ID),
        },
        "/api/tools/{id}/activate": {
            "post": _change("activate", "Serve it; what was quarantined only with the digest of its document.", _SEEN)
        },
        "/api/tools/{id}/deactivate": {"post": _change("deactivate", "Serve it no longer.", _NOTHING)},
        "/api/tools/{id}/deprecate": {"post": _change("deprecate", "Say that it will go.", _ENDING)},
        "/api/tools/{id}/rollback": {
            "post": _change("rollback", "Serve the version before again.", _NOTHING, _object(tools=_list(_SUMMARY)))
        },
        "/api/tools/{id}/history": {
            "get": _operation(
                "history", "What happened to it, the newest first.", _EVENTS, _ID, _query("limit", _LIMIT)
            )
        },
        "/api/tools/{id}/callers": {
            "get": _operation("callers", "Who called it; without a version, any of them.", _CALLERS, _ID)
        },
        "/api/history": {"get": _operation("events", "What happened to all tools.", _EVENTS, _query("limit", _LIMIT))},
    }


def _listing() -> JsonObject:
    parameters = (
        _query("state", {"enum": list(STATES)}),
        _query("toolkit", {"type": "string"}),
        _query("cursor", {"type": "string"}),
    )
    return _operation("list", "Everything that is registered, in pages.", _PAGE, *parameters)


def _registering(readable: Sequence[str]) -> JsonObject:
    dialect = _query("dialect", {"enum": list(readable)}, "What the definition is written in; else as it looks.")
    says = "What its author says of how it behaves, beyond what the definition can show; the version must say so too."
    behaviour = _query("behaviour", {"enum": list(BEHAVIOURS)}, says)
    operation = _operation(
        "register", "Register a definition; it is quarantined until somebody activates it.", {}, dialect, behaviour
    )
    operation["requestBody"] = _body(_DEFINITION, required=True)
    operation["requestBody"]["content"]["application/json"]["example"] = _EXAMPLE
    created = _answer("It is registered.", _object(tools=_list(_SUMMARY), findings=_list(_FINDING)))
    operation["responses"] = {"201": {**created, "links": _LINKS}, **_errors(body=True)}
    return operation


def _change(name: str, says: str, body: JsonObject, answer: JsonObject = _SUMMARY) -> JsonObject:
    operation = _operation(name, says, answer, _ID)
    operation["requestBody"] = _body(body, required=False)
    operation["responses"] |= _errors(body=True)
    return operation


def _operation(name: str, says: str, answer: JsonObject, *parameters: JsonObject) -> JsonObject:
    return {
        "operationId": f"management.{name}",
        "tags": [TAG["name"]],
        "description": says,
        **({"parameters": list(parameters)} if parameters else {}),
        "responses": {"200": _answer("It is so.", answer), **_errors(body=name == "remove")},
    }


def _query(name: str, schema: JsonObject, says: str = "") -> JsonObject:
    return {"name": name, "in": "query", **({"description": says} if says else {}), "schema": schema}


def _body(schema: JsonObject, *, required: bool) -> JsonObject:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _errors(*, body: bool) -> JsonObject:
    named = {"400": "Malformed", "403": "Denied", "404": "NotFound", "503": "Unavailable"}
    named |= {"413": "TooLarge", "415": "WrongType"} if body else {}
    errors: JsonObject = {status: {"$ref": f"#/components/responses/{key}"} for status, key in named.items()}
    if body:
        errors["409"] = _answer(
            "Not with what is registered now, or not a definition that could be.",
            {"$ref": "#/components/schemas/Error"},
        )
    return errors


def _answer(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
