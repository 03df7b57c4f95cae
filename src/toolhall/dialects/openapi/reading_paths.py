"""OpenAPI paths of what is read beside tools: `/resources`, `/resources/read`, `/prompts` and `/complete`."""

from toolhall.dialects.openapi.builders import (
    TEXT,
    array_schema,
    json_response,
    object_schema,
    path_parameter,
    query_parameter,
    request_body,
)
from toolhall.model.json import Json, JsonObject

_TAG = "hall"
_URI: JsonObject = {"type": "string", "description": "The URI of the resource."}
_CURSOR = query_parameter("cursor", {"type": "string"}, "The `nextCursor` of the previous page.")
_NEXT_CURSOR: JsonObject = {"type": "string", "description": "Send it as `cursor` to get the next page."}
_STATED: JsonObject = {
    "name": {"type": "string"},
    "title": {"type": "string"},
    "description": {"type": "string"},
}
_RESOURCE: JsonObject = {
    "type": "object",
    "properties": {
        "uri": _URI,
        "uriTemplate": {"type": "string", "description": "RFC 6570; in place of `uri` for a template."},
        **_STATED,
        "mimeType": {"type": "string"},
        "size": {"type": "integer", "minimum": 0, "description": "Bytes, if known."},
        "annotations": {"type": "object"},
        "icons": {"type": "array", "items": {"type": "object"}},
        "_meta": {"type": "object"},
    },
    "required": ["name"],
}
_RESOURCES: JsonObject = {
    "type": "object",
    "properties": {
        "resources": array_schema(_RESOURCE),
        "resourceTemplates": array_schema(_RESOURCE),
        "nextCursor": _NEXT_CURSOR,
    },
}
_PROMPT: JsonObject = {
    "type": "object",
    "properties": {
        **_STATED,
        "arguments": {"type": "array", "items": {"type": "object"}, "description": "As MCP says them, without types."},
        "inputSchema": {"type": "object", "description": "The JSON Schema of the arguments."},
        "icons": {"type": "array", "items": {"type": "object"}},
        "_meta": {"type": "object"},
    },
    "required": ["name", "inputSchema"],
}
_PROMPTS: JsonObject = {
    "type": "object",
    "properties": {"prompts": array_schema(_PROMPT), "nextCursor": _NEXT_CURSOR},
    "required": ["prompts"],
}
_MESSAGES: JsonObject = {
    "type": "object",
    "properties": {
        "description": {"type": "string"},
        "messages": array_schema(
            object_schema(
                role={"enum": ["user", "assistant"]},
                content={"type": "object", "description": "One block, as in MCP: text, image, audio or resource."},
            )
        ),
        "_meta": {"type": "object"},
    },
    "required": ["messages"],
}
_ARGUMENTS: JsonObject = {
    "type": "object",
    "description": "By name, as JSON values or as texts.",
    "propertyNames": {"pattern": r"^[^\u0000]*$", "maxLength": 256},
    "additionalProperties": {
        "anyOf": [TEXT, {"type": "number", "minimum": -(10**15), "maximum": 10**15}, {"type": "boolean"}]
    },
}
_NAMED: JsonObject = {**TEXT, "minLength": 1}
_ASKED: JsonObject = {
    "type": "object",
    "properties": {
        "prompt": {**_NAMED, "description": "The name of a prompt."},
        "resource": {**_NAMED, "description": "The URI template of a resource, in place of a prompt."},
        "argument": {**_NAMED, "description": "The argument or variable to complete."},
        "typed": {**TEXT, "description": "What was typed so far.", "default": ""},
        "given": {
            "type": "object",
            "description": "Values of other arguments.",
            "propertyNames": {"pattern": r"^[^\u0000]*$", "maxLength": 256},
            "additionalProperties": TEXT,
        },
    },
    "required": ["argument"],
    "oneOf": [{"required": ["prompt"]}, {"required": ["resource"]}],
    "additionalProperties": False,
}
_COMPLETION = object_schema(
    values={"type": "array", "items": {"type": "string"}, "maxItems": 100, "description": "The best first."},
    total={"type": "integer", "minimum": 0},
    hasMore={"type": "boolean"},
)
_ETAG: JsonObject = {"schema": {"type": "string"}, "description": "Changes with the content and its type."}
_CACHE_CONTROL: JsonObject = {
    "schema": {"type": "string"},
    "description": "For how long it may be kept; `public` only for what anybody may read.",
}
_COUNT: JsonObject = {"schema": {"type": "integer", "minimum": 0}, "description": "How many contents the JSON lists."}
_CALL_ERRORS = {
    "400": "Malformed",
    "401": "Unauthenticated",
    "403": "Denied",
    "404": "NotFound",
    "409": "ToolFailed",
    "410": "Retired",
    "429": "Limited",
    "500": "Broken",
    "503": "Unavailable",
    "504": "TimedOut",
}
_BODY_ERRORS = {"413": "TooLarge", "415": "WrongType", "422": "BadArguments"}
_POLICY: JsonObject = {
    "name": "policy",
    "uri": "shop://policy",
    "description": "Our rules for refunds.",
    "mimeType": "text/markdown",
}
_REFUND: JsonObject = {
    "name": "refund",
    "description": "Drafts a letter for one order.",
    "arguments": [{"name": "number", "required": True}],
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}
_LETTER: JsonObject = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Write a kind letter about order 17."}}]
}


