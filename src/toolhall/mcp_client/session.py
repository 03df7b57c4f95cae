"""McpSession, the protocol of a connection to an MCP server of any revision; McpRequest, RequestHooks, its errors.

One session belongs to one owner (see `share` in model/upstream.py). It is safe for many requests at the same time.

Which error says what about the effect of a request:

- `NotSent`: no byte of it was written; it may be sent again.
- `SessionExpired`: the server refused the session, so it did not run; it may be sent again in a new session.
- `Unauthorized`, `RateLimited`: refused before it ran.
- `RpcError`: the server's own answer.
- `RequestLost`: it was written, and whether it ran is not known.
"""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.dialects.mcp.protocol import Revision
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import LogEvent, ProgressEvent

Headers: TypeAlias = tuple[tuple[str, str], ...]


class McpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a server. `params` has no `_meta` that the protocol defines: the session writes that."""

    method: str
    params: JsonObject = {}
    encoded_arguments: bytes | None = None  # params.arguments as JSON, if they are encoded already; then not in params
    name: str | None = None  # of the tool or prompt, or the URI: for the header Mcp-Name
    argument_headers: Headers = ()  # arguments that the schema wants in headers (`x-mcp-header`)
    credentials: Headers = ()  # for this request, such as Authorization; never logged
    meta: JsonObject = {}  # for `_meta`: `traceparent`, `dev.toolhall/hops`
    features: tuple[str, ...] | None = None  # that the caller's client has; None: all that the hall declares
    wants_events: bool = False  # whether somebody hears progress and log messages


class RequestHooks(Protocol):
    """What the owner of a running request does with what the server sends meanwhile."""

    def on_progress(self, event: ProgressEvent) -> None:
        """Take the progress of the request."""
        ...

    def on_log(self, event: LogEvent) -> None:
        """Take a log message that belongs to the request."""
        ...

    async def on_question(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a request of the server: `elicitation/create`, `sampling/createMessage`, `roots/list`.

        Raises a ToolhallError, which the server gets as a JSON-RPC error. Only servers of older revisions ask like
        this; in 2026-07-28 the result of the request is `input_required` and holds the questions.
        """
        ...


class SessionEvents(Protocol):
    """What the owner of a session hears outside of requests."""

    def on_list_changed(self, kind: Literal["tools", "resources", "prompts"]) -> None:
        """A list of the server has changed."""
        ...

    def on_resource_updated(self, uri: str) -> None:
        """A resource that was subscribed to has changed."""
        ...

    def on_log(self, event: LogEvent) -> None:
        """Take a log message that belongs to no request, or to one that cannot be told."""
        ...

    def on_closed(self, reason: str) -> None:
        """The session has ended without `close`; running requests get RequestLost."""
        ...


class ServerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What a server has said of itself."""

    name: str = ""
    version: str = ""
    revision: Revision
    capabilities: JsonObject = {}
    instructions: str | None = None

    def has(self, capability: str, member: str | None = None) -> bool:
        """Whether the server declared a capability, such as `tools`, or a member of it, such as `listChanged`."""
        stated = self.capabilities.get(capability)
        if member is None:
            return isinstance(stated, dict)
        return isinstance(stated, dict) and stated.get(member) is True


class McpSession(Protocol):
    """A connection to an MCP server; the handshake is done."""

    @property
    def server(self) -> ServerDescription:
        """What the server has said of itself."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent, as far as is known."""
        ...

    @property
    def running(self) -> int:
        """How many requests run now."""
        ...

    async def request(self, request: McpRequest, hooks: RequestHooks | None = None) -> msgspec.Raw:
        """Send a request; return its `result` as JSON. Cancelling this cancels the request at the server.

        There is no timeout: the caller has one. Raises the errors of this module.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, Json]) -> None:
        """Send a notification; raises NotSent or RequestLost."""
        ...

    async def close(self) -> None:
        """End the session: DELETE over HTTP; a child is ended with its group."""
        ...


class SessionError(Exception):
    """Base of these errors. `reason` is one line for people, without secrets; what is from outside is cleaned, cut."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class NotSent(SessionError):
    """No byte of the request was written."""


class SessionExpired(SessionError):
    """The server does not know the session any more, and did not run the request."""


class RequestLost(SessionError):
    """The request was written, and no answer will come."""


class ResponseTooLarge(RequestLost):
    """The answer is larger than what is passed on; the request ran."""


class Unauthorized(SessionError):
    """The server wants a credential, another one, or one with more scopes (HTTP 401 or 403)."""

    def __init__(self, reason: str, status: int, challenge: str | None) -> None:
        self.status = status
        self.challenge = challenge  # the header WWW-Authenticate
        super().__init__(reason)


class RateLimited(SessionError):
    """The server wants fewer requests, or none for a while (HTTP 429, or 503 with Retry-After)."""

    def __init__(self, reason: str, retry_after: float | None) -> None:
        self.retry_after = retry_after  # seconds
        super().__init__(reason)


class RpcError(SessionError):
    """The server answered with a JSON-RPC error; the message is in `reason`."""

    def __init__(self, code: int, reason: str, data: Json = None) -> None:
        self.code = code
        self.data = data
        super().__init__(reason)


class NotAcceptable(SessionError):
    """What answers cannot be used: no MCP, an unknown revision, a bad certificate, an address that is not allowed."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        self.status = status  # of HTTP, if that is what cannot be used
        super().__init__(reason)
