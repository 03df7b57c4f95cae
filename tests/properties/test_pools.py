"""Replica pools: calls go only to healthy replicas, in whatever order these join, fail, leave and come back."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.harness.seeds import examples
from tests.unit.builders import Clock
from tests.unit.execution.remote.fake_transports import FakeTransport, replica_info
from toolhall.execution.remote.leases import EXPIRY_SECONDS, Lease, LeaseManager, UnknownLease
from toolhall.execution.remote.replica import FAILURE_THRESHOLD, OPEN_SECONDS, Replica, ReplicaCall
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.model.errors import Unavailable

KITS = ("A@1", "A@2")
ALL = ("one", "two", "three")
NAMES = st.sampled_from(ALL)
SOME = st.lists(st.sampled_from(KITS), min_size=1, unique=True)
SECONDS = st.sampled_from([0.25, 1.0, 2.5, 2.5, 2.5, 5.0, 8.0, 16.0])
_DRAIN_SECONDS = 30.0


class ExpectedLease:
    """What the model of this test knows of a lease."""

    def __init__(self, lease: Lease, kits: Sequence[str], now: float) -> None:
        self.lease = lease
        self.kits = frozenset(kits)
        self.heard = now
        self.leaving: float | None = None


class ReplicaPoolsMachine(RuleBasedStateMachine):
    """The model knows who was heard of when, who leaves, and what runs where."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.pools = ReplicaPools(self.clock, Random(1))
        self.leases = LeaseManager(self.pools, self.clock)
        self.expected: dict[str, ExpectedLease] = {}  # by name
        self.turns: list[tuple[ReplicaCall, Replica]] = []
        self.leaving: list[asyncio.Task[int]] = []
        self.bad: Counter[Replica] = Counter()  # bad news in a row
        self.opened: dict[Replica, float] = {}

    def teardown(self) -> None:
        for turn, _ in self.turns:
            turn.end()
        assert all(replica.running == 0 for _, replica in self.turns)
        self.leases.close()
        self.run_event_loop()
        assert all(task.done() for task in self.leaving)
        assert len(self.pools) == 0
        self.loop.close()

    def run_event_loop(self) -> None:
        async def nothing() -> None:
            await asyncio.sleep(0)

        for _ in range(3):
            self.loop.run_until_complete(nothing())

    # --- what replicas do ---------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.join_all_missing_replicas()

    @rule()
    def join_all_missing_replicas(self) -> None:
        """Most of what can go wrong needs several that run the same."""
        for name in ALL:
            if name not in self.expected:
                self.join(name, [*KITS], listens=name != "three")

    @rule(name=NAMES, kits=SOME, listens=st.booleans())
    def join(self, name: str, kits: list[str], *, listens: bool) -> None:
        lease = self.leases.join(replica_info(name, *kits, listens=listens), FakeTransport())
        self.expected[name] = ExpectedLease(lease, kits, self.clock.now)
        self.record_success(lease.replica)

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), status=st.sampled_from(["healthy", "healthy", "degraded", "unhealthy"]))
    def heartbeat(self, data: st.DataObject, status: str) -> None:
        expected = self.one(data)
        assert self.leases.heartbeat(expected.lease.id, "ci", status) is expected.lease.replica
        expected.heard = self.clock.now

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def heartbeat_by_another_caller_is_refused(self, data: st.DataObject) -> None:
        expected = self.one(data)
        try:
            self.leases.heartbeat(expected.lease.id, "eve")
        except UnknownLease:
            return
        raise AssertionError("another caller's lease was touched")

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.expected)))
        expected = self.expected[name]
        expected.leaving = self.clock.now if expected.leaving is None else expected.leaving
        self.leaving.append(self.loop.create_task(self.leases.leave(expected.lease.id, "ci")))
        self.run_event_loop()
        self.remove_expired_replicas()

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def close_socket(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.expected)))
        self.leases.on_socket_closed(self.expected.pop(name).lease.id)

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), well=st.booleans())
    def probe(self, data: st.DataObject, *, well: bool) -> None:
        replica = self.one(data).lease.replica
        if well:
            replica.record_probe("healthy", {})
            self.record_success(replica)
        else:
            self.record_failure(replica, replica.record_probe_failure)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def break_down(self, data: st.DataObject) -> None:
        replica = self.one(data).lease.replica
        for _ in range(5):
            self.record_failure(replica, replica.record_probe_failure)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.leases.expire()
        self.remove_expired_replicas()

    @rule(silent=NAMES, beats=st.sampled_from([1, 2, 2, 7]))
    def wait_while_all_but_one_are_heard(self, silent: str, beats: int) -> None:
        for _ in range(beats):
            self.clock.now += 5
            for name, expected in self.expected.items():
                if name != silent:
                    self.leases.heartbeat(expected.lease.id, "ci")
                    expected.heard = self.clock.now
            self.leases.expire()
            self.remove_expired_replicas()

    # --- what calls do ------------------------------------------------------------------------------------------------

    @rule(kit=st.sampled_from(KITS), without=NAMES, times=st.integers(1, 4))
    def call(self, kit: str, without: str, times: int) -> None:
        for _ in range(times):
            self.call_once(kit, without)

    def call_once(self, kit: str, without: str) -> None:
        toolkit, _, version = kit.partition("@")
        spared = {expected.lease.replica for name, expected in self.expected.items() if name == without}
        mine = [expected for expected in self.expected.values() if kit in expected.kits and expected.leaving is None]
        taking = [expected.lease.replica for expected in mine if expected.lease.replica.circuit.allows_call()]
        taking = [each for each in taking if toolkit not in each.unhealthy_toolkits and each not in spared]
        well = [replica for replica in taking if not replica.is_suspected]
        try:
            picked = self.pools.pick(toolkit, version, spared)
        except Unavailable:
            assert not taking
            return
        assert picked in (well or taking)
        assert picked.running == min(replica.running for replica in well or taking)
        assert self.clock.now - self.opened.get(picked, -OPEN_SECONDS) >= OPEN_SECONDS
        self.turns.append((picked.begin_call(), picked))

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), how=st.sampled_from(["came back", "was lost", "was lost", "was refused", "was cancelled"]))
    def end(self, data: st.DataObject, how: str) -> None:
        turn, replica = self.turns.pop(data.draw(st.integers(0, len(self.turns) - 1)))
        match how:
            case "came back":
                turn.record_success()
                self.record_success(replica)
            case "was lost":
                self.record_failure(replica, turn.record_loss)
            case "was refused":
                turn.record_rejection()
            case _:
                pass
        turn.end()
        self.remove_expired_replicas()

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def replicas_with_a_live_lease_are_in_the_pools(self) -> None:
        there = {replica.id: replica for replica in self.pools}
        assert there == {name: expected.lease.replica for name, expected in self.expected.items()}
        assert all(there[name].lease == expected.lease.id for name, expected in self.expected.items())

    @invariant()
    def running_calls_are_counted(self) -> None:
        for replica in {*self.pools, *(each for _, each in self.turns)}:
            assert replica.running == sum(each is replica for _, each in self.turns)

    @invariant()
    def replicas_in_the_pools_have_open_transports(self) -> None:
        lines = [replica.transport for replica in self.pools]
        assert all(isinstance(line, FakeTransport) and not line.closed for line in lines)

    @invariant()
    def replica_has_at_most_one_trial_call(self) -> None:
        for replica in self.pools:
            trials = sum(turn.is_trial for turn, each in self.turns if each is replica)
            assert trials <= 1

    def record_success(self, replica: Replica) -> None:
        """It may be tried, sooner or later; this test does not say when."""
        self.bad.pop(replica, None)
        self.opened.pop(replica, None)

    def record_failure(self, replica: Replica, happens: Callable[[], None]) -> None:
        """Five in a row, and it is open; then it stays so for as long as there is no good news."""
        before = replica.circuit.state
        happens()
        self.bad[replica] += 1
        assert not replica.circuit.allows_call() or self.bad[replica] < FAILURE_THRESHOLD
        if before != "open" and replica.circuit.state == "open":
            self.opened[replica] = self.clock.now

    def one(self, data: st.DataObject) -> ExpectedLease:
        return self.expected[data.draw(st.sampled_from(sorted(self.expected)))]

    def remove_expired_replicas(self) -> None:
        """Who was silent for too long, or has left: with nothing to do, or with its time to end over."""
        now = self.clock.now
        busy = {replica for _, replica in self.turns}
        for name, expected in list(self.expected.items()):
            if expected.leaving is not None:
                gone = expected.lease.replica not in busy or now - expected.leaving >= _DRAIN_SECONDS
            else:
                gone = now - expected.heard >= EXPIRY_SECONDS
            if gone:
                del self.expected[name]


TestReplicaPools = ReplicaPoolsMachine.TestCase
TestReplicaPools.settings = settings(max_examples=examples(200), stateful_step_count=60)
