"""Error responses of requests that reach no handler: in the path's dialect, 503 when busy, `WWW-Authenticate`.

`error_response` writes an error in the dialect that the path belongs to, before the message was read.
`AuthChallenges` adds the resource metadata URL (RFC 9728) and the required scope to 401 and 403. `MessageIds` gives
Machine Context messages their ids.
"""

import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

import msgspec

from toolhall.auth.authenticator import Headers, Scope
from toolhall.dialects.hub import messages as hub
from toolhall.dialects.machine import messages as machine
from toolhall.dialects.machine.messages import MessageStamp
from toolhall.dialects.mcp.responses import write_error as write_mcp
from toolhall.dialects.openapi.errors import write_error as write_rest
from toolhall.dialects.oxp import messages as oxp
from toolhall.http.request_guard import RESOURCE_METADATA_PATH, base_url
from toolhall.model.caller import ADMIN, ALL_TOOLS, call_scope
from toolhall.model.errors import Limited, ToolhallError
from toolhall.model.messages import WireResponse

BUSY_RETRY_SECONDS = 1.0
_BUSY_STATUS = 503  # not 429: the caller need not have sent too many
MCP_PATH = "/mcp"
_WWW_AUTHENTICATE = b"www-authenticate"
_BEARER = b"Bearer"
_ADMIN_PATHS = ("/api/", "/metrics")
_TOOL_PATH = re.compile(r"/tools/([A-Za-z0-9_-]{1,64})/[^/]+", re.ASCII)
_INVALID_TOKEN = b'Bearer error="invalid_token"'


class MessageIds:
    """Makes message ids (a random UUID prefix and a counter of twelve digits) and timestamps to the microsecond.

    The seconds are formatted once each, and numbers have all their digits from the start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._prefix = str(uuid.uuid4())[:24]
        self._next_number = count(100_000_000_000).__next__
        self._second = 0
        self._timestamp = _timestamp_format(0)  # of this second, without the microseconds

    def new(self) -> MessageStamp:
        """Return a new id with the current time."""
        now = self._clock()
        elapsed = now - self._second
        if not 0 <= elapsed < 1:
            self._second = int(now)
            self._timestamp = _timestamp_format(self._second)
            elapsed = now - self._second
        return MessageStamp(f"{self._prefix}{self._next_number()}", self._timestamp % (elapsed * 1_000_000))


def _timestamp_format(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%%06d+00:00")


_new_stamp = MessageIds(time.time).new


def error_response(path: str, error: ToolhallError) -> WireResponse:
    """Return the error in the path's dialect, REST by default."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return _ERROR_WRITERS.get(first, write_rest)(error)


_ERROR_WRITERS: dict[str, Callable[[ToolhallError], WireResponse]] = {
    "mcp": lambda error: write_mcp(None, error),
    "oxp": lambda error: oxp.write_error(None, error),
    "hub": lambda error: hub.write_error(hub.HubRequest(None, "", {}), error),
    "machine": lambda error: machine.write_error(machine.UNKNOWN_HEADER, error, _new_stamp()),
}


def busy_error() -> Limited:
    """Return the error of a request that found no slot."""
    error = Limited(BUSY_RETRY_SECONDS)
    error.message = (
        "this server answers as many requests as it can, and of one caller half of them: try again in a second"
    )
    return error


def busy_response(path: str) -> WireResponse:
    """Return 503 in the path's dialect; the message was not read, so the response has no message id."""
    error = error_response(path, busy_error())
    return WireResponse(error.body, _BUSY_STATUS, error.headers)


class AuthChallenges:
    """Completes the `WWW-Authenticate` headers of dialects, which know no URLs."""

    def __init__(self, public_url: str | None) -> None:
        self._public_url = public_url

    def with_metadata(self, wire: WireResponse, scope: Scope, headers: Headers) -> WireResponse:
        """Return the response with the resource metadata URL (RFC 9728) and the scope in its challenge."""
        if not any(name == _WWW_AUTHENTICATE for name, _ in wire.headers):
            return wire
        base = self._public_url or base_url(scope, headers)
        resource_path = MCP_PATH if scope["path"] == MCP_PATH else ""
        metadata = f'resource_metadata="{base}{RESOURCE_METADATA_PATH}{resource_path}"'.encode("latin-1", "replace")
        return _map_challenge(
            wire, lambda challenge: _add_parameters(challenge, metadata, _required_scope(scope["path"]))
        )


def with_invalid_token(wire: WireResponse) -> WireResponse:
    """Return the response with `error="invalid_token"`, for a request that sent a credential (RFC 6750)."""
    return _map_challenge(wire, lambda challenge: _INVALID_TOKEN if challenge == _BEARER else challenge)


def _map_challenge(wire: WireResponse, change: Callable[[bytes], bytes]) -> WireResponse:
    headers = tuple((name, change(value) if name == _WWW_AUTHENTICATE else value) for name, value in wire.headers)
    return msgspec.structs.replace(wire, headers=headers)


def _add_parameters(challenge: bytes, metadata: bytes, required_scope: str) -> bytes:
    scope = b"" if b"scope=" in challenge else b', scope="%b"' % required_scope.encode()
    return challenge + (b" " if challenge == _BEARER else b", ") + metadata + scope


def _required_scope(path: str) -> str:
    """Return the scope that a path needs; all tools where only the unread body names one."""
    if path.startswith(_ADMIN_PATHS):
        return ADMIN
    match = _TOOL_PATH.fullmatch(path)
    return call_scope(match[1]) if match else ALL_TOOLS