def reading_paths() -> JsonObject:
    """Operations that list and read resources, list and get prompts, and complete their arguments."""
    return {
        "/resources": {"get": _list_resources()},
        "/resources/read": {"get": _read_resource()},
        "/prompts": {"get": _list_prompts()},
        "/prompts/{name}": {"post": _get_prompt()},
        "/complete": {"post": _complete()},
    }


def _list_resources() -> JsonObject:
    templates = query_parameter(
        "templates", {"type": "boolean", "default": False}, "Whether URI templates are listed, in place of resources."
    )
    return _operation(
        "resources",
        "List resources",
        "List the resources that the caller may read, or their URI templates, in pages.",
        {"200": _with_example(json_response("One page.", _RESOURCES), {"resources": [_POLICY]})},
        {"400": "Malformed", "404": "NotFound"},
        templates,
        _CURSOR,
    )


def _read_resource() -> JsonObject:
    uri = {**query_parameter("uri", {"type": "string", "minLength": 1}, "Percent-encoded."), "required": True}
    matched = {
        "name": "If-None-Match",
        "in": "header",
        "description": "The ETag of what the client has.",
        "schema": {"type": "string", "pattern": '^"[0-9a-f]{1,64}"$'},
    }
    headers = {"ETag": _ETAG, "Cache-Control": _CACHE_CONTROL, "Toolhall-Contents": _COUNT}
    read: JsonObject = {
        "description": "The content, as its own MIME type, for scripts and style sheets as plain text; several "
        "contents as JSON, `{contents: [...]}` as in MCP.",
        "headers": headers,
        "content": {"*/*": {}},
    }
    kept: JsonObject = {"description": "The client has it already.", "headers": {"ETag": _ETAG}}
    return _operation(
        "read",
        "Read a resource",
        "Read a resource by its URI, which may be one that a template matches. What is served is not trusted: browsers "
        "do not run it.",
        {"200": read, "304": kept},
        _CALL_ERRORS,
        uri,
        matched,
    )


def _list_prompts() -> JsonObject:
    return _operation(
        "prompts",
        "List prompts",
        "List the prompts that the caller may get, in pages.",
        {"200": _with_example(json_response("One page.", _PROMPTS), {"prompts": [_REFUND]})},
        {"400": "Malformed", "404": "NotFound"},
        _CURSOR,
    )


def _get_prompt() -> JsonObject:
    operation = _operation(
        "prompt",
        "Get a prompt",
        "Get the messages of a prompt for these arguments.",
        {"200": _with_example(json_response("The messages.", _MESSAGES), _LETTER)},
        _CALL_ERRORS | _BODY_ERRORS,
        path_parameter("name", {**TEXT, "minLength": 1}, "The name of the prompt, or its id."),
    )
    body = _with_example(request_body(_ARGUMENTS, required=False), {"number": 17})
    return {**operation, "requestBody": body}


def _complete() -> JsonObject:
    operation = _operation(
        "complete",
        "Complete an argument",
        "Complete an argument of a prompt, or a variable of a resource's URI template.",
        {
            "200": _with_example(
                json_response("The completions.", _COMPLETION), {"values": ["17", "170"], "total": 2, "hasMore": False}
            )
        },
        _CALL_ERRORS | _BODY_ERRORS,
    )
    body = _with_example(request_body(_ASKED), {"prompt": "refund", "argument": "number", "typed": "17"})
    return {**operation, "requestBody": body}


def _operation(
    name: str,
    summary: str,
    description: str,
    responses: JsonObject,
    errors: dict[str, str],
    *parameters: JsonObject,
) -> JsonObject:
    refused = {status: {"$ref": f"#/components/responses/{key}"} for status, key in sorted(errors.items())}
    return {
        "operationId": f"hall.{name}",
        "tags": [_TAG],
        "summary": summary,
        "description": description,
        **({"parameters": list(parameters)} if parameters else {}),
        "responses": responses | refused,
    }


def _with_example(part: JsonObject, example: Json) -> JsonObject:
    content = {media_type: {**stated, "example": example} for media_type, stated in part["content"].items()}
    return {**part, "content": content}
