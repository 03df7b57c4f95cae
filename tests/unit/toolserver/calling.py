"""The hall's side of a desk: sends calls as a hall writes them, and hears what comes back."""

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

MEANS = ExecutorLimits(threads=4, default_timeout=60.0)


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


class Counter:
    """A desk, and whatever was said before the end of each call."""

    def __init__(self, desk: CallHandler) -> None:
        self.desk = desk
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def call(self, method: str, params: Any = None, **more: Any) -> dict[str, Any]:
        """The end of one call."""
        message = request(method, params, **more)
        outgoing = OutgoingQueue(self._send)
        wire = await self.desk.run_call(read_call(message), len(json.dumps(message)), outgoing)
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
        """All that was said."""
        return [self.said.get_nowait() for _ in range(self.said.qsize())]

    async def _send(self, message: bytes) -> None:
        self.said.put_nowait(json.loads(message))


@asynccontextmanager
async def desk_of(*targets: object, most: int = 256, means: ExecutorLimits = MEANS) -> AsyncGenerator[Counter]:
    """A desk with these tools."""
    definitions = [definition for target in targets for definition in definitions_of(target)]
    desk = CallHandler(definitions, means, most)
    await desk.open()
    try:
        yield Counter(desk)
    finally:
        await desk.close()


def kinds(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [message["type"] for message in messages]
