"""Tool servers are killed, stand still and are cut off under load: every call has one true answer, and all heals."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tests.faults.flaky_proxy import WAYS, Fault, FlakyProxy, Kind
from tests.faults.tool_servers.load import BESIDE, EVERY_WAY, Answer
from tests.faults.tool_servers.oracle import assert_undisturbed, failed
from tests.faults.tool_servers.processes import HERE, KITS, Kit, Site, free_port, site
from tests.faults.tool_servers.replicas_under_load import (
    PY_HTTP,
    PY_SOCKET,
    SLOTS,
    TS_HTTP,
    TS_SOCKET,
    LoadTest,
    ReplicaSlot,
    load_test,
)
from tests.typescript import project
from toolhall.execution.remote.leases import EXPIRY_SECONDS

CALLERS = len(EVERY_WAY)  # of each toolkit


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool server in TypeScript, ready to run."""
    return project(tmp_path_factory.mktemp("typescript") / "ledger", HERE / "ledger.ts") / "ledger.js"


@asynccontextmanager
async def disturbs_only(running: LoadTest, kit: Kit) -> AsyncGenerator[None]:
    """What happens in this block happens to this toolkit, and nobody who calls the other one notices."""
    began = time.monotonic()
    yield
    (other,) = {*KITS} - {kit}
    await asyncio.to_thread(running.machine.update)
    assert_undisturbed(running.load.answers, other, running.machine.late, began)


async def test_tool_server_killed_loses_only_its_running_calls_and_is_replaced(tmp_path: Path, script: Path) -> None:
    """What ran there is lost, and nothing else; another one takes its place."""
    async with site(tmp_path, script) as hall, load_test(hall) as running:
        for slot in SLOTS:
            async with disturbs_only(running, slot.kit):
                running.replicas[slot].kill()
                await running.start(slot)
                await running.all_called()
        # Only when its lease has run out it is known that the old one will not be back.
        began = time.monotonic()
        await running.healthy()
        healed = time.monotonic()
    assert healed - began < EXPIRY_SECONDS + running.machine.late(1.0, began, healed)
    assert len(failed(running.load.answers)) <= len(SLOTS) * CALLERS
    assert_undisturbed(running.load.answers, BESIDE, running.machine.late)


async def suspend_replicas(running: LoadTest, seconds: float, *slots: ReplicaSlot) -> list[Answer]:
    """Stop these for a while, and let them go on as if nothing had been; the calls that failed."""
    before = len(running.load.answers)
    for slot in slots:
        running.replicas[slot].send(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    for slot in slots:
        running.replicas[slot].send(signal.SIGCONT)
    await running.healed()
    return failed(running.load.answers[before:])


def texts(answers: list[Answer]) -> dict[str, set[str]]:
    """What was said of calls, by their tool."""
    return {
        tool: {str(answer.said.what) for answer in answers if answer.tool == tool and answer.said is not None}
        for tool in ("write", "keep")
    }


async def test_tool_server_suspended_is_waited_for_until_timeout_or_lease_expiry(tmp_path: Path, script: Path) -> None:
    """What has the time waits for it, unless its lease runs out; what has not is late, and nobody waits for that."""
    async with site(tmp_path, script) as hall, load_test(hall) as running:
        shortly = await suspend_replicas(running, 6.0, PY_HTTP, TS_SOCKET)
        for_long = await suspend_replicas(running, EXPIRY_SECONDS + 5, TS_HTTP, PY_SOCKET)
    assert not texts(shortly)["keep"]
    assert all("did not finish within 5 seconds" in text for text in texts(shortly)["write"])
    assert all("is not known" in text for text in texts(for_long)["keep"])
    assert max(len(shortly), len(for_long)) <= 2 * CALLERS
    assert_undisturbed(running.load.answers, BESIDE, running.machine.late)


async def inject_faults(running: LoadTest, proxy: FlakyProxy, chance: Random) -> None:
    """All the harm that a network does, one after the other; at last what ends connections somewhere in a message."""
    for harm in chance.sample([proxy.cut, proxy.stall, proxy.half_close], 3):
        harm()
        await asyncio.sleep(chance.uniform(0.2, 3.0))
        proxy.heal()
        await running.healed()
    kinds: tuple[Kind, ...] = ("reset", "half_close", "close")
    proxy.plan(*(Fault(kind, way, chance.randrange(10_000)) for kind in kinds for way in WAYS), share=0.7)
    reset_connections(proxy)
    await asyncio.sleep(2.0)
    proxy.plan()
    reset_connections(proxy)
    await running.healed()


def reset_connections(proxy: FlakyProxy) -> None:
    """Every connection has ended, and new ones can be made."""
    proxy.cut()
    proxy.heal()


async def over_http(kit: Kit, _: Site, stack: AsyncExitStack, seed: int) -> tuple[ReplicaSlot, FlakyProxy]:
    """The hall cannot reach it, though it says that it is well."""
    port = free_port()
    proxy = await stack.enter_async_context(FlakyProxy(port, seed))
    return ReplicaSlot(kit, ("--port", str(port), "--advertise", f"http://127.0.0.1:{proxy.port}")), proxy


async def over_socket(kit: Kit, hall: Site, stack: AsyncExitStack, seed: int) -> tuple[ReplicaSlot, FlakyProxy]:
    """It cannot reach the hall, and calls come no other way."""
    proxy = await stack.enter_async_context(FlakyProxy(hall.port, seed))
    return ReplicaSlot(kit, ("--socket",), proxy.port), proxy


PROXY_PLACES = {"http": (over_http, (PY_SOCKET, TS_SOCKET)), "socket": (over_socket, (PY_HTTP, TS_HTTP))}


@pytest.mark.parametrize(("way", "seed"), [("http", 1), ("socket", 2)])
async def test_tool_server_behind_a_faulty_network_answers_truly_and_recovers(
    tmp_path: Path, script: Path, way: str, seed: int
) -> None:
    chance, (behind, others) = Random(seed), PROXY_PLACES[way]
    async with site(tmp_path, script) as hall, AsyncExitStack() as stack:
        proxies: dict[Kit, tuple[ReplicaSlot, FlakyProxy]] = {kit: await behind(kit, hall, stack, seed) for kit in KITS}
        async with load_test(hall, [*others, *(slot for slot, _ in proxies.values())]) as running:
            for kit, (_, proxy) in proxies.items():
                async with disturbs_only(running, kit):
                    await inject_faults(running, proxy, chance)
    assert_undisturbed(running.load.answers, BESIDE, running.machine.late)
