"""`Transport`: the protocol of a way to one replica of a tool server; `MessageQueue`: unread messages of one call.

A call over a transport gets exactly one end, or raises `CallLost`, which says whether the tool may have run.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec

from toolhall.dialects.hub.call_messages import (
    CallEvent,
    QuestionMessage,
    ResponseMessage,
    ToolResponseMessage,
    ToolServerMessage,
    read_tool_server_message,
)
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject

MAX_MESSAGE_BYTES = 2 * 1024 * 1024 + 65_536  # of one message, and of all about a call that waits to be read
TRANSPORT_CLOSED = "the line was closed"
# Gets every report before the end, in order; what it returns (an encoded tool_answer) is sent back.
ReportHandler: TypeAlias = Callable[[CallEvent], Awaitable[bytes | None]]


class CallLost(Exception):
    """The line gave no end of a call; `why` is for the log.

    Not `delivered`: provably no byte of the call was handed to a connection behind which it could have run.
    """

    def __init__(self, reason: str, *, delivered: bool) -> None:
        self.reason = reason
        self.delivered = delivered
        super().__init__(reason)


class ResponseTooLarge(CallLost):
    """More was said about the call than is passed on: that is the tool's doing, and its replica is well."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, delivered=True)


class Transport(Protocol):
    """A way to one replica of a tool server."""

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its word
        """Run a call over there; whoever cancels this, cancels it there. Lost is all that it raises by itself."""
        ...

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002 - its word
        """Something that the hall itself wants to know, such as health_check: the whole response."""
        ...

    def close_idle(self) -> None:
        """Keep nothing open that no call needs now."""
        ...

    def close(self) -> None:
        """End it: every running call on it is lost."""
        ...


def decode_report(body: bytes, call_id: str) -> CallEvent | ToolResponseMessage:
    """What a tool server says about this call; Lost if that cannot be read, or is about something else."""
    report = _decode(body)
    if isinstance(report, ResponseMessage):
        raise CallLost("a tool_request was answered with a response, not with a tool_response", delivered=True)
    # A bare tool_error may name no call: over HTTP it can be about no other.
    if report.id == call_id or (not report.id and isinstance(report, ToolResponseMessage) and report.error is not None):
        return report
    raise CallLost("the tool server answered another call than it was sent", delivered=True)


def decode_response(body: bytes, request_id: str | None) -> JsonObject:
    """The response to a request of the hall's own, whole; Lost if it is none, or one to another request."""
    report = _decode(body)
    if not isinstance(report, ResponseMessage) or report.id != request_id:
        raise CallLost("the tool server answered something else than it was asked", delivered=True)
    whole: JsonObject = msgspec.to_builtins(report)
    return whole


def _decode(body: bytes) -> ToolServerMessage:
    try:
        return read_tool_server_message(body)
    except Malformed as error:
        raise CallLost(error.message, delivered=True) from None


class MessageQueue(ABC):
    """For one reader; how the messages are told apart is its line's business."""

    __slots__ = ("_handler_timeout", "_loop", "_waiter", "failure", "is_too_large")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop  # to ask which one runs takes a system call
        self.failure: str | None = None  # why nothing more comes
        self.is_too_large = False  # that is why
        self._waiter: asyncio.Future[None] | None = None
        self._handler_timeout: asyncio.Timeout | None = None

    @abstractmethod
    def pop(self) -> bytes | None:
        """The next whole message, if it is here."""

    @abstractmethod
    def has_message(self) -> bool:
        """Whether one is here."""

    def notify(self) -> None:
        """Something came."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, reason: str) -> None:
        """Nothing more comes. Nobody goes on asking a person for a call that cannot get the answer."""
        self.failure = self.failure or reason
        self.notify()
        if self._handler_timeout is not None and not self.has_message():
            self._handler_timeout.reschedule(self._loop.time())
            self._handler_timeout = None

    async def next(self) -> bytes:
        """The next message; what came before the line broke is read before that is said (Lost)."""
        while (message := self.pop()) is None:
            if self.failure is not None:
                raise ResponseTooLarge(self.failure) if self.is_too_large else CallLost(self.failure, delivered=True)
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return message

    async def handle_report(self, on_report: ReportHandler, report: CallEvent) -> bytes | None:
        """What is to be sent back; nothing, if the line breaks meanwhile or is broken already."""
        if self.failure is not None and isinstance(report, QuestionMessage):
            return None
        hearing = asyncio.timeout(None)
        try:
            async with hearing:
                self._handler_timeout = None if self.failure else hearing
                return await on_report(report)
        except TimeoutError:
            if not hearing.expired():
                raise
            return None
        finally:
            self._handler_timeout = None
