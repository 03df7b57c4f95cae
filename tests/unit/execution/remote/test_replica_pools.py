"""Which replica gets a call, what is said where none does, and how servers and toolkits are."""

from collections import Counter
from random import Random

import pytest

from tests.unit.builders import Clock
from tests.unit.execution.remote.fake_transports import FakeTransport, pools_of, replica_info
from toolhall.dialects.error_details import retry_after_of
from toolhall.execution.remote.replica import FAILURE_THRESHOLD, Replica
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.model.errors import Unavailable

KIT = "Kit", "1.0.0"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def replica_of(clock: Clock, name: str, *kits: str, server: str = "servers", running: int = 0) -> Replica:
    replica = Replica(replica_info(name, *kits, server=server), FakeTransport(), clock)
    for _ in range(running):
        replica.begin_call()
    return replica


def broken(replica: Replica) -> Replica:
    for _ in range(FAILURE_THRESHOLD):
        replica.circuit.record_failure()
    return replica


def test_replica_pools_pick_least_loaded(clock: Clock) -> None:
    busy, idle, busier = (replica_of(clock, str(running), running=running) for running in (2, 1, 3))
    pools = pools_of(clock, busy, idle, busier)
    assert [pools.pick(*KIT) for _ in range(9)] == [idle] * 9
    turn = idle.begin_call()
    assert {pools.pick(*KIT) for _ in range(99)} == {idle, busy}
    turn.end()
    assert pools.pick(*KIT) is idle


def test_replica_pools_ties_are_random(clock: Clock) -> None:
    pools = pools_of(clock, *(replica_of(clock, str(number)) for number in range(4)))
    picked = Counter(pools.pick(*KIT).id for _ in range(4_000))
    assert len(picked) == 4
    assert all(850 < times < 1_150 for times in picked.values())


def test_replica_pools_versions_are_separate(clock: Clock) -> None:
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
    assert pools.is_known("Kit", "2.0.0")
    assert not pools.is_known("Kit", "3.0.0")


def test_replica_pools_suspected_replica_is_last_resort(clock: Clock) -> None:
    mute, late, well = (
        replica_of(clock, "mute"),
        replica_of(clock, "late", running=1),
        replica_of(clock, "w", running=9),
    )
    mute.unresponsive = late.heartbeat_late = True
    pools = pools_of(clock, mute, late, well)
    assert pools.pick(*KIT) is well
    assert pools.pick(*KIT, exclude=(well,)) is mute
    assert pools.pick(*KIT, exclude=(well, mute)) is late


def test_replica_pools_excluded_replica_gets_no_call(clock: Clock) -> None:
    drains, unwell, opened = replica_of(clock, "drains"), replica_of(clock, "unwell"), replica_of(clock, "open")
    drains.draining = True
    unwell.record_heartbeat("unhealthy", clock.now)
    broken(opened)
    pools = pools_of(clock, drains, unwell, opened)
    with pytest.raises(Unavailable):
        pools.pick(*KIT)
    well = replica_of(clock, "well", running=9)
    pools.add(well)
    assert pools.pick(*KIT) is well


def test_replica_pools_open_circuits_report_retry_after(clock: Clock) -> None:
    first, second = broken(replica_of(clock, "first")), replica_of(clock, "second")
    clock.now += 10
    broken(second)
    pools = pools_of(clock, first, second)
    with pytest.raises(Unavailable, match="try again in 20 seconds") as refused:
        pools.pick(*KIT)
    assert retry_after_of(refused.value) == 20.0
    clock.now += 20
    assert pools.pick(*KIT) is first


def test_replica_pools_unhealthy_toolkit_affects_no_other(clock: Clock) -> None:
    replica = replica_of(clock, "one", "Kit@1.0.0", "Other@1.0.0")
    pools = pools_of(clock, replica)
    replica.record_probe("unhealthy", {"Other": "unhealthy", "Kit": "healthy"})
    replica.record_heartbeat("unhealthy", clock.now)  # says less than the probe did
    assert pools.pick(*KIT) is replica
    with pytest.raises(Unavailable, match="say that they cannot run it"):
        pools.pick("Other", "1.0.0")
    assert pools.toolkit_states() == {"Kit": "healthy", "Other": "unhealthy"}
    assert pools.server_states() == {"servers": "degraded"}
    replica.record_probe("healthy", {})
    assert pools.pick("Other", "1.0.0") is replica


def test_replica_pools_server_state_follows_replicas(clock: Clock) -> None:
    one, two, three = (replica_of(clock, name, f"{name}@1", server=name[0]) for name in ("a1", "a2", "b"))
    pools = pools_of(clock, one, two, three)
    assert pools.server_states() == {"a": "healthy", "b": "healthy"}
    two.record_probe_failure()
    clock.now += 1
    assert pools.server_states() == {"a": "degraded", "b": "healthy"}
    assert pools.toolkit_states() == {"a1": "healthy", "a2": "degraded", "b": "healthy"}
    three.record_probe("degraded", {})
    assert pools.server_states()["b"] == "degraded"
    broken(three)
    clock.now += 1
    assert pools.server_states()["b"] == "unhealthy"
    one.draining = True
    clock.now += 1
    assert pools.server_states()["a"] == "degraded"
    two.draining = True
    clock.now += 1
    assert pools.server_states()["a"] == "unhealthy"


