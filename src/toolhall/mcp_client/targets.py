"""What a session is opened with: HttpTarget or CommandTarget, ClientProfile, and the type of a QuestionHandler."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.dialects.mcp.client_handshake import OFFERED_REVISION
from toolhall.dialects.mcp.client_requests import DEFAULT_LOG_LEVEL
from toolhall.mcp_client.session import Headers
from toolhall.model.json import JsonObject
from toolhall.model.messages import LogLevel
from toolhall.model.secret import Secret
from toolhall.model.upstream import shown_args, shown_url

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# Answers a request of the server that belongs to no request that can be told: method, params; returns the result.
# Raises a ToolhallError, which the server gets as a JSON-RPC error.
QuestionHandler: TypeAlias = Callable[[str, JsonObject], Awaitable[JsonObject]]


class HttpTarget(msgspec.Struct, frozen=True):
    """A server at a URL; `headers` are sent with every request."""

    url: str
    headers: Headers = ()
    transport: Literal["auto", "http", "sse"] = "auto"

    def __repr__(self) -> str:
        """Without what may be secret."""
        return f"HttpTarget({shown_url(self.url)!r}, headers={[name for name, _ in self.headers]!r})"


class CommandTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is a child process; `env` is filled already, and `max_memory` is in MiB."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    max_memory: int | None = None
    secrets: tuple[Secret, ...] = ()  # of `env`, which the child may print, beside values whose names say it

    def __repr__(self) -> str:
        """Without what may be secret."""
        return f"CommandTarget({' '.join((self.command, *shown_args(self.args)))!r}, env={sorted(self.env)!r})"


class SessionCredentials(msgspec.Struct, frozen=True):
    """The headers that a session is opened with, and those with which one that many share hears of changes."""

    opening: Headers = ()
    listening: Headers | None = None  # None: the same

    @property
    def for_listening(self) -> Headers:
        """The headers of the stream that belongs to no request of a modern session."""
        return self.opening if self.listening is None else self.listening

    def __repr__(self) -> str:
        """Without the values."""
        return f"SessionCredentials({[name for name, _ in self.opening]!r})"


class ClientProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says of itself to servers, and what it takes from them."""

    name: str
    version: str
    title: str | None = None
    features: tuple[str, ...] = ("elicitation", "elicitation.url", "sampling")  # of CLIENT_FEATURES
    log_level: LogLevel = DEFAULT_LOG_LEVEL  # from which on log messages are wanted
    max_message_bytes: int = MAX_MESSAGE_BYTES
    offered_revision: str = OFFERED_REVISION.name  # in `initialize`; the server decides
    listens: bool = True  # whether to hear of changed lists and resources while no request runs

    @property
    def client_info(self) -> JsonObject:
        """The `clientInfo` of MCP."""
        info: JsonObject = {"name": self.name, "version": self.version}
        return info if self.title is None else {**info, "title": self.title}
