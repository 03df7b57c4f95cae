"""The lease that a tool server holds at a hall: joins, says that it is still there, joins again, and leaves."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from toolhall.dialects.hub.leasing import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    Held,
    NotNow,
    Refusal,
    read_held,
    read_tools,
    write_heartbeat,
    write_leave,
)
from toolhall.model.json import Json, JsonObject

ASK_SECONDS = 10.0
LEAVE_SECONDS = 35.0  # a hall answers when nothing runs any more, after 30 seconds at the latest
_FIRST_SECONDS, _MOST_SECONDS = 1.0, 5.0
_log = logging.getLogger("toolhall.toolserver")


class Away(Exception):
    """The hall cannot be reached, or the line to it broke; the message says why."""


def said_no(refused: Refusal) -> Away:
    """What a no is to a server that was joined before: asked again, the hall may say something else."""
    return Away(f"the hall says no: {refused.message}")


class Hall(Protocol):
    """A way to ask a hall."""

    async def ask(self, method: str, params: JsonObject, seconds: float = ASK_SECONDS) -> Json:
        """The result; raises the Refusal that it was answered with, or Away."""
        ...


def pauses(chance: Callable[[], float] = random.random) -> Iterator[float]:
    """How long to wait before each new attempt: longer and longer, and never at the same time as everybody else."""
    seconds = _FIRST_SECONDS
    while True:
        yield seconds * (0.75 + 0.25 * chance())
        seconds = min(2 * seconds, _MOST_SECONDS)


class Joining:
    """One replica's stay; `joined` is set after the first time, `held` is the lease that was given last."""

    def __init__(self, params: JsonObject, status: Callable[[], Awaitable[str]]) -> None:
        self.joined = asyncio.Event()
        self.held: Held | None = None
        self._params = params
        self._status = status
        self._says_away = False
        self._leaving = False
        self._pauses = pauses()

    async def stay(self, hall: Hall) -> None:
        """Join, and stay until the hall does not know us any more; Away when the line is broken.

        Raises Refusal where the very first answer is a no. Once we leave, nothing more is said here.
        """
        await self._unless_leaving()
        try:
            held = read_held(await hall.ask(JOIN, self._params))
        except NotNow as refused:
            raise Away(refused.message) from None
        except Refusal as refused:
            if not self.joined.is_set():
                raise
            raise said_no(refused) from None
        if self._says_away:
            _log.warning("joined the hall again")
        self._says_away, self._pauses = False, pauses()
        self.held = held
        self.joined.set()
        try:
            await self._beat(hall, held)
        except NotNow as refused:
            raise Away(refused.message) from None
        except Refusal as refused:
            _log.info("joining again: %s", refused.message)

    async def pause(self, why: Away) -> None:
        """Wait before the next attempt; says once why there must be one."""
        if not self._says_away:
            self._says_away = True
            _log.warning("the hall is away, and will be asked again and again: %s", why)
        await asyncio.sleep(next(self._pauses))

    async def leave(self, hall: Hall) -> None:
        """Say goodbye, and wait until the hall wants nothing more; where it is away, it knows by itself soon."""
        self._leaving = True
        if self.held is None:
            return
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._said_goodbye(hall, self.held.lease)
        except (Away, Refusal) as error:
            _log.warning("could not say goodbye to the hall: %s", error)
        except TimeoutError:
            _log.warning("could not say goodbye to the hall: it took none for %g seconds", LEAVE_SECONDS)

    async def _said_goodbye(self, hall: Hall, lease: str) -> None:
        """A hall that is full turns everybody away for a moment, and still sends calls to who has not left."""
        for pause in pauses():
            try:
                await hall.ask(LEAVE, write_leave(lease), LEAVE_SECONDS)
            except NotNow:
                await asyncio.sleep(pause)
            else:
                return

    async def _beat(self, hall: Hall, held: Held) -> None:
        tools = held.tools
        while True:
            await asyncio.sleep(held.seconds)
            await self._unless_leaving()
            now = read_tools(await hall.ask(HEARTBEAT, write_heartbeat(held.lease, await self._status())))
            for name, state in now.items():
                if tools.get(name) != state:
                    _log.warning("%s is %s in the hall now", name, state)
            tools = now or tools

    async def _unless_leaving(self) -> None:
        """Whoever says goodbye must not join again by the way: what stays is cancelled then."""
        if self._leaving:
            await asyncio.Event().wait()
