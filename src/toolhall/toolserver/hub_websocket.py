"""`WebSocketHubClient`: a WebSocket that this tool server opens to a hall, and over which the hall calls it.

Both sides send requests over the same socket: this side join, heartbeat and leave; the hall calls, answers,
cancellations and health checks.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from toolhall.concurrency import BoundedTaskGroup
from toolhall.dialects.hub.call_messages import (
    AnswerMessage,
    RemoteCall,
    ResponseMessage,
    read_hub_message,
    read_tool_server_message,
    write_request,
)
from toolhall.dialects.hub.lease_messages import HubRefusal, RetryableRefusal, read_result, response_result
from toolhall.dialects.hub.messages import HubRequest
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.toolserver.handler import MAX_CALLS, CallHandler
from toolhall.toolserver.hub_link import OutgoingQueue
from toolhall.toolserver.lease import REQUEST_SECONDS, HubUnavailable

_CHANNEL = "socket"
_OPEN_SECONDS = 10.0
_PING_SECONDS, _PONG_SECONDS = 5.0, 10.0
_CLOSE_SECONDS = 2.0
_log = logging.getLogger("toolhall.toolserver")


class _ConnectWithoutRedirects(connect):
    """A `connect` that follows no redirect: the key goes where the operator said."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Return the exception, which ends the attempt."""
        return exc


class WebSocketHubClient:
    """One open socket to the hall."""

    def __init__(self, socket: ClientConnection, handler: CallHandler) -> None:
        self._socket = socket
        self._handler = handler
        self._ids = count(1)
        self._pending: dict[str, asyncio.Future[ResponseMessage]] = {}

    async def request(self, method: str, params: JsonObject, seconds: float = REQUEST_SECONDS) -> Json:
        """Send a request; returns the result, or raises the HubRefusal of the response, or HubUnavailable."""
        request_id = str(next(self._ids))
        self._pending[request_id] = answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._send(write_request(request_id, method, params))
                return response_result(await answer)
        except TimeoutError:
            raise HubUnavailable(f"it did not answer {method!r} within {seconds:g} seconds") from None
        except ConnectionClosed as closed:
            raise HubUnavailable(f"the socket was closed ({closed})") from None
        finally:
            del self._pending[request_id]

    async def serve(self) -> None:
        """Handle messages until the socket closes, which cancels the calls that still run."""
        tasks = BoundedTaskGroup(MAX_CALLS + MAX_CALLS // 4)  # beyond MAX_CALLS the handler refuses calls at once
        try:
            async for message in self._socket:
                await self._handle_message(message.encode() if isinstance(message, str) else message, tasks)
        except ConnectionClosed:
            pass
        finally:
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(HubUnavailable("the socket was closed"))
            await tasks.shutdown()

    async def _handle_message(self, body: bytes, tasks: BoundedTaskGroup) -> None:
        try:
            message = read_hub_message(body)
        except Malformed as malformed:
            self._deliver_response(body, malformed)
            return
        match message:
            case RemoteCall():
                await tasks.start(self._run_call(message, len(body)))
            case AnswerMessage():
                self._handler.deliver_answer(message, _CHANNEL)
            case HubRequest():
                await tasks.start(self._handle_request(message))

    def _deliver_response(self, body: bytes, malformed: Malformed) -> None:
        """Deliver the response to a pending request; logs a message that is neither a request nor such a response."""
        try:
            message = read_tool_server_message(body)
        except Malformed:
            message = None
        pending = self._pending.get(str(message.id)) if isinstance(message, ResponseMessage) else None
        if pending is None or pending.done() or not isinstance(message, ResponseMessage):
            _log.warning("the hall sent a message that cannot be read: %s", malformed.message)
        else:
            pending.set_result(message)

    async def _run_call(self, call: RemoteCall, size: int) -> None:
        outgoing = OutgoingQueue(self._send)
        try:
            wire = await self._handler.run_call(call, size, outgoing, _CHANNEL)
            await outgoing.flush()
            await self._send(wire.body)
        except ConnectionClosed:
            return
        finally:
            await outgoing.cancel()

    async def _handle_request(self, request: HubRequest) -> None:
        try:
            await self._send((await self._handler.handle_request(request, _CHANNEL)).body)
        except ConnectionClosed:
            return

    async def _send(self, body: bytes) -> None:
        await self._socket.send(body, text=True)


@asynccontextmanager
async def open_hub_socket(
    url: str, key: str, handler: CallHandler, max_size: int
) -> AsyncGenerator[WebSocketHubClient]:
    """Open a socket to the hall at this address; raises HubUnavailable, or HubRefusal if the hall refuses it."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    options: dict[str, Any] = {
        "additional_headers": headers,
        "proxy": None,
        "compression": None,  # a small frame could grow here, and compressed sizes can reveal secrets
        "max_size": max_size,
        "open_timeout": _OPEN_SECONDS,
        "ping_interval": _PING_SECONDS,
        "ping_timeout": _PONG_SECONDS,
        "close_timeout": _CLOSE_SECONDS,
    }
    try:
        socket = await _ConnectWithoutRedirects(f"{_websocket_url(url)}/hub", **options)
    except InvalidStatus as refused:
        raise _connect_error(refused) from None
    except (OSError, WebSocketException, TimeoutError) as error:
        raise HubUnavailable(f"it cannot be reached ({str(error) or type(error).__name__})") from None
    try:
        yield WebSocketHubClient(socket, handler)
    finally:
        await socket.close()


def _connect_error(refused: InvalidStatus) -> HubUnavailable | HubRefusal:
    status, body = refused.response.status_code, bytes(refused.response.body or b"")
    if status >= 500 or status == 429:
        return HubUnavailable(f"it answers with status {status}")
    if 300 <= status < 400:
        return HubRefusal("the address sends on to another one; if you trust that, name it with --join")
    try:
        read_result(body, None)
    except RetryableRefusal:
        return HubRefusal(f"it opens no socket for this server (status {status})")
    except HubRefusal as refusal:
        return refusal
    return HubRefusal(f"it opens no socket for this server (status {status})")


def _websocket_url(url: str) -> str:
    return f"ws{url.removeprefix('http')}"
