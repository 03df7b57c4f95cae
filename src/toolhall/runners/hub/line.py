"""A line to one tool server: calls go out, reports come in, and each call gets exactly one end or is lost."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec

from toolhall.dialects.hub.remote import Report, Responded, Told, ToolEnd, read_report
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject

MOST_BYTES = 2 * 1024 * 1024 + 65_536  # of one message, and of all about a call that waits to be read
CLOSED = "the line was closed"

# Gets every report before the end, in order; what it returns (an encoded tool_answer) is sent back.
Hear: TypeAlias = Callable[[Told], Awaitable[bytes | None]]


class Lost(Exception):
    """The line gave no end of a call; `why` is for the log.

    Not `delivered`: provably no byte of the call was handed to a connection behind which it could have run.
    """

    def __init__(self, why: str, *, delivered: bool) -> None:
        self.why = why
        self.delivered = delivered
        super().__init__(why)


class TooMuch(Lost):
    """More was said about the call than is passed on: that is the tool's doing, and its replica is well."""

    def __init__(self, why: str) -> None:
        super().__init__(why, delivered=True)


class Line(Protocol):
    """A way to one replica of a tool server."""

    async def call(self, request: bytes, id: str, hear: Hear) -> ToolEnd:  # noqa: A002 - its word
        """Run a call over there; whoever cancels this, cancels it there. Lost is all that it raises by itself."""
        ...

    async def ask(self, request: bytes, id: str) -> JsonObject:  # noqa: A002 - its word
        """Something that the hall itself wants to know, such as health_check: the whole response."""
        ...

    def rest(self) -> None:
        """Keep nothing open that no call needs now."""
        ...

    def close(self) -> None:
        """End it: every running call on it is lost."""
        ...


def report_of(body: bytes, call_id: str) -> Told | ToolEnd:
    """What a tool server says about this call; Lost if that cannot be read, or is about something else."""
    report = _read(body)
    if isinstance(report, Responded):
        raise Lost("a tool_request was answered with a response, not with a tool_response", delivered=True)
    # A bare tool_error may name no call: over HTTP it can be about no other.
    if report.id == call_id or (not report.id and isinstance(report, ToolEnd) and report.error is not None):
        return report
    raise Lost("the tool server answered another call than it was sent", delivered=True)


def response_of(body: bytes, request_id: str | None) -> JsonObject:
    """The response to a request of the hall's own, whole; Lost if it is none, or one to another request."""
    report = _read(body)
    if not isinstance(report, Responded) or report.id != request_id:
        raise Lost("the tool server answered something else than it was asked", delivered=True)
    whole: JsonObject = msgspec.to_builtins(report)
    return whole


def _read(body: bytes) -> Report:
    try:
        return read_report(body)
    except Malformed as error:
        raise Lost(error.message, delivered=True) from None
