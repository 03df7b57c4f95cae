"""Replicas are asked how they are; those that do not answer get no calls while another is there."""

import pytest

from tests.unit.parts import Clock
from tests.unit.runners.hub.lines import HEALTHY, Answering, eventually, joined, lost, pools_of
from toolhall.model.json import JsonObject
from toolhall.runners.hub.circuit import MOST_FAILURES
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.probing import Probing
from toolhall.runners.hub.replica import Replica

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


async def test_who_is_called_over_its_own_socket_is_not_asked() -> None:
    line = Answering()
    pools, _ = house(line, listens=False)
    await probing(pools).once()
    assert line.asked == []


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
