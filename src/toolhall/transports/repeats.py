"""Answers that are remembered for a while, so that a call sent twice under one id runs once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from toolhall.model.errors import Malformed
from toolhall.model.exchange import Wire

MAX_KEPT = 10_000
KEPT_SECONDS = 600.0


class Repeats:
    """By caller and call id; the same id with another request is refused."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], tuple[float, bytes, asyncio.Future[Wire]]] = OrderedDict()

    async def once(self, key: tuple[str, str], request: bytes, answer: Callable[[], Awaitable[Wire]]) -> Wire:
        """The answer of the first call with this key; a repeat waits for it."""
        self._forget()
        kept = self._kept.get(key)
        if kept is not None:
            if kept[1] != request:
                raise Malformed("this call_id was used for another request; use a new one")
            return await asyncio.shield(kept[2])
        future: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
        self._kept[key] = (self._clock(), request, future)
        try:
            wire = await answer()
        except BaseException:
            del self._kept[key]
            future.cancel()
            raise
        future.set_result(wire)
        return wire

    def _forget(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        while self._kept and (len(self._kept) >= MAX_KEPT or next(iter(self._kept.values()))[0] < oldest):
            self._kept.popitem(last=False)
