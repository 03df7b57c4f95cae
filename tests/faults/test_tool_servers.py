"""Tool servers are killed, stand still and are cut off under load: every call has one true answer, and all heals."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tests.faults.flaky_proxy import WAYS, Fault, Flaky, Kind
from tests.faults.tool_servers.load import BESIDE, EVERY_WAY, Answer
from tests.faults.tool_servers.oracle import failed, undisturbed
from tests.faults.tool_servers.processes import HERE, KITS, Kit, Site, free_port, site
from tests.faults.tool_servers.trial import PY_HTTP, PY_SOCKET, SEATS, TS_HTTP, TS_SOCKET, Seat, Trial, trial
from tests.typescript import project
from toolhall.execution.remote.leases import EXPIRY_SECONDS

CALLERS = len(EVERY_WAY)  # of each toolkit


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool server in TypeScript, ready to run."""
    return project(tmp_path_factory.mktemp("typescript") / "ledger", HERE / "ledger.ts") / "ledger.js"


@asynccontextmanager
async def only(on_trial: Trial, kit: Kit) -> AsyncGenerator[None]:
    """What happens in this block happens to this toolkit, and nobody who calls the other one notices."""
    began = time.monotonic()
    yield
    (other,) = {*KITS} - {kit}
    await asyncio.to_thread(on_trial.machine.update)
    undisturbed(on_trial.load.answers, other, on_trial.machine.late, began)


async def test_killed(tmp_path: Path, script: Path) -> None:
    """What ran there is lost, and nothing else; another one takes its place."""
    async with site(tmp_path, script) as hall, trial(hall) as on_trial:
        for seat in SEATS:
            async with only(on_trial, seat.kit):
                on_trial.replicas[seat].kill()
                await on_trial.start(seat)
                await on_trial.all_called()
        # Only when its lease has run out it is known that the old one will not be back.
        began = time.monotonic()
        await on_trial.healthy()
        healed = time.monotonic()
    assert healed - began < EXPIRY_SECONDS + on_trial.machine.late(1.0, began, healed)
    assert len(failed(on_trial.load.answers)) <= len(SEATS) * CALLERS
    undisturbed(on_trial.load.answers, BESIDE, on_trial.machine.late)


async def stood_still(on_trial: Trial, seconds: float, *seats: Seat) -> list[Answer]:
    """Stop these for a while, and let them go on as if nothing had been; the calls that failed."""
    before = len(on_trial.load.answers)
    for seat in seats:
        on_trial.replicas[seat].send(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    for seat in seats:
        on_trial.replicas[seat].send(signal.SIGCONT)
    await on_trial.healed()
    return failed(on_trial.load.answers[before:])


def texts(answers: list[Answer]) -> dict[str, set[str]]:
    """What was said of calls, by their tool."""
    return {
        tool: {str(answer.said.what) for answer in answers if answer.tool == tool and answer.said is not None}
        for tool in ("write", "keep")
    }


async def test_stands_still(tmp_path: Path, script: Path) -> None:
    """What has the time waits for it, unless its lease runs out; what has not is late, and nobody waits for that."""
    async with site(tmp_path, script) as hall, trial(hall) as on_trial:
        shortly = await stood_still(on_trial, 6.0, PY_HTTP, TS_SOCKET)
        for_long = await stood_still(on_trial, EXPIRY_SECONDS + 5, TS_HTTP, PY_SOCKET)
    assert not texts(shortly)["keep"]
    assert all("did not finish within 5 seconds" in text for text in texts(shortly)["write"])
    assert all("is not known" in text for text in texts(for_long)["keep"])
    assert max(len(shortly), len(for_long)) <= 2 * CALLERS
    undisturbed(on_trial.load.answers, BESIDE, on_trial.machine.late)


async def harmed(on_trial: Trial, proxy: Flaky, chance: Random) -> None:
    """All the harm that a network does, one after the other; at last what ends connections somewhere in a message."""
    for harm in chance.sample([proxy.cut, proxy.stall, proxy.half_close], 3):
        harm()
        await asyncio.sleep(chance.uniform(0.2, 3.0))
        proxy.heal()
        await on_trial.healed()
    kinds: tuple[Kind, ...] = ("reset", "half_close", "close")
    proxy.plan(*(Fault(kind, way, chance.randrange(10_000)) for kind in kinds for way in WAYS), share=0.7)
    renew(proxy)
    await asyncio.sleep(2.0)
    proxy.plan()
    renew(proxy)
    await on_trial.healed()


def renew(proxy: Flaky) -> None:
    """Every connection has ended, and new ones can be made."""
    proxy.cut()
    proxy.heal()


async def over_http(kit: Kit, _: Site, stack: AsyncExitStack, seed: int) -> tuple[Seat, Flaky]:
    """The hall cannot reach it, though it says that it is well."""
    port = free_port()
    proxy = await stack.enter_async_context(Flaky(port, seed))
    return Seat(kit, ("--port", str(port), "--advertise", f"http://127.0.0.1:{proxy.port}")), proxy


async def over_socket(kit: Kit, hall: Site, stack: AsyncExitStack, seed: int) -> tuple[Seat, Flaky]:
    """It cannot reach the hall, and calls come no other way."""
    proxy = await stack.enter_async_context(Flaky(hall.port, seed))
    return Seat(kit, ("--socket",), proxy.port), proxy


BEHIND = {"http": (over_http, (PY_SOCKET, TS_SOCKET)), "socket": (over_socket, (PY_HTTP, TS_HTTP))}


@pytest.mark.parametrize(("way", "seed"), [("http", 1), ("socket", 2)])
async def test_cut_off(tmp_path: Path, script: Path, way: str, seed: int) -> None:
    chance, (behind, others) = Random(seed), BEHIND[way]
    async with site(tmp_path, script) as hall, AsyncExitStack() as stack:
        proxies: dict[Kit, tuple[Seat, Flaky]] = {kit: await behind(kit, hall, stack, seed) for kit in KITS}
        async with trial(hall, [*others, *(seat for seat, _ in proxies.values())]) as on_trial:
            for kit, (_, proxy) in proxies.items():
                async with only(on_trial, kit):
                    await harmed(on_trial, proxy, chance)
    undisturbed(on_trial.load.answers, BESIDE, on_trial.machine.late)
