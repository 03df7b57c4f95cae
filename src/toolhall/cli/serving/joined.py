"""A tool server while it runs: it joins its hall, is called, and leaves when it is told to stop."""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import visible
from toolhall.cli.serving.deadlines import Deadlines
from toolhall.cli.serving.premises import Premises
from toolhall.cli.serving.server import GuardedServer
from toolhall.dialects.hub.leasing import Held, NotProven, Place, Refusal, write_join
from toolhall.toolserver.desk import Desk
from toolhall.toolserver.hall_http import HallHttp
from toolhall.toolserver.http import ToolServer
from toolhall.toolserver.joining import Away, Hall, Joining, said_no
from toolhall.toolserver.socket import HallSocket, opened

# A hall keeps its connections for the next call: only one that has long forgotten us is closed from here.
_DEADLINES = Deadlines(silent=120.0, idle=120.0)
_NO_KEY = "it needs a key; set TOOLHALL_KEY or name a file with --key-file ('toolhall key create' makes keys)"


class Terms(msgspec.Struct, frozen=True):
    """Whom to run tools for, under which name, and how large a message may be."""

    hall: str
    key: str
    name: str
    max_body_bytes: int

    @property
    def max_frame_bytes(self) -> int:
        """Of a WebSocket, which nobody opens to a tool server."""
        return self.max_body_bytes

    @property
    def access_log(self) -> bool:
        """The hall logs what it asks of its tool servers."""
        return False

    def __repr__(self) -> str:
        return f"Terms({self.hall!r})"


class Stop:
    """What a signal sets: first to end in order, then to end at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def __call__(self) -> None:
        """Stop."""
        (self.hurried if self.asked.is_set() else self.asked).set()

    @contextlib.contextmanager
    def on_signals(self) -> Any:
        """Meanwhile SIGINT and SIGTERM stop."""
        loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        if sys.platform == "win32":
            yield
            return
        for number in signals:
            loop.add_signal_handler(number, self)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


class Occupied(NamedTuple):
    """A tool server and its sizes, as a server sees them."""

    http: ToolServer
    config: Terms


class SilentServer(GuardedServer):
    """Hears no signals itself: the hall is told first."""

    def capture_signals(self) -> Any:
        """Nothing."""
        return contextlib.nullcontext()


class Joined:
    """One start of a tool server; `announce` hears once that it has joined."""

    def __init__(self, desk: Desk, terms: Terms, announce: Callable[[Held], None]) -> None:
        self._desk = desk
        self._terms = terms
        self._announce = announce
        self._stop = Stop()
        self._hall: Hall | None = None  # as far as it can be asked now

    async def over_http(self, listening: socket.socket, advertised: str) -> None:
        """Listen for the hall's calls until told to stop."""
        place = Place(advertised, secrets.token_urlsafe(32))
        app = ToolServer(self._desk, place.token, self._terms.max_body_bytes)
        served = Occupied(app, self._terms)
        server = SilentServer(served, Premises(served, deadlines=_DEADLINES))
        hall = HallHttp(self._terms.hall, self._terms.key)
        with self._stop.on_signals():
            serving = asyncio.create_task(server.serve([listening]))
            self._hall = hall
            try:
                await self._stay(self._joining(place), lambda joining: joining.stay(hall))
            finally:
                server.stop()
                await _first(serving, self._stop.hurried.wait())
                server.force_exit = not serving.done()
                await serving
                await hall.close()
                await self._desk.close()

    async def over_socket(self) -> None:
        """Be called over a socket to the hall until told to stop."""
        with self._stop.on_signals():
            try:
                await self._stay(self._joining(None), self._on_socket)
            finally:
                await self._desk.close()

    def _joining(self, place: Place | None) -> Joining:
        declared = write_join(self._terms.name, secrets.token_hex(16), self._desk.declarations, place)
        return Joining(declared, self._status)

    async def _status(self) -> str:
        return str((await self._desk.health())["status"])

    async def _on_socket(self, joining: Joining) -> None:
        async with opened(self._terms.hall, self._terms.key, self._desk, self._terms.max_body_bytes) as hall:
            self._hall = hall
            try:
                await _both(hall, joining)
            finally:
                self._hall = None

    async def _stay(self, joining: Joining, stay: Callable[[Joining], Awaitable[None]]) -> None:
        await self._desk.open()
        keeping = asyncio.create_task(_keep(joining, stay))
        announcing = asyncio.create_task(self._announced(joining))
        try:
            await _first(keeping, self._stop.asked.wait())
            if keeping.done():
                await keeping
            self._desk.drain()
            if self._hall is not None:
                leaving = asyncio.create_task(joining.leave(self._hall))
                await _first(leaving, self._stop.hurried.wait())
                await _ended(leaving)
        except Refusal as refused:
            said = _NO_KEY if isinstance(refused, NotProven) and not self._terms.key else visible(refused.message)
            raise CommandFailed(f"the hall at {self._terms.hall} does not take this tool server: {said}") from None
        finally:
            await _ended(keeping, announcing)

    async def _announced(self, joining: Joining) -> None:
        await joining.joined.wait()
        if joining.held is not None:
            self._announce(joining.held)


async def _keep(joining: Joining, stay: Callable[[Joining], Awaitable[None]]) -> None:
    """For ever, however often the hall goes away; a no counts only where it is the very first answer.

    Later something else may answer in the hall's place for a moment.
    """
    while True:
        try:
            await stay(joining)
        except Away as away:
            await joining.pause(away)
        except Refusal as refused:
            if not joining.joined.is_set():
                raise
            await joining.pause(said_no(refused))


async def _both(hall: HallSocket, joining: Joining) -> None:
    """Stay joined as long as the socket is open; another lease on the same socket goes on with the same calls."""
    serving = asyncio.create_task(hall.serve())
    try:
        while True:
            staying = asyncio.create_task(joining.stay(hall))
            await _first(serving, staying)
            if not staying.cancelled():
                await staying  # also where the socket was closed after that: it may hold the hall's words
            if serving.done():
                raise Away("the socket was closed")
    finally:
        await _ended(serving)


async def _first(main: "asyncio.Task[None]", other: "asyncio.Task[None] | Coroutine[Any, Any, Any]") -> None:
    """Wait for one of the two; the other, if it is the second, is ended, and what it raised is known."""
    second = other if isinstance(other, asyncio.Task) else asyncio.create_task(other)
    try:
        await asyncio.wait({main, second}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _ended(second)


async def _ended(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
