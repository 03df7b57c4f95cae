"""Tool servers that are killed, stand still, or are cut off under load: every call has one true answer, and all heals."""

import asyncio
import signal
from pathlib import Path
from random import Random

import pytest

from tests.faults.flaky import Flaky
from tests.faults.tool_servers.load import BESIDE, EVERY_WAY, Answer
from tests.faults.tool_servers.oracle import failed, undisturbed
from tests.faults.tool_servers.processes import HERE, KITS, Kit, free_port, site
from tests.faults.tool_servers.trial import (
    PY_HTTP,
    PY_SOCKET,
    SEATS,
    TS_HTTP,
    TS_SOCKET,
    Seat,
    Trial,
    trial,
)
from tests.typescript import project
from toolhall.runners.hub.leases import EXPIRES_SECONDS

CALLERS = len(EVERY_WAY)  # of each toolkit
NOT_KNOWN, LATE = "is not known", "did not finish in time"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool server in TypeScript, ready to run."""
    return project(tmp_path_factory.mktemp("typescript") / "ledger", HERE / "ledger.ts") / "ledger.js"


def other(kit: Kit) -> Kit:
    """The toolkit that nothing happens to."""
    (found,) = {*KITS} - {kit}
    return found


def texts(answers: list[Answer], tool: str) -> set[str]:
    """How calls of a tool failed."""
    return {str(answer.said.what) for answer in failed(answers) if answer.tool == tool and answer.said is not None}


@pytest.mark.parametrize("kit", KITS)
async def test_killed(tmp_path: Path, script: Path, kit: Kit) -> None:
    """What ran there is lost, and nothing else; the next one takes its place."""
    seats = [seat for seat in SEATS if seat.kit == kit]
    async with site(tmp_path, script) as hall, trial(hall) as on_trial:
        for seat in seats:
            on_trial.replicas[seat].kill()
            await on_trial.start(seat)
            await on_trial.all_called()
        # Over HTTP it is not known to be gone for good before its lease has run out.
        await on_trial.healthy(EXPIRES_SECONDS + 5)
    answers = on_trial.load.answers
    assert len(failed(answers)) <= len(seats) * CALLERS
    undisturbed(answers, BESIDE)
    undisturbed(answers, other(kit))


async def stopped(on_trial: Trial, seconds: float, *seats: Seat) -> None:
    """These stand still for a while, and then go on as if nothing had been."""
    for seat in seats:
        on_trial.replicas[seat].send(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    for seat in seats:
        on_trial.replicas[seat].send(signal.SIGCONT)
    await on_trial.healed()


async def test_stands_still(tmp_path: Path, script: Path) -> None:
    """For less than a lease: what has time waits, what has none is late, and nothing is lost."""
    async with site(tmp_path, script) as hall, trial(hall) as on_trial:
        await stopped(on_trial, 6.0, PY_HTTP, TS_SOCKET)
    answers = on_trial.load.answers
    assert len(failed(answers)) <= 2 * CALLERS
    assert not texts(answers, "keep")
    undisturbed(answers, BESIDE)


async def test_stands_still_until_its_lease_runs_out(tmp_path: Path, script: Path) -> None:
    """What has more time than the lease is lost with it; when it goes on, it joins again."""
    async with site(tmp_path, script) as hall, trial(hall) as on_trial:
        await stopped(on_trial, EXPIRES_SECONDS + 5, TS_HTTP, PY_SOCKET)
    answers = on_trial.load.answers
    assert len(failed(answers)) <= 2 * CALLERS
    assert all(NOT_KNOWN in text for text in texts(answers, "keep"))
    undisturbed(answers, BESIDE)


async def harmed(on_trial: Trial, proxy: Flaky, seed: int) -> None:
    """All the harm that a network does, one after the other, in an order of its own."""
    chance = Random(seed)
    ways = [proxy.cut, proxy.stall, proxy.half_close, lambda: proxy.stall("up"), lambda: proxy.stall("down")]
    chance.shuffle(ways)
    for harm in ways:
        harm()
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        proxy.heal()
        await on_trial.healed()


@pytest.mark.parametrize(("kit", "seed"), [("PyLedger", 1), ("TsLedger", 2)])
async def test_cut_off_from_the_hall(tmp_path: Path, script: Path, kit: Kit, seed: int) -> None:
    """The hall cannot reach it, though it says that it is well."""
    port = free_port()
    async with site(tmp_path, script) as hall, Flaky(port, seed) as proxy:
        there = Seat(kit, ("--port", str(port), "--advertise", f"http://127.0.0.1:{proxy.port}"))
        others = [seat for seat in SEATS if seat not in (PY_HTTP, TS_HTTP) or seat.kit != kit]
        async with trial(hall, [*others, there]) as on_trial:
            await harmed(on_trial, proxy, seed)
    undisturbed(on_trial.load.answers, BESIDE)
    undisturbed(on_trial.load.answers, other(kit))


@pytest.mark.parametrize(("kit", "seed"), [("TsLedger", 3), ("PyLedger", 4)])
async def test_cut_off_with_its_socket(tmp_path: Path, script: Path, kit: Kit, seed: int) -> None:
    """It cannot reach the hall, and calls come over no other way."""
    async with site(tmp_path, script) as hall, Flaky(hall.port, seed) as proxy:
        there = Seat(kit, ("--socket",), proxy.port)
        others = [seat for seat in SEATS if seat not in (PY_SOCKET, TS_SOCKET) or seat.kit != kit]
        async with trial(hall, [*others, there]) as on_trial:
            await harmed(on_trial, proxy, seed)
    undisturbed(on_trial.load.answers, BESIDE)
    undisturbed(on_trial.load.answers, other(kit))
