"""Leases of tool servers: join, heartbeat, leave and expiry."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.unit.builders import Clock
from tests.unit.execution.remote.fake_transports import (
    FakeTransport,
    HoldingTransport,
    eventually,
    pools_of,
    replica_info,
)
from toolhall.dialects.hub.call_messages import CallEvent
from toolhall.egress.exchange import ExchangeLost
from toolhall.execution.remote.leases import Lease, LeaseManager, UnknownLease
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.model.errors import Denied, Unauthenticated, Unavailable

KIT = "Kit", "1.0.0"


class InspectableLeaseManager(LeaseManager):
    """Gives access to its timer, and fires it."""

    def timer(self) -> asyncio.TimerHandle | None:
        return self._timer

    def fire_timer(self) -> None:
        self._on_timer()


class LeaseHarness:
    """A lease manager and replica pools with one clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pools: ReplicaPools = pools_of(self.clock)
        self.leases = InspectableLeaseManager(self.pools, self.clock)

    def wait(self, seconds: float, *alive: Lease) -> None:
        """Advance the clock in small steps; these leases send heartbeats."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now = min(until, self.clock.now + 2.5)
            for lease in alive:
                self.leases.heartbeat(lease.id, lease.replica.caller_id)
            self.leases.expire()

    def run(self) -> Awaitable[object]:
        """Start a call at the picked replica."""
        turn = self.pools.pick(*KIT).begin_call()

        async def call() -> object:
            try:
                return await turn.transport.call(b"{}", str(id(turn)), ignore_event)
            finally:
                turn.end()

        return asyncio.ensure_future(call())


async def ignore_event(report: CallEvent) -> bytes | None:
    return None


@pytest.fixture
def harness() -> LeaseHarness:
    return LeaseHarness()


def test_lease_replica_serves_until_fifteen_seconds_without_heartbeat(harness: LeaseHarness) -> None:
    line = FakeTransport()
    lease = harness.leases.join(replica_info(), line)
    assert len(lease.id) == 32
    assert harness.pools.pick(*KIT) is lease.replica
    harness.wait(60, lease)
    assert harness.pools.pick(*KIT) is lease.replica
    harness.wait(14.9)
    assert harness.pools.pick(*KIT) is lease.replica
    harness.wait(0.2)
    with pytest.raises(Unavailable):
        harness.pools.pick(*KIT)
    assert line.closed == 1
    with pytest.raises(UnknownLease):
        harness.leases.heartbeat(lease.id, "ci")
    assert harness.pools.server_states() == {"servers": "unhealthy"}


def test_lease_late_replica_is_suspected_until_next_heartbeat(harness: LeaseHarness) -> None:
    late, well = (harness.leases.join(replica_info(name), FakeTransport()) for name in ("late", "well"))
    well.replica.begin_call()
    harness.wait(7.4, well)
    assert harness.pools.pick(*KIT) is late.replica
    harness.wait(0.2, well)
    assert harness.pools.pick(*KIT) is well.replica
    harness.leases.heartbeat(late.id, "ci")
    assert harness.pools.pick(*KIT) is late.replica


def test_lease_timer_runs_in_current_loop(harness: LeaseHarness) -> None:
    """Not in one that has ended since."""

    async def watch() -> None:
        harness.leases.start()

    async def watch_again() -> None:
        harness.clock.now += 60
        harness.leases.start()
        await eventually(lambda: lease.replica.heartbeat_late)

    lease = harness.leases.join(replica_info(), FakeTransport())
    asyncio.run(watch())
    asyncio.run(watch_again())
    harness.leases.close()


def test_lease_of_another_caller_is_unknown(harness: LeaseHarness) -> None:
    lease = harness.leases.join(replica_info(by="ada"), FakeTransport())
    for touch in (harness.leases.heartbeat, run_leave(harness.leases)):
        with pytest.raises(UnknownLease):
            touch(lease.id, "eve")
        with pytest.raises(UnknownLease):
            touch("0" * 32, "ada")
    theirs = harness.leases.join(replica_info(by="eve"), FakeTransport())  # with the same word for itself
    assert theirs.replica is not lease.replica
    assert len(harness.pools) == 2
    assert not lease.replica.draining


def run_leave(leases: LeaseManager) -> Callable[[str, str], object]:
    return lambda lease, by: asyncio.run(leases.leave(lease, by))


async def test_lease_rejoin_gets_new_lease_and_keeps_calls(harness: LeaseHarness) -> None:
    before, after = HoldingTransport(), HoldingTransport()
    old = harness.leases.join(replica_info(), before)
    calls = [harness.run(), harness.run()]
    await asyncio.sleep(0)
    new = harness.leases.join(replica_info("one", "Kit@1.0.0", "More@2.0.0"), after)
    assert new.id != old.id
    assert new.replica is old.replica
    assert (len(harness.pools), before.closed, new.replica.running) == (1, 0, 2)
    assert harness.pools.pick("More", "2.0.0").transport is after
    with pytest.raises(UnknownLease):
        harness.leases.heartbeat(old.id, "ci")
    for left, closed in ((1, 0), (0, 1)):
        before.finish()
        await calls.pop(0)
        assert (new.replica.running, before.closed, after.closed) == (left, closed, 0)


async def test_lease_rejoin_over_another_socket_loses_running_calls(harness: LeaseHarness) -> None:
    before = HoldingTransport()
    old = harness.leases.join(replica_info(listens=False), before)
    call = harness.run()
    await asyncio.sleep(0)
    new = harness.leases.join(replica_info(listens=False), FakeTransport())
    with pytest.raises(ExchangeLost):
        await call
    harness.leases.on_socket_closed(old.id)  # the first socket is found closed only now
    assert harness.pools.pick(*KIT) is new.replica
    assert new.replica.running == 0


async def test_lease_leave_drains_running_calls(harness: LeaseHarness) -> None:
    line = HoldingTransport()
    lease = harness.leases.join(replica_info(), line)
    calls = [harness.run(), harness.run()]
    leaving = asyncio.ensure_future(harness.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        harness.pools.pick(*KIT)
    line.finish()
    await calls[0]
    harness.wait(20)  # it need not say that it is there any more
    assert (leaving.done(), line.closed) == (False, 0)
    line.finish()
    await calls[1]
    assert await leaving == 0
    assert line.closed == 1
    assert harness.pools.server_states() == {}


async def test_lease_leave_ends_after_thirty_seconds(harness: LeaseHarness) -> None:
    line = HoldingTransport()
    lease = harness.leases.join(replica_info(), line)
    call = harness.run()
    await asyncio.sleep(0)
    leaving = asyncio.ensure_future(harness.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    harness.wait(20)
    again = asyncio.ensure_future(harness.leases.leave(lease.id, "ci"))  # which makes it no longer
    await asyncio.sleep(0)
    harness.wait(9)
    await asyncio.sleep(0)
    assert not leaving.done()
    harness.wait(1.5)
    assert (await leaving, await again) == (1, 1)
    with pytest.raises(ExchangeLost):
        await call


async def test_lease_leave_of_idle_replica_returns_at_once(harness: LeaseHarness) -> None:
    lease = harness.leases.join(replica_info(), FakeTransport())
    assert await harness.leases.leave(lease.id, "ci") == 0
    with pytest.raises(UnknownLease):
        await harness.leases.leave(lease.id, "ci")


async def test_lease_leave_goes_on_if_its_request_is_cancelled(harness: LeaseHarness) -> None:
    line = HoldingTransport()
    lease = harness.leases.join(replica_info(), line)
    call = harness.run()
    leaving = asyncio.ensure_future(harness.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    line.finish()
    await call
    assert len(harness.pools) == 0


async def test_lease_rejoin_while_draining_keeps_replica(harness: LeaseHarness) -> None:
    line = HoldingTransport()
    lease = harness.leases.join(replica_info(), line)
    call = harness.run()
    leaving = asyncio.ensure_future(harness.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    again = harness.leases.join(replica_info(), line)
    assert await leaving == 1
    line.finish()
    await call
    assert harness.pools.pick(*KIT) is again.replica
    assert line.closed == 0


async def test_lease_end_loses_running_calls(harness: LeaseHarness) -> None:
    harness.leases.join(replica_info(), HoldingTransport())
    calls = [harness.run(), harness.run()]
    await asyncio.sleep(0)
    harness.wait(16)
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [ExchangeLost, ExchangeLost]


def test_lease_join_beyond_caller_limit_is_denied(harness: LeaseHarness) -> None:
    for number in range(200):
        harness.leases.join(replica_info(str(number)), FakeTransport())
    with pytest.raises(Denied, match="200 replicas"):
        harness.leases.join(replica_info("one more"), FakeTransport())
    harness.leases.join(replica_info("7"), FakeTransport())  # not one more
    harness.leases.join(replica_info("another", by="ada"), FakeTransport())
    harness.wait(15)
    harness.leases.join(replica_info("one more"), FakeTransport())


def test_lease_join_beyond_total_limit_is_unavailable(harness: LeaseHarness) -> None:
    for number in range(1_000):
        harness.leases.join(replica_info(str(number), by=str(number // 200)), FakeTransport())
    with pytest.raises(Unavailable, match="1000 replicas"):
        harness.leases.join(replica_info(by="ada"), FakeTransport())


async def test_lease_manager_has_one_timer_and_none_when_empty(harness: LeaseHarness) -> None:
    leases = harness.leases
    leases.join(replica_info("before"), FakeTransport())
    assert leases.timer() is None
    leases.start()
    alarm = leases.timer()
    assert alarm is not None
    lease = leases.join(replica_info("after"), FakeTransport())
    assert leases.timer() is alarm
    harness.wait(15, lease)
    assert leases.timer() is not None
    assert await leases.leave(lease.id, "ci") == 0
    assert leases.timer() is None
    assert leases.next_deadline is None


async def test_lease_timer_expires_replica(harness: LeaseHarness) -> None:
    line = FakeTransport()
    harness.leases.join(replica_info(), line)
    harness.clock.now += 15  # the hall notices when it watches; it did not sleep, so it forgives nothing
    harness.leases.expire()
    assert line.closed == 1
    lease = harness.leases.join(replica_info(), FakeTransport())
    harness.clock.now += 7.6
    harness.leases.start()
    await eventually(lambda: lease.replica.heartbeat_late)
    harness.leases.close()


async def test_lease_stalled_process_extends_leases(harness: LeaseHarness) -> None:
    lease = harness.leases.join(replica_info(), FakeTransport())
    harness.leases.start()
    harness.clock.now += 60  # the alarm was due long ago
    harness.leases.fire_timer()
    assert harness.pools.pick(*KIT) is lease.replica
    assert harness.leases.heartbeat(lease.id, "ci") is lease.replica
    harness.leases.close()


async def test_lease_manager_close_removes_all_replicas(harness: LeaseHarness) -> None:
    lines = [HoldingTransport(), HoldingTransport()]
    leases = [harness.leases.join(replica_info(str(number)), line) for number, line in enumerate(lines)]
    harness.leases.start()
    calls = [harness.run(), harness.run()]
    await asyncio.sleep(0)
    leaving = asyncio.ensure_future(harness.leases.leave(leases[0].id, "ci"))
    await asyncio.sleep(0)
    harness.leases.close()
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [ExchangeLost, ExchangeLost]
    assert await leaving == 1
    assert harness.leases.timer() is None
    assert len(harness.pools) == 0


def test_lease_heartbeat_with_unknown_status_is_degraded(harness: LeaseHarness) -> None:
    lease = harness.leases.join(replica_info(), FakeTransport())
    harness.leases.heartbeat(lease.id, "ci", "splendid")
    assert harness.pools.pick(*KIT) is lease.replica
    assert harness.pools.server_states() == {"servers": "degraded"}


def test_lease_overloaded_hall_excuses_responding_replica(harness: LeaseHarness) -> None:
    lease = harness.leases.join(replica_info(), FakeTransport())
    lease.replica.record_probe("healthy", {})
    harness.leases.is_overloaded = lambda: True
    harness.wait(60)
    lease.replica.begin_call().record_rejection()  # a call that it did not take
    harness.wait(60)
    assert (harness.pools.pick(*KIT), lease.replica.heartbeat_late) == (lease.replica, False)
    harness.leases.is_overloaded = lambda: False
    harness.wait(15)
    assert len(harness.pools) == 0


@pytest.mark.parametrize("case", ["revoked", "not known", "mute", "never asked", "a socket"])
def test_lease_overloaded_hall_expires_other_replicas(harness: LeaseHarness, case: str) -> None:
    proofs = {"revoked": False, "not known": None}
    lease = harness.leases.join(replica_info(listens=case != "a socket"), FakeTransport())
    lease.is_credential_valid = lambda: proofs.get(case, True)
    if case != "never asked":
        lease.replica.record_probe("healthy", {})
    if case == "mute":
        lease.replica.record_probe_failure()
    harness.leases.is_overloaded = lambda: True
    harness.wait(15)
    assert len(harness.pools) == 0


def test_lease_recheck_removes_only_invalid_credentials(harness: LeaseHarness) -> None:
    for name, proof in {"revoked": False, "not-known": None, "good": True}.items():
        harness.leases.join(replica_info(name), FakeTransport()).is_credential_valid = lambda proof=proof: proof  # type: ignore[misc]
    harness.leases.recheck_credentials()
    assert sorted(replica.id for replica in harness.pools) == ["good", "not-known"]


def test_lease_join_with_revoked_credential_is_refused(harness: LeaseHarness) -> None:
    with pytest.raises(Unauthenticated):
        harness.leases.join(replica_info(), FakeTransport(), lambda: False)
    assert len(harness.pools) == 0


async def test_lease_on_end_is_called_once(harness: LeaseHarness) -> None:
    heard: list[str] = []
    for number, end in enumerate(("leave", "cut", "join")):
        lease = harness.leases.join(replica_info(str(number)), FakeTransport())
        lease.on_end = partial(heard.append, end)
        if end == "leave":
            await harness.leases.leave(lease.id, "ci")
        elif end == "cut":
            harness.leases.on_socket_closed(lease.id)
        else:
            harness.leases.join(replica_info(str(number)), FakeTransport())
    harness.leases.close()
    assert heard == ["leave", "cut", "join"]
