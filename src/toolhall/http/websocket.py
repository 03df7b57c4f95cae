"""`HubWebSocket`: hub messages over a WebSocket, each answered in its own task.

Connections are limited per caller and in total. A message waits for a concurrency slot like an HTTP request; while
it waits, nothing more is read, unless the peer is a tool server whose own messages may free the slot.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from typing import Any

from toolhall.auth.authenticator import AuthenticationFailed, AuthResult, Receive, Send, resolve_caller
from toolhall.concurrency import BoundedTaskGroup
from toolhall.dialects.hub.lease_messages import is_lease_message
from toolhall.execution.remote.replica_transport import MAX_MESSAGE_BYTES
from toolhall.http.hub import HubHandler
from toolhall.http.request import WebSocketExtension
from toolhall.http.request_slots import ConcurrencyLimiter, slot_key
from toolhall.http.tool_server_join import HubPeer, may_serve
from toolhall.model.caller import Caller
from toolhall.model.messages import WireResponse

MAX_CONCURRENT_CALLS = 64
MAX_CONCURRENT_LEASE_MESSAGES = 16  # of one socket: they wait for each other, not for a slot
MAX_PER_CALLER = 100
MAX_SOCKETS = 1_000
MAX_ANONYMOUS_SOCKETS = 250
PAUSE_SECONDS = 0.25  # nothing is read for this long after a busy error
_PATH = "/hub"
_NOT_AUTHENTICATED = 1008
_TOO_LARGE = 1009
_TRY_LATER = 1013


class HubWebSocket:
    """Serves hub messages over WebSockets; running calls are cancelled when their socket closes."""

    def __init__(self, handler: HubHandler, max_body: int, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._handler = handler
        self._max_bytes = max_bytes  # of the messages of a tool server about one call
        self._max_body = max_body
        self._numbers = count(1)
        self._open: Counter[str] = Counter()  # by caller

    async def serve(
        self,
        caller: Caller,
        limiter: ConcurrencyLimiter,
        receive: Receive,
        send: Send,
        reauthenticate: Callable[[], AuthResult] | None = None,
        *,
        extension: WebSocketExtension | None = None,
    ) -> None:
        """Serve one validated connection; `reauthenticate` verifies its credential again before each message."""
        await receive()  # websocket.connect
        if self._is_full(caller):
            await send({"type": "websocket.close", "code": _TRY_LATER})
            return
        self._open[caller.rate_limit_key] += 1
        try:
            await send({"type": "websocket.accept"})
            reauthenticate = reauthenticate or (lambda: caller)
            peer = HubPeer(send, reauthenticate, self._max_bytes, extension)
            await self._serve_messages(peer, reauthenticate, limiter, receive, send)
        finally:
            self._open[caller.rate_limit_key] -= 1
            if not self._open[caller.rate_limit_key]:
                del self._open[caller.rate_limit_key]

    def _is_full(self, caller: Caller) -> bool:
        """Whether this caller may open no more sockets."""
        if self._open[caller.rate_limit_key] >= MAX_PER_CALLER or self._open.total() >= MAX_SOCKETS:
            return True
        if caller.proof != "none":
            return False
        return sum(count for key, count in self._open.items() if key.startswith(caller.id)) >= MAX_ANONYMOUS_SOCKETS

    async def _serve_messages(
        self,
        peer: HubPeer,
        reauthenticate: Callable[[], AuthResult],
        limiter: ConcurrencyLimiter,
        receive: Receive,
        send: Send,
    ) -> None:
        connection = _Connection(self._handler, f"socket {next(self._numbers)}", peer, limiter, send)
        try:
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                body = (message.get("bytes") or b"") if text is None else text.encode()
                if peer.handle_report(body):  # of a call to this tool server; its transport has a bound of its own
                    continue
                if len(body) > self._max_body:
                    await send({"type": "websocket.close", "code": _TOO_LARGE})
                    return
                caller = await resolve_caller(reauthenticate())  # the key may have been revoked meanwhile
                await connection.handle(body, caller)
        except AuthenticationFailed:
            await send({"type": "websocket.close", "code": _NOT_AUTHENTICATED})
        finally:
            peer.close()
            await connection.close()


class _Connection:
    """One WebSocket. While a message waits for a slot nothing more is read, unless the peer is a tool server.

    A later message of a tool server may be just what frees the slot. A message waits in the same queue as HTTP
    requests, and not longer; then it gets the busy error.
    """

    def __init__(self, handler: HubHandler, name: str, peer: HubPeer, limiter: ConcurrencyLimiter, send: Send) -> None:
        self._handler = handler
        self._name = name
        self._peer = peer
        self._limiter = limiter
        self._send = send
        self._call_tasks, self._lease_tasks = (
            BoundedTaskGroup(MAX_CONCURRENT_CALLS),
            BoundedTaskGroup(MAX_CONCURRENT_LEASE_MESSAGES),
        )
        self._serves_tools = False

    async def handle(self, body: bytes, caller: Caller) -> None:
        """Start to answer a message."""
        if may_serve(caller) and is_lease_message(body):
            self._serves_tools = True
            await self._start_or_reject(self._lease_tasks, self._answer(body, caller), body)
        elif self._serves_tools:
            await self._start_or_reject(self._call_tasks, self._answer_when_admitted(body, caller), body)
        else:
            release = await self._acquire_slot(caller)
            if release is None:
                await self._send_response(self._handler.busy_response(body))
                await asyncio.sleep(PAUSE_SECONDS)
                return
            try:
                task = await self._call_tasks.start(self._answer(body, caller))
            except BaseException:
                release()
                raise
            task.add_done_callback(lambda _: release())  # also if it is cancelled before it starts

    async def close(self) -> None:
        """Cancel what still runs."""
        await self._call_tasks.shutdown()
        await self._lease_tasks.shutdown()

    async def _start_or_reject(self, tasks: BoundedTaskGroup, work: Coroutine[Any, Any, None], body: bytes) -> None:
        if tasks.is_full:
            work.close()
            await self._send_response(self._handler.busy_response(body))
        else:
            await tasks.start(work)

    async def _answer_when_admitted(self, body: bytes, caller: Caller) -> None:
        release = await self._acquire_slot(caller)
        if release is None:
            await self._send_response(self._handler.busy_response(body))
            return
        try:
            await self._answer(body, caller)
        finally:
            release()

    async def _acquire_slot(self, caller: Caller) -> Callable[[], None] | None:
        """Take a slot and return the function that releases it; None if there is none for the caller."""
        slot = self._limiter.try_acquire(caller, _PATH) or await self._limiter.acquire(caller)
        return None if slot is None else partial(slot.release, slot_key(caller))

    async def _answer(self, body: bytes, caller: Caller) -> None:
        await self._send_response(await self._handler.answer(body, caller, self._name, self._peer))

    async def _send_response(self, wire: WireResponse) -> None:
        if wire.body:
            await self._send({"type": "websocket.send", "text": wire.body.decode()})
