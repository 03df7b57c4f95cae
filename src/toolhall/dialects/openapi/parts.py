"""What descriptions of management are put together from."""

from toolhall.model.json import JsonObject

MANAGEMENT = "management"  # the tag of all of them
TEXT: JsonObject = {"type": "string", "pattern": r"^[^\u0000]*$"}
MOMENT: JsonObject = {"type": "string", "format": "date-time"}
_WITH_BODY = ("remove", "revoke")  # may have one, if it says nothing


def object_of(**properties: JsonObject) -> JsonObject:
    """An object with all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def list_of(items: JsonObject) -> JsonObject:
    """An array of these."""
    return {"type": "array", "items": items}


def or_null(schema: JsonObject) -> JsonObject:
    """This, or nothing."""
    return {"anyOf": [schema, {"type": "null"}]}


def operation(name: str, says: str, answer: JsonObject, *parameters: JsonObject) -> JsonObject:
    """One operation of management, with everything that may come of it."""
    return {
        "operationId": f"management.{name}",
        "tags": [MANAGEMENT],
        "description": says,
        **({"parameters": list(parameters)} if parameters else {}),
        "responses": {"200": replied("It is so.", answer), **errors(body=name.startswith(_WITH_BODY))},
    }


def query(name: str, schema: JsonObject, says: str = "") -> JsonObject:
    """A parameter of the query."""
    return {"name": name, "in": "query", **({"description": says} if says else {}), "schema": schema}


def body_of(schema: JsonObject, *, required: bool) -> JsonObject:
    """What is sent."""
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def errors(*, body: bool) -> JsonObject:
    """What may go wrong; more with a body."""
    named = {"400": "Malformed", "403": "Denied", "404": "NotFound", "503": "Unavailable"}
    named |= {"413": "TooLarge", "415": "WrongType"} if body else {}
    found: JsonObject = {status: {"$ref": f"#/components/responses/{key}"} for status, key in named.items()}
    if body:
        found["409"] = replied(
            "Not with what is registered now, or not a definition that could be.",
            {"$ref": "#/components/schemas/Error"},
        )
    return found


def replied(description: str, schema: JsonObject) -> JsonObject:
    """What is answered."""
    return {"description": description, "content": {"application/json": {"schema": schema}}}
