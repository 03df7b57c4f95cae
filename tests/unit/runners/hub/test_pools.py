"""Which replica gets a call, what is said where none does, and how servers and toolkits are."""

from collections import Counter
from random import Random

import pytest

from tests.unit.parts import Clock
from tests.unit.runners.hub.lines import Answering, joined, pools_of
from toolhall.model.errors import Unavailable
from toolhall.runners.hub.circuit import MOST_FAILURES
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.replica import Replica

KIT = "Kit", "1.0.0"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def replica_of(clock: Clock, name: str, *kits: str, server: str = "servers", running: int = 0) -> Replica:
    replica = Replica(joined(name, *kits, server=server), Answering(), clock)
    for _ in range(running):
        replica.begin()
    return replica


def broken(replica: Replica) -> Replica:
    for _ in range(MOST_FAILURES):
        replica.circuit.failed()
    return replica


def test_the_one_with_the_least_to_do_gets_the_call(clock: Clock) -> None:
    busy, idle, busier = (replica_of(clock, str(running), running=running) for running in (2, 1, 3))
    pools = pools_of(clock, busy, idle, busier)
    assert [pools.pick(*KIT) for _ in range(9)] == [idle] * 9
    turn = idle.begin()
    assert {pools.pick(*KIT) for _ in range(99)} == {idle, busy}
    turn.end()
    assert pools.pick(*KIT) is idle


def test_ties_are_broken_evenly(clock: Clock) -> None:
    pools = pools_of(clock, *(replica_of(clock, str(number)) for number in range(4)))
    picked = Counter(pools.pick(*KIT).id for _ in range(4_000))
    assert len(picked) == 4
    assert all(850 < times < 1_150 for times in picked.values())


def test_versions_stand_side_by_side(clock: Clock) -> None:
    old = replica_of(clock, "old", "Kit@1.0.0", running=5)
    new = replica_of(clock, "new", "Kit@2.0.0")
    both = replica_of(clock, "both", "Kit@1.0.0", "Kit@2.0.0", running=9)
    pools = pools_of(clock, old, new, both)
    assert pools.pick("Kit", "1.0.0") is old
    assert pools.pick("Kit", "2.0.0") is new
    pools.remove(new)
    assert pools.pick("Kit", "2.0.0") is both
    pools.remove(both)
    with pytest.raises(Unavailable, match="no tool server runs Kit now"):
        pools.pick("Kit", "2.0.0")
    assert pools.knows("Kit", "2.0.0")
    assert not pools.knows("Kit", "3.0.0")


def test_a_suspect_one_gets_a_call_only_where_there_is_no_other(clock: Clock) -> None:
    mute, late, well = (
        replica_of(clock, "mute"),
        replica_of(clock, "late", running=1),
        replica_of(clock, "w", running=9),
    )
    mute.mute = late.late = True
    pools = pools_of(clock, mute, late, well)
    assert pools.pick(*KIT) is well
    assert pools.pick(*KIT, without=(well,)) is mute
    assert pools.pick(*KIT, without=(well, mute)) is late


def test_one_that_drains_is_unwell_or_open_gets_none(clock: Clock) -> None:
    drains, unwell, opened = replica_of(clock, "drains"), replica_of(clock, "unwell"), replica_of(clock, "open")
    drains.draining = True
    unwell.beats("unhealthy", clock.now)
    broken(opened)
    pools = pools_of(clock, drains, unwell, opened)
    with pytest.raises(Unavailable):
        pools.pick(*KIT)
    well = replica_of(clock, "well", running=9)
    pools.add(well)
    assert pools.pick(*KIT) is well


def test_while_all_circuits_are_open_the_message_says_for_how_long(clock: Clock) -> None:
    first, second = broken(replica_of(clock, "first")), replica_of(clock, "second")
    clock.now += 10
    broken(second)
    pools = pools_of(clock, first, second)
    with pytest.raises(Unavailable, match="try again in 20 seconds"):
        pools.pick(*KIT)
    clock.now += 20
    assert pools.pick(*KIT) is first


def test_one_toolkit_that_is_unwell_costs_the_others_of_its_server_nothing(clock: Clock) -> None:
    replica = replica_of(clock, "one", "Kit@1.0.0", "Other@1.0.0")
    pools = pools_of(clock, replica)
    replica.answered("unhealthy", {"Other": "unhealthy", "Kit": "healthy"})
    replica.beats("unhealthy", clock.now)  # says less than the probe did
    assert pools.pick(*KIT) is replica
    with pytest.raises(Unavailable, match="say that they cannot run it"):
        pools.pick("Other", "1.0.0")
    assert pools.toolkit_states() == {"Kit": "healthy", "Other": "unhealthy"}
    assert pools.states() == {"servers": "degraded"}
    replica.answered("healthy", {})
    assert pools.pick("Other", "1.0.0") is replica


def test_servers_are_as_their_replicas_are(clock: Clock) -> None:
    one, two, three = (replica_of(clock, name, f"{name}@1", server=name[0]) for name in ("a1", "a2", "b"))
    pools = pools_of(clock, one, two, three)
    assert pools.states() == {"a": "healthy", "b": "healthy"}
    two.missed()
    assert pools.states() == {"a": "degraded", "b": "healthy"}
    assert pools.toolkit_states() == {"a1": "healthy", "a2": "degraded", "b": "healthy"}
    three.answered("degraded", {})
    assert pools.states()["b"] == "degraded"
    broken(three)
    assert pools.states()["b"] == "unhealthy"
    one.draining = True
    assert pools.states()["a"] == "degraded"
    two.draining = True
    assert pools.states()["a"] == "unhealthy"


def test_a_server_that_went_without_a_word_is_missed_for_a_while(clock: Clock) -> None:
    gone, left = replica_of(clock, "gone", "Gone@1", server="gone"), replica_of(clock, "left", "Left@1", server="left")
    pools = pools_of(clock, gone, left)
    pools.remove(gone, missed=True)
    pools.remove(left)
    assert pools.states() == {"gone": "unhealthy"}
    assert pools.toolkit_states() == {"Gone": "unhealthy"}
    pools.add(gone)
    assert pools.states() == {"gone": "healthy"}
    pools.remove(gone, missed=True)
    clock.now += 3_601
    assert pools.states() == pools.toolkit_states() == {}


def test_what_is_gone_leaves_nothing_behind(clock: Clock) -> None:
    class Shown(Pools):
        @property
        def size(self) -> int:
            return len(self._pools)

    pools = Shown(clock, Random(7))
    for number in range(3):
        replica = replica_of(clock, "one", f"Kit@{number}")
        pools.add(replica)
        pools.remove(replica)
    assert pools.size == 0


def test_figures_say_what_is_there(clock: Clock) -> None:
    pools = pools_of(clock, replica_of(clock, "a", running=2), replica_of(clock, "b", running=1))
    pools.lost, pools.tried_again = 5, 6
    assert figures(pools) == [2, 3, 5, 6]


def figures(pools: Pools) -> list[float]:
    return [gauge.read() for gauge in pools.figures()]
