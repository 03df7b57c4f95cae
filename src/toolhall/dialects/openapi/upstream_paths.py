"""OpenAPI paths of upstreams: servers of somebody else whose tools a hall offers."""

import msgspec

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    REMOVED,
    TEXT,
    TIMESTAMP,
    array_schema,
    created,
    management_operation,
    nullable,
    object_schema,
    ok,
    path_parameter,
    reference,
    request_body,
)
from toolhall.model.json import JsonObject
from toolhall.model.tool import KINDS
from toolhall.model.upstream import MAX_NAME_LENGTH, ONLY_COMMAND, UpstreamSettings

_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_FLAG: JsonObject = {"type": "boolean"}
_DIGEST: JsonObject = {"type": "string", "pattern": "^sha256-[0-9a-f]{64}$"}
_NAME: JsonObject = {"type": "string", "pattern": f"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}$"}
_STATES: dict[str, str] = {
    "new": "it was never reached",
    "connecting": "it is being reached",
    "ready": "its list is known",
    "away": "it cannot be reached",
    "refused": "what it answers cannot be used",
    "waiting": "it needs a secret or an account",
    "off": "it is switched off",
}
_STATE: JsonObject = {
    "enum": list(_STATES),
    "description": "; ".join(f"`{name}`: {meaning}" for name, meaning in _STATES.items()) + ".",
}
UPSTREAM_SCHEMAS: JsonObject = {
    "Upstream": object_schema(
        name={**_NAME, "description": "Also of its toolkit."},
        state=_STATE,
        reason={**nullable(TEXT), "description": "Why it is not ready and what to do; for administrators."},
        target={**TEXT, "description": "Its URL, or its command with arguments; without secrets."},
        settings={"type": "object", "description": "Those that are not defaults; of secrets only their names."},
        source={"enum": ["file", "store", "command line"], "description": "Where it is described."},
        where={**TEXT, "description": "The file, or who added it."},
        era={**nullable({"enum": ["legacy", "modern"]}), "description": "`modern`: it keeps no sessions."},
        revision={**nullable(TEXT), "description": "Of MCP."},
        server={**nullable(object_schema(name=TEXT, version=TEXT)), "description": "As it calls itself."},
        tools={**_COUNT, "description": "Of its definitions, how many are served."},
        waiting={**_COUNT, "description": "How many wait for somebody's look."},
        since={**nullable(TIMESTAMP), "description": "Of the state."},
        lastSync={**nullable(TIMESTAMP), "description": "When its lists were fetched last."},
        nextTry=nullable(TIMESTAMP),
        sessions=_COUNT,
        children={**_COUNT, "description": "Its processes."},
        restarts={**_COUNT, "description": "Of its processes."},
        lostCalls={**_COUNT, "description": "Calls whose answer never came."},
        parkedCalls={**_COUNT, "description": "Calls that wait for a person's answer now."},
    ),
}
_CHANGE = object_schema(kind={"enum": ["breaking", "feature", "fix"]}, path=TEXT, reason=TEXT)
_WAITING = object_schema(
    id=TEXT,
    kind={"enum": list(KINDS)},
    was={**nullable(TEXT), "description": "What is served instead until then; null for what is new."},
    refused={**_FLAG, "description": "Whether calls are refused until then."},
    changes={**array_schema(_CHANGE), "description": "Between the two, breaking ones first."},
    findings=array_schema(reference("Finding")),
    document={"description": "The definition as it came."},
)
_REVIEW = object_schema(
    name=TEXT,
    digest={**_DIGEST, "description": "Of everything that is shown here; a yes names it."},
    tools={**array_schema(_WAITING), "description": "What waits; also resources and prompts."},
    withheld={
        **array_schema(object_schema(tool=TEXT, reason=TEXT)),
        "description": "Definitions of the last list that cannot be offered.",
    },
)
_STEP = object_schema(
    name=TEXT,
    ok=_FLAG,
    seconds={"type": "number", "minimum": 0},
    detail={**TEXT, "description": "What was found."},
    fix={**nullable(TEXT), "description": "What to do about it."},
)
_CHECK = object_schema(name=TEXT, ok={**_FLAG, "description": "Whether every step passed."}, steps=array_schema(_STEP))
_ACCEPTED = object_schema(accepted={**array_schema(TEXT), "description": "The ids of what is served now."})


def _settings_of_urls() -> JsonObject:
    """The schema of each setting that an upstream with a URL may have."""
    _, components = msgspec.json.schema_components([UpstreamSettings])
    members: JsonObject = components["UpstreamSettings"]["properties"]
    return {name: schema for name, schema in members.items() if name not in ("command", *ONLY_COMMAND)}


_NEW: JsonObject = {
    "type": "object",
    "properties": {
        "name": _NAME,
        "settings": {
            "type": "object",
            "description": "As under `[upstreams.NAME]` of a settings file. A command is refused over the network.",
            "properties": {**_settings_of_urls(), "url": {**TEXT, "format": "uri"}},
            "required": ["url"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "settings"],
    "additionalProperties": False,
}
_SEEN: JsonObject = {
    "type": "object",
    "properties": {"digest": {**_DIGEST, "description": "Of the review that was shown."}},
    "required": ["digest"],
    "additionalProperties": False,
}


def upstream_paths() -> JsonObject:
    """Operations on upstreams."""
    upstream, name = reference("Upstream"), path_parameter("name", {**TEXT, "minLength": 1})
    empty = request_body(EMPTY_BODY, required=False)

    def change(operation: str, description: str) -> JsonObject:
        changed = ok("The upstream.", upstream)
        return {"post": management_operation(operation, description, changed, name, body=empty)}

    return {
        "/api/upstreams": {
            "get": management_operation(
                "upstreams",
                "List the servers of somebody else whose tools are offered.",
                ok("The list of upstreams.", object_schema(upstreams=array_schema(upstream))),
            ),
            "post": management_operation(
                "addUpstream",
                "Add an upstream by its URL; it is reached in the background.",
                created("The upstream.", upstream),
                body=request_body(_NEW),
            ),
        },
        "/api/upstreams/{name}": {
            "get": management_operation("upstream", "Show an upstream.", ok("The upstream.", upstream), name),
            "delete": management_operation(
                "removeUpstream",
                "Remove an upstream with its tools; one that a file names is removed there.",
                ok("The name of the upstream.", REMOVED),
                name,
            ),
        },
        "/api/upstreams/{name}/check": {
            "post": management_operation(
                "checkUpstream",
                "Try everything that a call of an upstream needs, step by step.",
                ok("The steps, until one failed.", _CHECK),
                name,
                body=empty,
            )
        },
        "/api/upstreams/{name}/sync": change("syncUpstream", "Fetch the lists of an upstream now."),
        "/api/upstreams/{name}/off": change("switchOffUpstream", "Switch an upstream off; running calls end first."),
        "/api/upstreams/{name}/on": change("switchOnUpstream", "Switch an upstream on again."),
        "/api/upstreams/{name}/review": {
            "get": management_operation(
                "upstreamReview",
                "Show what waits for somebody's look, with its differences to what is served.",
                ok("Everything that waits.", _REVIEW),
                name,
            ),
            "post": management_operation(
                "acceptUpstream",
                "Serve exactly what was shown; 409 if something else waits by now.",
                ok("What is served now.", _ACCEPTED),
                name,
                body=request_body(_SEEN),
            ),
        },
    }
