"""One trial: a hall, two tool servers in each language, callers in every dialect, and the truth at the end."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.faults.tool_servers.line import line_to
from tests.faults.tool_servers.load import Load
from tests.faults.tool_servers.oracle import judge
from tests.faults.tool_servers.processes import Kit, Process, Site, eventually
from tests.harness.lateness import Lateness, measured_lateness
from tests.harness.patience import patience


class Seat(NamedTuple):
    """A place for a replica: what it runs, and how it joins."""

    kit: Kit
    options: tuple[str, ...] = ()
    hall: int = 0  # another port than the hall's own, where there is something between the two


PY_HTTP, PY_SOCKET = Seat("PyLedger"), Seat("PyLedger", ("--socket",))
TS_HTTP, TS_SOCKET = Seat("TsLedger"), Seat("TsLedger", ("--socket",))
SEATS = (PY_HTTP, PY_SOCKET, TS_HTTP, TS_SOCKET)


class Trial:
    """The replicas that run now, by their seats, the load on them, and how late the machine is."""

    def __init__(self, site: Site, load: Load, machine: Lateness) -> None:
        self._site = site
        self.load = load
        self.machine = machine
        self.replicas: dict[Seat, Process] = {}

    async def start(self, *seats: Seat) -> None:
        """A new replica for each seat; they have joined."""
        for seat in seats:
            self.replicas[seat] = self._site.start(seat.kit, *seat.options, hall=seat.hall)
        for seat in seats:
            await self.replicas[seat].announced()

    async def all_called(self, seconds: float | None = None) -> None:
        """Every replica gets calls and runs them, from now on in so many seconds."""
        known, pids = len(self._site.effects()), {process.pid for process in self.replicas.values()}
        assert await eventually(lambda: pids <= {effect.pid for effect in self._site.effects()[known:]}, seconds), (
            f"not all of {pids} run calls: {self.logs()}"
        )

    async def healthy(self, seconds: float | None = None) -> None:
        """The hall says that all is well, in so many seconds."""
        deadline = time.monotonic() + (patience() if seconds is None else seconds)
        async with line_to(self._site.port) as line:
            while b'"status":"healthy"' not in (said := await line.request("GET", "/health", b"", {})).body[:20]:
                assert time.monotonic() < deadline, said.body
                await asyncio.sleep(0.05)

    async def healed(self) -> None:
        """Both."""
        deadline = time.monotonic() + patience()
        await self.healthy()
        await self.all_called(deadline - time.monotonic())

    def logs(self) -> str:
        """What all of them have written."""
        return "\n".join(process.log for process in self.replicas.values())


@asynccontextmanager
async def trial(site: Site, seats: Sequence[Seat] = SEATS) -> AsyncGenerator[Trial]:
    """All runs; at the end the tool servers end in order, and what was answered is held against what was done."""
    load = Load(site.port)
    with measured_lateness() as machine:
        on_trial = Trial(site, load, machine)
        await on_trial.start(*seats)
        async with load:
            await on_trial.all_called()
            yield on_trial
        statuses = await site.stopped(*on_trial.replicas.values())
    assert not any(statuses), on_trial.logs()
    judge(load.answers, site.effects(), machine.late)
