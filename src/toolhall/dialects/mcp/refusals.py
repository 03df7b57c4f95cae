"""Messages that are refused before anything is called: JSON-RPC codes and the HTTP status that goes with each."""

from toolhall.dialects.mcp.revisions import SUPPORTED
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
# MCP 2026-07-28 keeps -32000 to -32099 to itself; codes of our own lie outside -32768..-32000.
LIMITED = 42900
UNAUTHENTICATED = 40100
FORBIDDEN = 40300
URL_ELICITATION_REQUIRED = -32042  # in 2025-11-25 only

_BAD_REQUEST = 400
_NOT_FOUND = 404


class McpRefusal(Malformed):
    """A malformed message, in MCP's own words."""

    def __init__(self, code: int, message: str, *, status: int = _BAD_REQUEST, data: JsonObject | None = None) -> None:
        self.code = code
        self.status = status
        self.data = data
        super().__init__(message)


def unknown_method(method: str) -> McpRefusal:
    """MCP 2026-07-28, streamable HTTP: an unknown method is 404 and -32601; the older revisions use 200."""
    return McpRefusal(METHOD_NOT_FOUND, f"there is no method {method[:64]!r} here", status=_NOT_FOUND)


def bad_params(message: str, *, status: int = 200) -> McpRefusal:
    """The params do not fit the method."""
    return McpRefusal(INVALID_PARAMS, message, status=status)


def bad_header(message: str) -> McpRefusal:
    """A header is missing or says something other than the body."""
    return McpRefusal(HEADER_MISMATCH, message)


def unsupported_version(requested: str) -> McpRefusal:
    """The revision is not one of ours."""
    supported = ", ".join(SUPPORTED)
    return McpRefusal(
        UNSUPPORTED_VERSION,
        f"protocol version {requested[:32]!r} is not supported; use one of {supported}",
        data={"supported": list(SUPPORTED), "requested": requested[:32]},
    )