def test_replica_pools_states_are_cached_for_a_second(clock: Clock) -> None:
    class Watched(Replica):
        looks = 0

        def is_troubled(self, toolkit: str | None = None) -> bool:
            self.looks += 1
            return super().is_degraded(toolkit)

    watched = Watched(replica_info("one"), FakeTransport(), clock)
    pools = pools_of(clock, watched)
    pools.server_states()
    before = watched.looks
    for _ in range(1_000):
        assert (pools.server_states(), pools.toolkit_states()) == ({"servers": "healthy"}, {"Kit": "healthy"})
    assert watched.looks == before
    watched.record_probe_failure()
    clock.now += 1
    assert (pools.server_states(), pools.toolkit_states()) == ({"servers": "degraded"}, {"Kit": "degraded"})


def test_replica_pools_changes_invalidate_cached_states(clock: Clock) -> None:
    one, two = replica_of(clock, "one", server="a"), replica_of(clock, "two", server="b")
    pools = pools_of(clock, one)
    assert pools.server_states() == {"a": "healthy"}
    one.record_heartbeat("unhealthy", clock.now)
    assert pools.server_states() == {"a": "unhealthy"}
    pools.add(two)
    assert pools.server_states() == {"a": "unhealthy", "b": "healthy"}
    pools.remove(one)
    assert pools.server_states() == {"b": "healthy"}
    pools.server_states()
    one.record_heartbeat("degraded", clock.now)  # nobody's news any more
    assert pools.server_states() == {"b": "healthy"}


def test_replica_pools_vanished_server_is_unhealthy_for_a_while(clock: Clock) -> None:
    gone, left = replica_of(clock, "gone", "Gone@1", server="gone"), replica_of(clock, "left", "Left@1", server="left")
    pools = pools_of(clock, gone, left)
    pools.remove(gone, unannounced=True)
    pools.remove(left)
    assert pools.server_states() == {"gone": "unhealthy"}
    assert pools.toolkit_states() == {"Gone": "unhealthy"}
    pools.add(gone)
    assert pools.server_states() == {"gone": "healthy"}
    pools.remove(gone, unannounced=True)
    clock.now += 119
    assert pools.server_states() == {"gone": "unhealthy"}
    clock.now += 1
    assert pools.server_states() == pools.toolkit_states() == {}


def test_replica_pools_vanished_replica_degrades_toolkit(clock: Clock) -> None:
    first, gone = replica_of(clock, "first", server="a"), replica_of(clock, "gone", server="b")
    beside = replica_of(clock, "beside", "Other@1", server="b")
    pools = pools_of(clock, first, beside, gone)
    clock.now += 20
    pools.remove(gone, unannounced=True)
    assert pools.server_states() == {"a": "healthy", "b": "degraded"}
    assert pools.toolkit_states() == {"Kit": "degraded", "Other": "healthy"}
    broken(first)
    clock.now += 1
    assert pools.toolkit_states()["Kit"] == "unhealthy"
    first.circuit.record_success()
    clock.now += 120
    assert pools.server_states() == {"a": "degraded", "b": "healthy"}  # its circuit is half-open


def test_replica_pools_quick_restart_is_not_reported(clock: Clock) -> None:
    """The new process joins at once; only later the lease of the old one, which was killed, runs out."""
    killed = replica_of(clock, "killed")
    pools = pools_of(clock, killed)
    clock.now += 2
    pools.add(replica_of(clock, "again"))
    pools.add(replica_of(clock, "another", "Other@1", server="other"))
    clock.now += 13
    pools.remove(killed, unannounced=True)
    assert pools.server_states() == {"servers": "healthy", "other": "healthy"}
    assert pools.toolkit_states() == {"Kit": "healthy", "Other": "healthy"}


def test_replica_pools_removed_replica_leaves_nothing(clock: Clock) -> None:
    class Shown(ReplicaPools):
        @property
        def size(self) -> int:
            return len(self._pools)

    pools = Shown(clock, Random(7))
    for number in range(3):
        replica = replica_of(clock, "one", f"Kit@{number}")
        pools.add(replica)
        pools.remove(replica)
    assert pools.size == 0


def test_replica_pools_metrics_count_replicas_and_calls(clock: Clock) -> None:
    pools = pools_of(clock, replica_of(clock, "a", running=2), replica_of(clock, "b", running=1))
    pools.lost_calls, pools.retried_calls = 5, 6
    assert figures(pools) == [2, 3, 5, 6]


def figures(pools: ReplicaPools) -> list[float]:
    return [gauge.read() for gauge in pools.metrics()]
