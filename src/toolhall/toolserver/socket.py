"""A tool server that nobody can reach: it opens a WebSocket to the hall and is called over that."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from toolhall.dialects.hub.leasing import NotNow, Refusal, read_result, result_of
from toolhall.dialects.hub.messages import CoreRequest
from toolhall.dialects.hub.remote import Answering, RemoteCall, Responded, read_order, read_report, write_request
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.toolserver.desk import MOST_CALLS, Desk
from toolhall.toolserver.joining import ASK_SECONDS, Away
from toolhall.toolserver.outgoing import Outgoing
from toolhall.transports.crowd import Crowd

_LINE = "socket"
_OPEN_SECONDS = 10.0
_PING_SECONDS, _PONG_SECONDS = 5.0, 10.0
_CLOSE_SECONDS = 2.0
_log = logging.getLogger("toolhall.toolserver")


class _Straight(connect):
    """Goes where it was sent and nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """No."""
        return exc


class HallSocket:
    """A socket that is open: this side asks the hall, and the hall calls this side."""

    def __init__(self, socket: ClientConnection, desk: Desk) -> None:
        self._socket = socket
        self._desk = desk
        self._ids = count(1)
        self._asked: dict[str, asyncio.Future[Responded]] = {}

    async def ask(self, method: str, params: JsonObject, seconds: float = ASK_SECONDS) -> Json:
        """The result; raises the Refusal that it was answered with, or Away."""
        request_id = str(next(self._ids))
        self._asked[request_id] = answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._send(write_request(request_id, method, params))
                return result_of(await answer)
        except TimeoutError:
            raise Away(f"it did not answer {method!r} within {seconds:g} seconds") from None
        except ConnectionClosed as closed:
            raise Away(f"the socket was closed ({closed})") from None
        finally:
            del self._asked[request_id]

    async def serve(self) -> None:
        """Take what the hall says until the socket closes; the calls that run then end with it."""
        crowd = Crowd(MOST_CALLS + MOST_CALLS // 4)  # the desk refuses the last of these at once
        try:
            async for message in self._socket:
                await self._heard(message.encode() if isinstance(message, str) else message, crowd)
        except ConnectionClosed:
            pass
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(Away("the socket was closed"))
            await crowd.finish()

    async def _heard(self, body: bytes, crowd: Crowd) -> None:
        try:
            order = read_order(body)
        except Malformed as malformed:
            self._responded(body, malformed)
            return
        match order:
            case RemoteCall():
                await crowd.start(self._call(order, len(body)))
            case Answering():
                self._desk.answer(order, _LINE)
            case CoreRequest():
                await crowd.start(self._manage(order))

    def _responded(self, body: bytes, malformed: Malformed) -> None:
        """What is no order is an answer, or nothing that could be answered."""
        try:
            said = read_report(body)
        except Malformed:
            said = None
        answer = self._asked.get(str(said.id)) if isinstance(said, Responded) else None
        if answer is None or answer.done() or not isinstance(said, Responded):
            _log.warning("the hall said what cannot be read: %s", malformed.message)
        else:
            answer.set_result(said)

    async def _call(self, call: RemoteCall, size: int) -> None:
        outgoing = Outgoing(self._send)
        try:
            wire = await self._desk.run(call, size, outgoing, _LINE)
            await outgoing.finish()
            await self._send(wire.body)
        except ConnectionClosed:
            return
        finally:
            await outgoing.stop()

    async def _manage(self, request: CoreRequest) -> None:
        try:
            await self._send((await self._desk.manage(request, _LINE)).body)
        except ConnectionClosed:
            return

    async def _send(self, body: bytes) -> None:
        await self._socket.send(body, text=True)


@asynccontextmanager
async def opened(url: str, key: str, desk: Desk, max_size: int) -> AsyncGenerator[HallSocket]:
    """A socket to the hall at this address; raises Away, or Refusal where it says no."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    options: dict[str, Any] = {
        "additional_headers": headers,
        "proxy": None,
        "compression": None,  # what is packed could grow here, and its size could tell of secrets
        "max_size": max_size,
        "open_timeout": _OPEN_SECONDS,
        "ping_interval": _PING_SECONDS,
        "ping_timeout": _PONG_SECONDS,
        "close_timeout": _CLOSE_SECONDS,
    }
    try:
        socket = await _Straight(f"{_as_socket(url)}/hub", **options)
    except InvalidStatus as refused:
        raise _why(refused) from None
    except (OSError, WebSocketException, TimeoutError) as error:
        raise Away(f"it cannot be reached ({str(error) or type(error).__name__})") from None
    try:
        yield HallSocket(socket, desk)
    finally:
        await socket.close()


def _why(refused: InvalidStatus) -> Away | Refusal:
    status, body = refused.response.status_code, bytes(refused.response.body or b"")
    if status >= 500 or status == 429:
        return Away(f"it answers with status {status}")
    if 300 <= status < 400:
        return Refusal("the address sends on to another one; if you trust that, name it with --join")
    try:
        read_result(body, None)
    except NotNow:
        return Refusal(f"it opens no socket for this server (status {status})")
    except Refusal as said:
        return said
    return Refusal(f"it opens no socket for this server (status {status})")


def _as_socket(url: str) -> str:
    return f"ws{url.removeprefix('http')}"
