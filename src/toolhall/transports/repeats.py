"""Answers that are remembered for a while, so that a call sent twice under one id runs once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

import msgspec

from toolhall.model.errors import Unavailable
from toolhall.model.exchange import Wire

MAX_KEPT = 10_000
MAX_KEPT_BYTES = 64 * 1024 * 1024
KEPT_SECONDS = 600.0
# The tool ran, or may have. Whatever else was answered, it did not: the same call may be tried again under its id.
_FINAL = (200, 500)


class Reused(Exception):
    """The id belongs to another request."""


class _Kept(msgspec.Struct, frozen=True):
    """A request as its digest, its answer, and when that was given."""

    request: bytes
    wire: Wire
    since: float


class Repeats:
    """By whoever asks and call id; the same id with another request is refused."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: dict[Hashable, tuple[bytes, asyncio.Future[Wire]]] = {}
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._bytes = 0

    async def once(
        self, key: Hashable, request: bytes, answer: Callable[[], Awaitable[Wire]], again: Callable[[], Awaitable[None]]
    ) -> Wire:
        """The answer of the first call with this key and this digest; a repeat waits for it.

        `again` comes before each repeat, and raises where the answer may not be had any more.
        """
        self._forget()
        if running := self._running.get(key):
            _compare(running[0], request)
            await again()
            return await _first(running[1])
        if kept := self._kept.get(key):
            _compare(kept.request, request)
            await again()
            return kept.wire
        future: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
        self._running[key] = (request, future)
        try:
            wire = await answer()
        except BaseException:
            future.cancel()
            raise
        finally:
            del self._running[key]
        future.set_result(wire)
        if wire.status in _FINAL:
            self._kept[key] = _Kept(request, wire, self._clock())
            self._bytes += len(wire.body)
        return wire

    def _forget(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        while self._kept:
            first = next(iter(self._kept.values()))
            if first.since >= oldest and len(self._kept) < MAX_KEPT and self._bytes < MAX_KEPT_BYTES:
                return
            self._kept.popitem(last=False)
            self._bytes -= len(first.wire.body)


def _compare(known: bytes, request: bytes) -> None:
    if known != request:
        raise Reused


async def _first(future: "asyncio.Future[Wire]") -> Wire:
    """Wait for the first call; whoever waits may leave without ending it."""
    await asyncio.wait([future])
    if future.cancelled():
        raise Unavailable("the first call with this call_id was broken off; send it again")
    return future.result()
