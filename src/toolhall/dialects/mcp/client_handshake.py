"""How an MCP client learns what a server speaks: `era_of`, and the results of `initialize` and `server/discover`."""

from typing import Literal, TypeAlias

import msgspec

from toolhall.dialects.mcp.client_messages import IncomingMessage, decode_object, read_error
from toolhall.dialects.mcp.client_requests import write_client_capabilities
from toolhall.dialects.mcp.protocol import (
    CLIENT_REVISIONS,
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    UNSUPPORTED_VERSION,
    Revision,
)
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.text import clean_line

Era: TypeAlias = Literal["legacy", "modern"]
OFFERED_REVISION = REVISION_2025_11_25  # in `initialize`
MODERN_REVISION = REVISION_2026_07_28
MAX_NAME = 200
MAX_INSTRUCTIONS = 64 * 1024
MAX_VERSIONS = 32
_MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
_UNDECIDED_STATUSES = frozenset({401, 403, 407, 408, 429})
_SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"


class EraFinding(msgspec.Struct, frozen=True):
    """What the answer to `server/discover` tells; `versions` are those that a modern server lists."""

    era: Era | Literal["unknown"]
    versions: tuple[str, ...] = ()


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself in a result of `initialize` or `server/discover`; cut to bounded lengths."""

    revision: Revision
    name: str
    version: str
    capabilities: JsonObject
    instructions: str | None


def era_of(status: int, message: IncomingMessage | None) -> EraFinding:
    """The era of the server that answered `server/discover` with this HTTP status and message (None: no JSON-RPC).

    Only a modern server lists 2026-07-28, or makes one of three errors. A refusal for another reason, or a fault, says
    nothing. Everything else is the answer of a legacy server to a method that it does not know.
    """
    if message is not None and message.is_response:
        if not message.has_error:
            versions = _read_versions(_lax_object(message.result).get("supportedVersions"))
            if MODERN_REVISION.name in versions:
                return EraFinding("modern", versions)
        elif (error := read_error(message)).code in _MODERN_ERRORS:
            supported = error.data.get("supported") if isinstance(error.data, dict) else None
            return EraFinding("modern", _read_versions(supported))
    if status in _UNDECIDED_STATUSES or status >= 500:
        return EraFinding("unknown")
    return EraFinding("legacy")


def initialize_params(
    client_info: JsonObject, features: tuple[str, ...], offered: str = OFFERED_REVISION.name
) -> JsonObject:
    """The params of `initialize`."""
    return {
        "protocolVersion": offered,
        "capabilities": write_client_capabilities(features),
        "clientInfo": client_info,
    }


def read_initialize_result(result: bytes | msgspec.Raw) -> ServerFacts:
    """Read the result of `initialize`; raises Malformed, which names a revision that is not spoken here."""
    wire = decode_object(result, "the answer to initialize")
    stated = wire.get("protocolVersion")
    revision = CLIENT_REVISIONS.get(stated) if isinstance(stated, str) else None
    if revision is None or revision.stateless:
        known = ", ".join(name for name, each in sorted(CLIENT_REVISIONS.items()) if not each.stateless)
        raise Malformed(f"the server speaks MCP revision {stated!r:.60}; known here are {known}")
    return _facts(wire, wire.get("serverInfo"), revision)


def read_discover_result(result: bytes | msgspec.Raw) -> ServerFacts:
    """Read the result of `server/discover` of a server that lists 2026-07-28; raises Malformed."""
    wire = decode_object(result, "the answer to server/discover")
    meta = wire.get("_meta")
    return _facts(wire, meta.get(_SERVER_INFO_KEY) if isinstance(meta, dict) else None, MODERN_REVISION)


def _facts(wire: JsonObject, info: Json, revision: Revision) -> ServerFacts:
    known = info if isinstance(info, dict) else {}
    capabilities, instructions = wire.get("capabilities"), wire.get("instructions")
    return ServerFacts(
        revision=revision,
        name=_line(known.get("name")),
        version=_line(known.get("version")),
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=_text(instructions, MAX_INSTRUCTIONS) or None,
    )


def _text(value: Json, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""


def _line(value: Json) -> str:
    """A text that is logged, and shown in terminals and lists."""
    return clean_line(value, MAX_NAME) if isinstance(value, str) else ""


def _read_versions(value: Json) -> tuple[str, ...]:
    listed = value[:MAX_VERSIONS] if isinstance(value, list) else []
    return tuple(map(_line, (each for each in listed if isinstance(each, str))))


def _lax_object(raw: msgspec.Raw) -> JsonObject:
    try:
        return decode_object(raw, "the answer")
    except Malformed:
        return {}
