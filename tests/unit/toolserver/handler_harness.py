"""A call handler driven with hub messages, and the messages that it sends back."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from toolhall.authoring.definition import definitions_of
from toolhall.dialects.hub.call_messages import AnswerMessage, RemoteCall, read_hub_message
from toolhall.execution.executor import ExecutorLimits
from toolhall.toolserver.handler import CallHandler
from toolhall.toolserver.hub_link import OutgoingQueue

EXECUTOR_LIMITS = ExecutorLimits(threads=4, default_timeout=60.0)


def request(method: str, params: Any = None, tool: str = "Kit", **more: Any) -> dict[str, Any]:
    """A message that calls a tool."""
    return {"type": "tool_request", "id": "17", "tool": tool, "method": method, "params": params or {}, **more}


def read_call(message: dict[str, Any]) -> RemoteCall:
    call = read_hub_message(json.dumps(message).encode())
    assert isinstance(call, RemoteCall)
    return call


def read_answer(**message: Any) -> AnswerMessage:
    answering = read_hub_message(json.dumps({"type": "tool_answer", "id": "17", "number": 1, **message}).encode())
    assert isinstance(answering, AnswerMessage)
    return answering


class HandlerHarness:
    """A call handler, and the messages that it sent before the response of each call."""

    def __init__(self, handler: CallHandler) -> None:
        self.handler = handler
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def call(self, method: str, params: Any = None, **more: Any) -> dict[str, Any]:
        """The response of one call."""
        message = request(method, params, **more)
        outgoing = OutgoingQueue(self._send)
        wire = await self.handler.run_call(read_call(message), len(json.dumps(message)), outgoing)
        await outgoing.flush()
        end: dict[str, Any] = json.loads(wire.body)
        assert (end["type"], end["id"]) == ("tool_response", message["id"])
        return end

    async def result(self, method: str, params: Any = None, **more: Any) -> Any:
        """The result of a call that must not fail."""
        end = await self.call(method, params, **more)
        assert end["error"] is None, end
        return end["result"]

    async def error(self, method: str, params: Any = None, **more: Any) -> dict[str, Any]:
        """The error of a call that must fail."""
        end = await self.call(method, params, **more)
        assert end["result"] is None, end
        error: dict[str, Any] = end["error"]
        assert error["type"] == "tool_error"
        return error

    def heard(self) -> list[dict[str, Any]]:
        """All messages that were sent since."""
        return [self.said.get_nowait() for _ in range(self.said.qsize())]

    async def _send(self, message: bytes) -> None:
        self.said.put_nowait(json.loads(message))


@asynccontextmanager
async def open_handler(
    *targets: object, most: int = 256, means: ExecutorLimits = EXECUTOR_LIMITS
) -> AsyncGenerator[HandlerHarness]:
    """Open a call handler with these tools."""
    definitions = [definition for target in targets for definition in definitions_of(target)]
    handler = CallHandler(definitions, means, most)
    await handler.open()
    try:
        yield HandlerHarness(handler)
    finally:
        await handler.close()


def message_types(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [message["type"] for message in messages]
