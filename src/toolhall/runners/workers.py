"""The worker processes of a hall: kept warm for the module they have imported, replaced when a call ended badly."""

import asyncio
import contextlib
import logging
import os
import tempfile
import time

from toolhall.authoring.context import Patience
from toolhall.model.errors import Unavailable
from toolhall.runners.address import Address
from toolhall.runners.brake import Brake
from toolhall.runners.child import Child, Gone
from toolhall.runners.lifespan import LEAVE_SECONDS
from toolhall.runners.output import OutputReader
from toolhall.runners.sandbox import hides
from toolhall.runners.surroundings import surroundings
from toolhall.runners.turns import Shares, Turns
from toolhall.runners.wire import Limits, Ready, Unfit

SIZE = 8
_RESERVE = 4  # times as many, so that every tool can have its first one
_START_SECONDS = 30.0
_BURY_SECONDS = 0.02
_log = logging.getLogger("toolhall.run")


class Workers:
    """At most so many warm ones; a tool that lost one gets workers of its own from then on.

    A worker is never shared by two modules, so what one leaves behind in it cannot reach the other.
    """

    def __init__(
        self, limits: Limits, *, size: int = SIZE, variables: tuple[str, ...] = (), hidden: tuple[str, ...] = ()
    ) -> None:
        self.limits = limits
        self.deaths = 0
        self._size = size
        self._variables = variables
        self._hidden = hidden
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._output = OutputReader()
        self._warned: set[str] = set()
        self._turns = Turns(Shares(shared=size, each=max(1, size // 2), most=size * _RESERVE))
        self._idle: list[tuple[str, Child]] = []  # the one used last comes last
        self._busy: set[Child] = set()
        self._dying: set[Child] = set()
        self._brake = Brake(time.monotonic)
        self._closed = False

    @property
    def running(self) -> int:
        """How many work now."""
        return len(self._busy)

    async def take(self, address: Address, tool: str, patience: Patience) -> Child:
        """A worker that has imported the module; the tool's time stands still while one is started."""
        await self._turns.enter(tool)
        try:
            child = self._warm(self._home(address, tool))
            if child is None:
                with patience.hold():
                    child = await self._started(address, tool)
        except BaseException:
            self._turns.leave(tool)
            raise
        return child

    def give(self, child: Child, address: Address, tool: str, *, sound: bool) -> None:
        """Take a worker back; one whose call was cut short is ended, with everything it started."""
        self._busy.discard(child)
        home = self._home(address, tool)
        if not sound:
            self.deaths += 1
            self._brake.died(tool)
        if sound and not self._closed:
            self._idle.append((home, child))
        else:
            self._end(child)
        self._trim()
        self._turns.leave(tool)

    def close(self) -> None:
        """End every worker, also in the middle of its work; an idle one leaves its toolkits first."""
        self._closed = True
        for child in self._busy:
            child.kill()
        idle = [child for _, child in self._idle]
        for child in idle:
            child.hang_up()
        for child in idle:
            if not child.buried(wait=True):
                child.kill()
        self._dying |= {*idle, *self._busy}
        self._idle.clear()
        for child in self._dying:
            child.kill()
            child.buried(wait=True)
        self._dying.clear()
        self._output.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _home(self, address: Address, tool: str) -> str:
        return f"{address.module}\n{address.file}\n{tool if tool in self._brake else ''}"

    def _warm(self, home: str) -> Child | None:
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place][0] == home:
                _, child = self._idle.pop(place)
                if child.lives():
                    self._busy.add(child)
                    return child
                self._end(child)
        return None

    async def _started(self, address: Address, tool: str) -> Child:
        if self._closed:
            raise Unavailable("the hall is closing")
        await asyncio.sleep(self._brake.pause(tool))
        child = Child(address, self.limits, self._environment(), self._hidden)
        self._output.follow(child.printed, child.output)
        self._busy.add(child)
        self._trim()
        try:
            async with asyncio.timeout(_START_SECONDS):
                report = await child.hello()
        except (TimeoutError, Gone):
            report = Unfit("it did not start")
        except BaseException:
            self._discard(child)
            raise
        if isinstance(report, Ready):
            self._warn(report.missing)
            return child
        self._discard(child)
        reason = getattr(report, "trace", report)
        if hides(self._hidden, address.file):
            reason = f"{address.file} is in the hall's data folder, which such tools cannot read; move it elsewhere"
        _log.error("tool %s cannot be run in a process of its own: %s", tool, reason)
        raise Unavailable("the tool's module cannot be imported in a process of its own; the server's log says why")

    def _environment(self) -> dict[str, str]:
        """What it sees; with files for a while elsewhere, where the usual place leads to what is hidden."""
        environment = surroundings(os.environ, self._variables)
        usual = tempfile.gettempdir()
        if self._scratch is None and any(hides((usual,), each) for each in self._hidden):
            self._scratch = tempfile.TemporaryDirectory(prefix="toolhall-", ignore_cleanup_errors=True)
        return environment if self._scratch is None else environment | {"TMPDIR": self._scratch.name}

    def _warn(self, missing: tuple[str, ...]) -> None:
        """Once for each restriction that this kernel does not have."""
        for each in missing:
            if each not in self._warned:
                self._warned.add(each)
                _log.warning("an isolated tool is confined less than it could be: %s", each)

    def _trim(self) -> None:
        while self._idle and len(self._idle) + len(self._busy) > self._size:
            self._retire(self._idle.pop(0)[1])

    def _retire(self, child: Child) -> None:
        """End a worker that is idle: it has time to leave its toolkits."""
        child.hang_up()
        self._dying.add(child)
        with contextlib.suppress(RuntimeError):  # no loop: close() does it
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, child.kill)
        self._bury()

    def _discard(self, child: Child) -> None:
        self._busy.discard(child)
        self._end(child)

    def _end(self, child: Child) -> None:
        child.kill()
        self._dying.add(child)
        self._bury()

    def _bury(self) -> None:
        """Nobody waits for a killed process; it is looked after until it is gone."""
        self._dying = {child for child in self._dying if not child.buried()}
        if self._dying:
            with contextlib.suppress(RuntimeError):  # no loop: close() does it
                asyncio.get_running_loop().call_later(_BURY_SECONDS, self._bury)
