"""Replicas are asked how they are; those that do not answer get no calls while another is there."""

import asyncio

import pytest

from tests.unit.parts import Clock
from tests.unit.runners.hub.lines import HEALTHY, Answering, eventually, joined, lost, pools_of
from tests.unit.toolserver.calling import desk_of
from tests.unit.toolserver.tools import ExampleTool
from toolhall import Toolkit, tool
from toolhall.dialects.hub.messages import CoreRequest
from toolhall.dialects.hub.remote import Told, read_order
from toolhall.model.errors import Unavailable
from toolhall.model.json import JsonObject
from toolhall.runners.checkup import CHECK_SECONDS
from toolhall.runners.hub.circuit import MOST_FAILURES
from toolhall.runners.hub.line import Lost
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.probing import PATIENCE_SECONDS, Probing
from toolhall.runners.hub.replica import Replica
from toolhall.runners.hub.socket_line import MOST_RUNNING, CalledSocket
from toolhall.toolserver.desk import Desk

KIT = "Kit", "1.0.0"


def house(*lines: Answering, listens: bool = True) -> tuple[Pools, list[Replica]]:
    clock = Clock()
    replicas = [Replica(joined(str(number), listens=listens), line, clock) for number, line in enumerate(lines)]
    return pools_of(clock, *replicas), replicas


def probing(pools: Pools) -> Probing:
    return Probing(pools, every=0, patience=0.01)


async def test_everybody_is_asked_in_the_hubs_words() -> None:
    lines = [Answering() for _ in range(200)]
    pools, _ = house(*lines)
    await probing(pools).once()
    assert all(len(line.asked) == 1 for line in lines)
    asked = [line.asked[0] for line in lines]
    assert {each["method"] for each in asked} == {"health_check"}
    assert len({each["id"] for each in asked}) == 200


async def test_who_does_not_answer_is_suspect_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    silent, broken, well = Answering(), Answering(), Answering()
    silent.health, broken.health = None, lost(delivered=False)
    pools, replicas = house(silent, broken, well)
    await probing(pools).once()
    await probing(pools).once()
    assert [replica.suspect for replica in replicas] == [True, True, False]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2  # once for each, however often
    assert pools.states() == {"servers": "degraded"}
    silent.health = broken.health = HEALTHY
    await probing(pools).once()
    assert [replica.suspect for replica in replicas] == [False] * 3


@pytest.mark.parametrize(
    "answer",
    [{}, {"result": None}, {"result": []}, {"result": {"status": "splendid"}}, {"result": {"status": {}}}],
)
async def test_what_is_no_answer_counts_as_none(answer: JsonObject) -> None:
    line = Answering()
    line.health = answer
    pools, (replica,) = house(line)
    await probing(pools).once()
    assert replica.suspect


@pytest.mark.parametrize("components", [None, [], {"tools": []}, {"tools": {"Else": "unhealthy"}}])
async def test_it_may_say_that_it_is_unwell_without_saying_which_toolkit(components: object) -> None:
    line = Answering()
    line.health = {"result": {"status": "unhealthy", "components": components}}
    pools, (replica,) = house(line)
    await probing(pools).once()
    assert replica.unwell == {"Kit"}
    assert not replica.suspect


async def test_probes_that_fail_open_the_circuit_and_a_good_one_lets_it_be_tried() -> None:
    line = Answering()
    line.health = None
    pools, (replica,) = house(line)
    for _ in range(MOST_FAILURES):
        await probing(pools).once()
    assert not replica.circuit.takes()
    line.health = HEALTHY
    await probing(pools).once()
    assert replica.circuit.state == "half-open"
    assert pools.pick(*KIT) is replica


# --- over a socket ---------------------------------------------------------------------------------------------------


class Kit(Toolkit, version="1.0.0"):
    """Has nothing to say of its health."""

    @tool
    async def pick(self) -> None: ...


def socket_to(desk: Desk) -> CalledSocket:
    """A socket at whose other end this desk sits, as far as the hall's own questions go."""

    async def send(body: bytes) -> None:
        order = read_order(body)
        if isinstance(order, CoreRequest):
            socket.heard((await desk.manage(order)).body)

    socket = CalledSocket(send)
    return socket


async def test_over_a_socket_one_sick_toolkit_switches_off_no_other() -> None:
    async with desk_of(Kit, example := ExampleTool()) as counter:
        example.health = {"status": "unhealthy"}
        clock = Clock()
        kits = "Kit@1.0.0", "example-tool@1.0.0"
        replica = Replica(joined("one", *kits, listens=False), socket_to(counter.desk).line("one"), clock)
        pools = pools_of(clock, replica)
        await Probing(pools).once()
        replica.beats("unhealthy", clock.now)  # which is all that a heartbeat says
        assert pools.pick(*KIT) is replica
        with pytest.raises(Unavailable, match="say that they cannot run it"):
            pools.pick("example-tool", "1.0.0")


async def test_over_a_socket_one_that_lost_a_call_is_suspect_until_it_answers() -> None:
    line = Answering()
    pools, (replica,) = house(line, listens=False)
    turn = replica.begin()
    turn.was_lost()
    turn.end()
    replica.beats("healthy", 0.0)  # somebody is there, which does not say that calls get through
    assert replica.suspect
    await probing(pools).once()
    assert not replica.suspect


async def test_a_socket_that_is_full_of_calls_has_room_for_the_question() -> None:
    async def deaf(report: Told) -> None: ...

    async with desk_of(Kit) as counter:
        socket = socket_to(counter.desk)
        line = socket.line("one")
        replica = Replica(joined(listens=False), line, Clock())
        calls = [asyncio.ensure_future(line.call(b"{}", str(number), deaf)) for number in range(MOST_RUNNING)]
        await eventually(lambda: socket.running == MOST_RUNNING)
        replica.mute = True
        await Probing(pools_of(Clock(), replica)).once()
        assert not replica.suspect
        socket.closed()
        await asyncio.wait(calls)
        assert all(isinstance(call.exception(), Lost) for call in calls)


# --- again and again -------------------------------------------------------------------------------------------------


def test_a_tool_server_says_which_of_its_tools_hangs_before_the_hall_gives_it_up() -> None:
    assert CHECK_SECONDS + 0.5 <= PATIENCE_SECONDS


def test_it_is_closed_after_its_loop_too() -> None:
    watch, loop = Probing(house()[0], every=60), asyncio.new_event_loop()

    async def begin() -> None:
        watch.watch()
        await asyncio.sleep(0)  # now it waits for the next time

    loop.run_until_complete(begin())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    watch.close()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # its loop is gone


async def test_it_goes_on_until_it_is_closed_whatever_happens() -> None:
    line = Answering()
    line.health = ValueError("a fault of ours")
    pools, (replica,) = house(line)
    watch = probing(pools)
    watch.watch()
    await eventually(lambda: replica.suspect and len(line.asked) > 2)
    line.health = None
    replica.mute = False
    await eventually(lambda: replica.suspect)
    line.health = HEALTHY
    await eventually(lambda: not replica.suspect)
    watch.close()
    watch.close()
