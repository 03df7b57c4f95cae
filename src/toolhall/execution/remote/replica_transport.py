"""`Transport`: carries calls to one replica of a tool server; what every transport does with the messages of a call.

A call over a transport returns exactly one ToolResponseMessage, or raises `ExchangeLost`, which says whether the tool
may have run.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from toolhall.dialects.hub.call_messages import (
    CallEvent,
    QuestionMessage,
    ResponseMessage,
    ToolResponseMessage,
    ToolServerMessage,
    read_tool_server_message,
)
from toolhall.egress.exchange import ExchangeLost, MessageQueue
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject

HandedT = TypeVar("HandedT")
MAX_MESSAGE_BYTES = 2 * 1024 * 1024 + 65_536  # of one message, and of all unread messages of one call
# Handles every report before the end of a call, in order; the encoded tool_answer that it returns is sent back.
ReportHandler: TypeAlias = Callable[[CallEvent], Awaitable[bytes | None]]


class Transport(Protocol):
    """Carries calls and requests to one replica of a tool server."""

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its name in the protocol
        """Run a call there; cancelling this cancels it there too. Raises ExchangeLost, and what `on_report` raises."""
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
    """Decode a message of a tool server; raises ExchangeLost if it cannot be read."""
    try:
        return read_tool_server_message(body)
    except Malformed as error:
        raise ExchangeLost(error.message, delivered=True) from None


def check_report(message: ToolServerMessage, call_id: str) -> CallEvent | ToolResponseMessage:
    """The message, if it is about this call; raises ExchangeLost for anything else."""
    if isinstance(message, ResponseMessage):
        raise ExchangeLost("a tool_request was answered with a response, not with a tool_response", delivered=True)
    # A bare tool_error may lack the id: over HTTP it can only be about this call.
    if message.id == call_id or (
        not message.id and isinstance(message, ToolResponseMessage) and message.error is not None
    ):
        return message
    raise ExchangeLost("the tool server responded to another call than it was sent", delivered=True)


def check_response(message: ToolServerMessage, request_id: str | None) -> JsonObject:
    """The response to a request of the hall itself; raises ExchangeLost for anything else."""
    if not isinstance(message, ResponseMessage) or message.id != request_id:
        raise ExchangeLost("the tool server sent something else than the response to this request", delivered=True)
    response: JsonObject = msgspec.to_builtins(message)
    return response


async def handle_report(queue: MessageQueue[HandedT], on_report: ReportHandler, report: CallEvent) -> bytes | None:
    """Pass a report to the handler; returns its answer, or None if the transport fails meanwhile or has failed."""
    if queue.failure is not None and isinstance(report, QuestionMessage):
        return None
    return await queue.attend(on_report(report))
