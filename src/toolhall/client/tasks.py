"""ClientTask: a long call that a server runs as a task, in the form of 2025-11-25 or of the extension of 2026-07-28.

They differ in who decides that a call is a task (the client; the server), and in how its end is told (`tasks/result`
waits for it; `tasks/get` has it once it has ended, and the questions until then).
"""

import asyncio
from typing import TypeVar, overload

import msgspec

from toolhall.client.connection import ClientConnection, OnProgress
from toolhall.client.results import TaskStatus, ToolResult, convert_result, read_task_status
from toolhall.dialects.mcp.client_messages import MAX_ERROR_TEXT, decode_object
from toolhall.dialects.mcp.client_questions import read_question, write_reply
from toolhall.dialects.mcp.client_results import read_call_result
from toolhall.dialects.mcp.protocol import INTERNAL_ERROR
from toolhall.mcp_client.session import McpRequest, NotAcceptable, RpcError
from toolhall.model.errors import Cancelled, Malformed
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import TASKS_FEATURE
from toolhall.model.text import clean_text

T = TypeVar("T")
NO_TASKS = "the server cannot run this call as a task; use call()"


class ClientTask:
    """A task at the server; it goes on when the client leaves, and `client.task(id)` finds it again."""

    def __init__(self, connection: ClientConnection, task_id: str, ended: msgspec.Raw | None = None) -> None:
        self.id = task_id
        self._connection = connection
        self._ended = ended  # the result of a call that a server ran at once, instead of as a task
        self._answered: set[str] = set()

    async def status(self) -> TaskStatus:
        """Ask how far it is."""
        if self._ended is not None:
            return TaskStatus(id=self.id, state="completed")
        return read_task_status(await self._get())

    @overload
    async def result(self, *, timeout: float | None = None) -> ToolResult: ...
    @overload
    async def result(self, *, returns: type[T], timeout: float | None = None) -> T: ...
    async def result(self, *, returns: type[T] | None = None, timeout: float | None = None) -> "ToolResult | T":
        """Wait for its end; raises what `Client.call` raises, Cancelled for a task that was cancelled, TimeoutError.

        `timeout` is without a limit by default. Questions of the tool go to `on_question` meanwhile.
        """
        async with asyncio.timeout(timeout):
            ended = self._ended or await self._wait()
        return convert_result(read_call_result(ended), returns)

    async def cancel(self) -> None:
        """End it; raises RpcError if it has ended already."""
        if self._ended is None:
            await self._request("tasks/cancel")

    async def _wait(self) -> msgspec.Raw:
        if not self._connection.session.server.revision.stateless:
            return await self._request("tasks/result", seconds=float("inf"))
        while True:
            document = await self._get()
            status = read_task_status(document)
            match status.state, document:
                case "completed", {"result": dict(result)}:
                    return msgspec.Raw(encode(result))
                case "failed", {"error": dict(error)}:
                    raise _rpc_error(error)
                case "cancelled", _:
                    raise Cancelled(status.message or "the task was cancelled")
                case (("completed" | "failed"), _):
                    raise Malformed("the server tells that the task has ended, but not how")
                case "input_required", {"inputRequests": dict(asked)} if asked.keys() - self._answered:
                    await self._answer(asked)
                case _:
                    await asyncio.sleep(status.poll_seconds)

    async def _answer(self, asked: JsonObject) -> None:
        replies: JsonObject = {}
        for key, question in asked.items():
            match question:
                case {"method": str(method), "params": dict(params)} if key not in self._answered:
                    replies[key] = write_reply(await self._connection.answer(read_question(method, params, key)))
                case _ if key in self._answered:
                    continue
                case _:
                    raise Malformed("the server asks a question that is none")
        await self._request("tasks/update", {"inputResponses": replies})
        self._answered |= replies.keys()

    async def _get(self) -> JsonObject:
        return decode_object(await self._request("tasks/get"), "the task")

    async def _request(
        self, method: str, params: JsonObject | None = None, seconds: float | None = None
    ) -> msgspec.Raw:
        request = McpRequest(
            method=method,
            params={"taskId": self.id, **(params or {})},
            features=task_features(self._connection),
        )
        return await self._connection.request(request, seconds)


def task_features(connection: ClientConnection) -> tuple[str, ...]:
    """What the client can do, tasks among it; in 2026-07-28 each request says so."""
    return (*connection.settings.declared_features, TASKS_FEATURE)


async def start_task(
    connection: ClientConnection, params: JsonObject, keep: float | None, on_progress: OnProgress | None
) -> ClientTask:
    """Call a tool as a task; raises NotAcceptable if the server has none."""
    server = connection.session.server
    features: tuple[str, ...] | None = None
    if server.revision.stateless:
        features = task_features(connection)
    elif _takes_tasks(server.capabilities):
        params = {**params, "task": {} if keep is None else {"ttl": max(1, round(keep * 1000))}}
    else:
        raise NotAcceptable(NO_TASKS)
    request = McpRequest(method="tools/call", params=params, features=features)
    result = await connection.request(request, None, on_progress)
    document = decode_object(result, "the answer to the call")
    match document:
        case {"resultType": "task", "taskId": str(task_id)} | {"task": {"taskId": str(task_id)}}:
            return ClientTask(connection, task_id)
        case _ if server.revision.stateless:
            return ClientTask(connection, "", result)  # the server decided that it is quick enough
        case _:
            raise Malformed("the server answered a call as a task with something else")


def _takes_tasks(capabilities: JsonObject) -> bool:
    match capabilities:
        case {"tasks": {"requests": {"tools": {"call": dict()}}}}:
            return True
        case _:
            return False


def _rpc_error(error: JsonObject) -> RpcError:
    code, message = error.get("code"), error.get("message")
    data: Json = error.get("data")
    text = clean_text(message[:MAX_ERROR_TEXT]) if isinstance(message, str) else "it failed"
    return RpcError(code if type(code) is int else INTERNAL_ERROR, text, data)
