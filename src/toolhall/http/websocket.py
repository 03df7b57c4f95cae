"""`HubWebSocket`: hub messages over a WebSocket, each answered in its own task.

Connections are limited per caller and in total. A message waits for a concurrency slot like an HTTP request; while
it waits, nothing more is read, unless the peer is a tool server whose own messages may free the slot.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from typing import Any, Protocol

from toolhall.auth.authenticator import AuthenticationFailed, AuthResult, Receive, Send, resolve_caller
from toolhall.concurrency import BoundedTaskGroup
from toolhall.dialects.hub.lease_messages import is_lease_message
from toolhall.execution.remote.replica_transport import MAX_MESSAGE_BYTES
from toolhall.http.concurrency import ConcurrencyLimiter, slot_key
from toolhall.http.tool_server_join import HubPeer, may_serve
from toolhall.model.caller import Caller
from toolhall.model.messages import WireResponse

MAX_CONCURRENT_CALLS = 64
MAX_CONCURRENT_LEASE_MESSAGES = 16  # of one socket: they wait for each other, not for a place
MAX_PER_CALLER = 100
MAX_SOCKETS = 1_000
MAX_ANONYMOUS_SOCKETS = 250
PAUSE_SECONDS = 0.25  # after a message that was turned away, nothing more is read for so long
_PATH = "/hub"
_NOT_AUTHENTICATED = 1008
_TOO_LARGE = 1009
_TRY_LATER = 1013


class MessageHandler(Protocol):
    """Who answers messages, as the hub does."""

    async def answer(self, body: bytes | None, caller: Caller, connection: str, peer: HubPeer) -> WireResponse:
        """The one reply to a message."""
        ...

    def busy_response(self, body: bytes) -> WireResponse:
        """What a message is told for which there is no place."""
        ...


class HubWebSocket:
    """Reads messages until the client leaves; its running calls end with it."""

    def __init__(self, handler: MessageHandler, max_body: int, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._handler = handler
        self._max_bytes = max_bytes  # of what a tool server says about one call
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
    ) -> None:
        """Serve one connection that the shield let through; `again` proves anew who opened it."""
        await receive()  # websocket.connect
        if self._is_full(caller):
            await send({"type": "websocket.close", "code": _TRY_LATER})
            return
        self._open[caller.rate_limit_key] += 1
        try:
            await send({"type": "websocket.accept"})
            await self._serve_messages(reauthenticate or (lambda: caller), limiter, receive, send)
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
        self, reauthenticate: Callable[[], AuthResult], limiter: ConcurrencyLimiter, receive: Receive, send: Send
    ) -> None:
        sender = HubPeer(send, reauthenticate, self._max_bytes)
        line = _Connection(self._handler, f"socket {next(self._numbers)}", sender, limiter, send)
        try:
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                body = (message.get("bytes") or b"") if text is None else text.encode()
                if sender.handle_report(body):  # of a tool server that is called here; its line has a bound of its own
                    continue
                if len(body) > self._max_body:
                    await send({"type": "websocket.close", "code": _TOO_LARGE})
                    return
                await line.handle(
                    body, await resolve_caller(reauthenticate())
                )  # a key that was revoked meanwhile is good no longer
        except AuthenticationFailed:
            await send({"type": "websocket.close", "code": _NOT_AUTHENTICATED})
        finally:
            sender.close()
            await line.close()


class _Connection:
    """One socket: nothing more is read while a message waits for a slot, unless a tool server is called there.

    What such a server says behind that message may be just what frees the slot. A message waits in the same queue as
    HTTP requests do, and for no longer; then it is told when to come back.
    """

    def __init__(
        self, handler: MessageHandler, name: str, peer: HubPeer, limiter: ConcurrencyLimiter, send: Send
    ) -> None:
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
        """Let a message be answered, by and by."""
        if may_serve(caller) and is_lease_message(body):
            self._serves_tools = True
            await self._start_or_reject(self._lease_tasks, self._answer(body, caller), body)
        elif self._serves_tools:
            await self._start_or_reject(self._call_tasks, self._answer_when_admitted(body, caller), body)
        else:
            leave = await self._acquire_slot(caller)
            if leave is None:
                await self._send_response(self._handler.busy_response(body))
                await asyncio.sleep(PAUSE_SECONDS)
                return
            try:
                task = await self._call_tasks.start(self._answer(body, caller))
            except BaseException:
                leave()
                raise
            task.add_done_callback(lambda _: leave())  # it may be cancelled before it begins

    async def close(self) -> None:
        """Whatever still runs."""
        await self._call_tasks.shutdown()
        await self._lease_tasks.shutdown()

    async def _start_or_reject(self, tasks: BoundedTaskGroup, work: Coroutine[Any, Any, None], body: bytes) -> None:
        if tasks.is_full:
            work.close()
            await self._send_response(self._handler.busy_response(body))
        else:
            await tasks.start(work)

    async def _answer_when_admitted(self, body: bytes, caller: Caller) -> None:
        leave = await self._acquire_slot(caller)
        if leave is None:
            await self._send_response(self._handler.busy_response(body))
            return
        try:
            await self._answer(body, caller)
        finally:
            leave()

    async def _acquire_slot(self, caller: Caller) -> Callable[[], None] | None:
        """A slot; returns how to give it back, None if there is none for this caller."""
        slot = self._limiter.try_acquire(caller, _PATH) or await self._limiter.acquire(caller)
        return None if slot is None else partial(slot.release, slot_key(caller))

    async def _answer(self, body: bytes, caller: Caller) -> None:
        await self._send_response(await self._handler.answer(body, caller, self._name, self._peer))

    async def _send_response(self, wire: WireResponse) -> None:
        if wire.body:
            await self._send({"type": "websocket.send", "text": wire.body.decode()})
