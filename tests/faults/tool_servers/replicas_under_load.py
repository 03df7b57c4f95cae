"""A load test: a hall, two tool servers in each language, callers in every dialect, and a check of all answers."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.faults.tool_servers.line import line_to
from tests.faults.tool_servers.load import Load
from tests.faults.tool_servers.oracle import assert_answers_match_effects
from tests.faults.tool_servers.processes import Kit, Process, Site, eventually
from tests.harness.lateness import Lateness, measured_lateness
from tests.harness.patience import patience


class ReplicaSlot(NamedTuple):
    """A replica to run: its toolkit, and how it joins."""

    kit: Kit
    options: tuple[str, ...] = ()
    hall: int = 0  # another port than the hall's own, where there is something between the two


PY_HTTP, PY_SOCKET = ReplicaSlot("PyLedger"), ReplicaSlot("PyLedger", ("--socket",))
TS_HTTP, TS_SOCKET = ReplicaSlot("TsLedger"), ReplicaSlot("TsLedger", ("--socket",))
SLOTS = (PY_HTTP, PY_SOCKET, TS_HTTP, TS_SOCKET)


class LoadTest:
    """The replicas that run now, by their slots, the load on them, and how late the machine is."""

    def __init__(self, site: Site, load: Load, machine: Lateness) -> None:
        self._site = site
        self.load = load
        self.machine = machine
        self.replicas: dict[ReplicaSlot, Process] = {}

    async def start(self, *slots: ReplicaSlot) -> None:
        """Start a new replica for each slot, and wait until they have joined."""
        for slot in slots:
            self.replicas[slot] = self._site.start(slot.kit, *slot.options, hall=slot.hall)
        for slot in slots:
            await self.replicas[slot].announced()

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
        """All replicas are healthy and get calls."""
        deadline = time.monotonic() + patience()
        await self.healthy()
        await self.all_called(deadline - time.monotonic())

    def logs(self) -> str:
        """What all of them have written."""
        return "\n".join(process.log for process in self.replicas.values())


@asynccontextmanager
async def load_test(site: Site, slots: Sequence[ReplicaSlot] = SLOTS) -> AsyncGenerator[LoadTest]:
    """All runs; at the end the tool servers end in order, and what was answered is held against what was done."""
    load = Load(site.port)
    with measured_lateness(rest=0.4) as machine:
        running = LoadTest(site, load, machine)
        await running.start(*slots)
        async with load:
            await running.all_called()
            yield running
        statuses = await site.stopped(*running.replicas.values())
    assert not any(statuses), running.logs()
    assert_answers_match_effects(load.answers, site.effects(), machine.late)
