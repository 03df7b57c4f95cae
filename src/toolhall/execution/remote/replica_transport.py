"""`Transport`: carries calls to one replica of a tool server; `MessageQueue`: the unread messages of one call.

A call over a transport returns exactly one ToolResponseMessage, or raises `CallLost`, which says whether the tool may
have run.
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

MAX_MESSAGE_BYTES = 2 * 1024 * 1024 + 65_536  # of one message, and of all unread messages of one call
TRANSPORT_CLOSED = "the transport was closed"
# Handles every report before the end of a call, in order; the encoded tool_answer that it returns is sent back.
ReportHandler: TypeAlias = Callable[[CallEvent], Awaitable[bytes | None]]


class CallLost(Exception):
    """The transport got no end of a call; `reason` is for the log.

    `delivered=False`: provably no byte of the call was written to a connection, so the tool cannot have run.
    """

    def __init__(self, reason: str, *, delivered: bool) -> None:
        self.reason = reason
        self.delivered = delivered
        super().__init__(reason)


class ResponseTooLarge(CallLost):
    """The messages of a call exceed the limit, which is the tool's fault; its replica is healthy."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, delivered=True)


class Transport(Protocol):
    """Carries calls and requests to one replica of a tool server."""

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its name in the protocol
        """Run a call at the replica; cancelling this cancels it there. Raises CallLost, and what `on_report` raises."""
        ...

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002 - its name in the protocol
        """Send a request of the hall itself, such as health_check; returns the whole response."""
        ...

    def close_idle(self) -> None:
        """Close connections that no call uses now."""
        ...

    def close(self) -> None:
        """Close the transport: every running call on it is lost."""
        ...


def decode_message(body: bytes) -> ToolServerMessage:
    """Decode a message of a tool server; raises CallLost if it cannot be read."""
    try:
        return read_tool_server_message(body)
    except Malformed as error:
        raise CallLost(error.message, delivered=True) from None


def check_report(message: ToolServerMessage, call_id: str) -> CallEvent | ToolResponseMessage:
    """The message, if it is about this call; raises CallLost for anything else."""
    if isinstance(message, ResponseMessage):
        raise CallLost("a tool_request was answered with a response, not with a tool_response", delivered=True)
    # A bare tool_error may lack the id: over HTTP it can only be about this call.
    if message.id == call_id or (
        not message.id and isinstance(message, ToolResponseMessage) and message.error is not None
    ):
        return message
    raise CallLost("the tool server responded to another call than it was sent", delivered=True)


def check_response(message: ToolServerMessage, request_id: str | None) -> JsonObject:
    """The response to a request of the hall itself; raises CallLost for anything else."""
    if not isinstance(message, ResponseMessage) or message.id != request_id:
        raise CallLost("the tool server sent something else than the response to this request", delivered=True)
    response: JsonObject = msgspec.to_builtins(message)
    return response


class MessageQueue(ABC):
    """Unread messages of one call, for one reader; subclasses split the bytes of their transport into messages."""

    # As class attributes, the initial values cost nothing per call.
    failure: str | None = None  # why no more messages come
    is_too_large = False  # the failure is that of ResponseTooLarge
    _waiter: "asyncio.Future[ToolServerMessage | None] | None" = None
    _handler_timeout: asyncio.Timeout | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop  # kept, because get_running_loop costs a system call

    @abstractmethod
    def pop(self) -> bytes | None:
        """Remove and return the next whole message, if there is one."""

    @abstractmethod
    def has_message(self) -> bool:
        """Whether there is a whole message."""

    def notify(self) -> None:
        """Wake the reader: something has arrived."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, reason: str) -> None:
        """No more messages come. Also cancels a question in progress, whose answer could not be delivered."""
        self.failure = self.failure or reason
        self.notify()
        if self._handler_timeout is not None and not self.has_message():
            self._handler_timeout.reschedule(self._loop.time())
            self._handler_timeout = None

    def wait(self) -> "asyncio.Future[ToolServerMessage | None]":
        """A future of the next message, or of None: look with `pop`. Raises CallLost if nothing can come any more.

        To be called when `pop` found nothing, and so after everything that came before the failure was read.
        """
        if self.failure is not None:
            raise ResponseTooLarge(self.failure) if self.is_too_large else CallLost(self.failure, delivered=True)
        self._waiter = waiter = self._loop.create_future()
        return waiter

    async def handle_report(self, on_report: ReportHandler, report: CallEvent) -> bytes | None:
        """Pass a report to the handler; returns its answer, or None if the transport fails meanwhile or has failed."""
        if self.failure is not None and isinstance(report, QuestionMessage):
            return None
        timeout = asyncio.timeout(None)  # expires when the transport fails
        try:
            async with timeout:
                self._handler_timeout = None if self.failure else timeout
                return await on_report(report)
        except TimeoutError:
            if not timeout.expired():
                raise
            return None
        finally:
            self._handler_timeout = None
