"""Replicas are asked how they are; those that do not answer get no calls while another is there."""

import asyncio

import pytest

from tests.unit.builders import Clock
from tests.unit.execution.remote.fake_transports import HEALTHY, FakeTransport, eventually, lost, pools_of, replica_info
from tests.unit.toolserver.handler_harness import open_handler
from tests.unit.toolserver.tools import ExampleTool
from toolhall import Toolkit, tool
from toolhall.dialects.hub.call_messages import CallEvent, read_hub_message
from toolhall.dialects.hub.messages import HubRequest
from toolhall.egress.exchange import ExchangeLost
from toolhall.execution.health_checks import CHECK_SECONDS
from toolhall.execution.remote.replica import FAILURE_THRESHOLD, Replica
from toolhall.execution.remote.replica_pools import PROBE_TIMEOUT_SECONDS, HealthProber, ReplicaPools
from toolhall.execution.remote.websocket_transport import MAX_RUNNING_CALLS, PeerSocket
from toolhall.model.errors import Unavailable
from toolhall.model.json import JsonObject
from toolhall.toolserver.handler import CallHandler

KIT = "Kit", "1.0.0"


def pools_with(*lines: FakeTransport, listens: bool = True) -> tuple[ReplicaPools, list[Replica]]:
    clock = Clock()
    replicas = [Replica(replica_info(str(number), listens=listens), line, clock) for number, line in enumerate(lines)]
    return pools_of(clock, *replicas), replicas


def prober_for(pools: ReplicaPools) -> HealthProber:
    return HealthProber(pools, interval=0, timeout=0.01)


async def test_health_prober_sends_health_check_to_every_replica() -> None:
    lines = [FakeTransport() for _ in range(200)]
    pools, _ = pools_with(*lines)
    await prober_for(pools).probe_all()
    assert all(len(line.asked) == 1 for line in lines)
    asked = [line.asked[0] for line in lines]
    assert {each["method"] for each in asked} == {"health_check"}
    assert len({each["id"] for each in asked}) == 200


async def test_health_prober_silent_replica_is_suspected_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    silent, broken, well = FakeTransport(), FakeTransport(), FakeTransport()
    silent.health, broken.health = None, lost(delivered=False)
    pools, replicas = pools_with(silent, broken, well)
    await prober_for(pools).probe_all()
    await prober_for(pools).probe_all()
    assert [replica.is_suspected for replica in replicas] == [True, True, False]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2  # once for each, however often
    assert pools.server_states() == {"servers": "degraded"}
    silent.health = broken.health = HEALTHY
    await prober_for(pools).probe_all()
    assert [replica.is_suspected for replica in replicas] == [False] * 3


@pytest.mark.parametrize(
    "answer",
    [{}, {"result": None}, {"result": []}, {"result": {"status": "splendid"}}, {"result": {"status": {}}}],
)
async def test_health_prober_invalid_response_counts_as_failure(answer: JsonObject) -> None:
    line = FakeTransport()
    line.health = answer
    pools, (replica,) = pools_with(line)
    await prober_for(pools).probe_all()
    assert replica.is_suspected


@pytest.mark.parametrize("components", [None, [], {"tools": []}, {"tools": {"Else": "unhealthy"}}])
async def test_health_prober_unhealthy_without_toolkits_affects_all(components: object) -> None:
    line = FakeTransport()
    line.health = {"result": {"status": "unhealthy", "components": components}}
    pools, (replica,) = pools_with(line)
    await prober_for(pools).probe_all()
    assert replica.unhealthy_toolkits == {"Kit"}
    assert not replica.is_suspected


async def test_health_prober_failures_open_circuit_and_success_allows_trial() -> None:
    line = FakeTransport()
    line.health = None
    pools, (replica,) = pools_with(line)
    for _ in range(FAILURE_THRESHOLD):
        await prober_for(pools).probe_all()
    assert not replica.circuit.allows_call()
    line.health = HEALTHY
    await prober_for(pools).probe_all()
    assert replica.circuit.state == "half-open"
    assert pools.pick(*KIT) is replica


# --- over a socket ---------------------------------------------------------------------------------------------------


class Kit(Toolkit, version="1.0.0"):
    """Has nothing to say of its health."""

    @tool
    async def pick(self) -> None: ...


def socket_to(handler: CallHandler) -> PeerSocket:
    """A peer socket whose requests this call handler answers."""

    async def send(body: bytes) -> None:
        order = read_hub_message(body)
        if isinstance(order, HubRequest):
            socket.handle_frame((await handler.handle_request(order)).body)

    socket = PeerSocket(send)
    return socket


async def test_health_prober_socket_unhealthy_toolkit_affects_no_other() -> None:
    async with open_handler(Kit, example := ExampleTool()) as counter:
        example.health = {"status": "unhealthy"}
        clock = Clock()
        kits = "Kit@1.0.0", "example-tool@1.0.0"
        replica = Replica(
            replica_info("one", *kits, listens=False), socket_to(counter.handler).transport_for("one"), clock
        )
        pools = pools_of(clock, replica)
        await HealthProber(pools).probe_all()
        replica.record_heartbeat("unhealthy", clock.now)  # which is all that a heartbeat says
        assert pools.pick(*KIT) is replica
        with pytest.raises(Unavailable, match="say that they cannot run it"):
            pools.pick("example-tool", "1.0.0")


async def test_health_prober_socket_lost_call_is_suspected_until_answer() -> None:
    line = FakeTransport()
    pools, (replica,) = pools_with(line, listens=False)
    turn = replica.begin_call()
    turn.record_loss()
    turn.end()
    replica.record_heartbeat("healthy", 0.0)  # somebody is there, which does not say that calls get through
    assert replica.is_suspected
    await prober_for(pools).probe_all()
    assert not replica.is_suspected


async def test_health_prober_full_socket_still_carries_probe() -> None:
    async def deaf(report: CallEvent) -> None: ...

    async with open_handler(Kit) as counter:
        socket = socket_to(counter.handler)
        line = socket.transport_for("one")
        replica = Replica(replica_info(listens=False), line, Clock())
        calls = [asyncio.ensure_future(line.call(b"{}", str(number), deaf)) for number in range(MAX_RUNNING_CALLS)]
        await eventually(lambda: socket.running == MAX_RUNNING_CALLS)
        replica.unresponsive = True
        await HealthProber(pools_of(Clock(), replica)).probe_all()
        assert not replica.is_suspected
        socket.on_closed()
        await asyncio.wait(calls)
        assert all(isinstance(call.exception(), ExchangeLost) for call in calls)


# --- again and again -------------------------------------------------------------------------------------------------


def test_health_prober_hanging_check_is_reported_before_timeout() -> None:
    assert CHECK_SECONDS + 0.5 <= PROBE_TIMEOUT_SECONDS


def test_health_prober_close_after_loop_is_harmless() -> None:
    watch, loop = HealthProber(pools_with()[0], interval=60), asyncio.new_event_loop()

    async def begin() -> None:
        watch.start()
        await asyncio.sleep(0)  # now it waits for the next time

    loop.run_until_complete(begin())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    watch.close()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # its loop is gone


async def test_health_prober_runs_until_closed_despite_errors() -> None:
    line = FakeTransport()
    line.health = ValueError("a fault of ours")
    pools, (replica,) = pools_with(line)
    watch = prober_for(pools)
    watch.start()
    await eventually(lambda: replica.is_suspected and len(line.asked) > 2)
    line.health = None
    replica.unresponsive = False
    await eventually(lambda: replica.is_suspected)
    line.health = HEALTHY
    await eventually(lambda: not replica.is_suspected)
    watch.close()
    watch.close()
