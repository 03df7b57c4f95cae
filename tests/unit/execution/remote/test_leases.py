"""Who is there: joining, saying so again, leaving, and being gone."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.unit.execution.remote.fake_transports import (
    FakeTransport,
    HoldingTransport,
    eventually,
    pools_of,
    replica_info,
)
from tests.unit.parts import Clock
from toolhall.dialects.hub.call_messages import CallEvent
from toolhall.execution.remote.leases import Lease, LeaseManager, UnknownLease
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.execution.remote.replica_transport import CallLost
from toolhall.model.errors import Denied, Unauthenticated, Unavailable

KIT = "Kit", "1.0.0"


class Watched(LeaseManager):
    """Shows its alarm, and can be rung."""

    def alarm(self) -> asyncio.TimerHandle | None:
        return self._timer

    def ring(self) -> None:
        self._on_timer()


class House:
    """Pools and leases under one clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pools: ReplicaPools = pools_of(self.clock)
        self.leases = Watched(self.pools, self.clock)

    def wait(self, seconds: float, *alive: Lease) -> None:
        """Time passes in small steps; those that are alive say so."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now = min(until, self.clock.now + 2.5)
            for lease in alive:
                self.leases.heartbeat(lease.id, lease.replica.caller_id)
            self.leases.expire()

    def run(self) -> Awaitable[object]:
        """A call at whoever is picked."""
        turn = self.pools.pick(*KIT).begin_call()

        async def call() -> object:
            try:
                return await turn.transport.call(b"{}", str(id(turn)), unheard)
            finally:
                turn.end()

        return asyncio.ensure_future(call())


async def unheard(report: CallEvent) -> bytes | None:
    return None


@pytest.fixture
def house() -> House:
    return House()


def test_lease_replica_serves_until_fifteen_seconds_without_heartbeat(house: House) -> None:
    line = FakeTransport()
    lease = house.leases.join(replica_info(), line)
    assert len(lease.id) == 32
    assert house.pools.pick(*KIT) is lease.replica
    house.wait(60, lease)
    assert house.pools.pick(*KIT) is lease.replica
    house.wait(14.9)
    assert house.pools.pick(*KIT) is lease.replica
    house.wait(0.2)
    with pytest.raises(Unavailable):
        house.pools.pick(*KIT)
    assert line.closed == 1
    with pytest.raises(UnknownLease):
        house.leases.heartbeat(lease.id, "ci")
    assert house.pools.server_states() == {"servers": "unhealthy"}


def test_lease_late_replica_is_suspected_until_next_heartbeat(house: House) -> None:
    late, well = (house.leases.join(replica_info(name), FakeTransport()) for name in ("late", "well"))
    well.replica.begin_call()
    house.wait(7.4, well)
    assert house.pools.pick(*KIT) is late.replica
    house.wait(0.2, well)
    assert house.pools.pick(*KIT) is well.replica
    house.leases.heartbeat(late.id, "ci")
    assert house.pools.pick(*KIT) is late.replica


def test_lease_timer_runs_in_current_loop(house: House) -> None:
    """Not in one that has ended since."""

    async def watch() -> None:
        house.leases.start()

    async def watch_again() -> None:
        house.clock.now += 60
        house.leases.start()
        await eventually(lambda: lease.replica.heartbeat_late)

    lease = house.leases.join(replica_info(), FakeTransport())
    asyncio.run(watch())
    asyncio.run(watch_again())
    house.leases.close()


def test_lease_of_another_caller_is_unknown(house: House) -> None:
    lease = house.leases.join(replica_info(by="ada"), FakeTransport())
    for touch in (house.leases.heartbeat, run_leave(house.leases)):
        with pytest.raises(UnknownLease):
            touch(lease.id, "eve")
        with pytest.raises(UnknownLease):
            touch("0" * 32, "ada")
    theirs = house.leases.join(replica_info(by="eve"), FakeTransport())  # with the same word for itself
    assert theirs.replica is not lease.replica
    assert len(house.pools) == 2
    assert not lease.replica.draining


def run_leave(leases: LeaseManager) -> Callable[[str, str], object]:
    return lambda lease, by: asyncio.run(leases.leave(lease, by))


async def test_lease_rejoin_gets_new_lease_and_keeps_calls(house: House) -> None:
    before, after = HoldingTransport(), HoldingTransport()
    old = house.leases.join(replica_info(), before)
    calls = [house.run(), house.run()]
    await asyncio.sleep(0)
    new = house.leases.join(replica_info("one", "Kit@1.0.0", "More@2.0.0"), after)
    assert new.id != old.id
    assert new.replica is old.replica
    assert (len(house.pools), before.closed, new.replica.running) == (1, 0, 2)
    assert house.pools.pick("More", "2.0.0").transport is after
    with pytest.raises(UnknownLease):
        house.leases.heartbeat(old.id, "ci")
    for left, closed in ((1, 0), (0, 1)):
        before.finish()
        await calls.pop(0)
        assert (new.replica.running, before.closed, after.closed) == (left, closed, 0)


async def test_lease_rejoin_over_another_socket_loses_running_calls(house: House) -> None:
    before = HoldingTransport()
    old = house.leases.join(replica_info(listens=False), before)
    call = house.run()
    await asyncio.sleep(0)
    new = house.leases.join(replica_info(listens=False), FakeTransport())
    with pytest.raises(CallLost):
        await call
    house.leases.on_socket_closed(old.id)  # the first socket is found closed only now
    assert house.pools.pick(*KIT) is new.replica
    assert new.replica.running == 0


async def test_lease_leave_drains_running_calls(house: House) -> None:
    line = HoldingTransport()
    lease = house.leases.join(replica_info(), line)
    calls = [house.run(), house.run()]
    leaving = asyncio.ensure_future(house.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        house.pools.pick(*KIT)
    line.finish()
    await calls[0]
    house.wait(20)  # it need not say that it is there any more
    assert (leaving.done(), line.closed) == (False, 0)
    line.finish()
    await calls[1]
    assert await leaving == 0
    assert line.closed == 1
    assert house.pools.server_states() == {}


async def test_lease_leave_ends_after_thirty_seconds(house: House) -> None:
    line = HoldingTransport()
    lease = house.leases.join(replica_info(), line)
    call = house.run()
    await asyncio.sleep(0)
    leaving = asyncio.ensure_future(house.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    house.wait(20)
    again = asyncio.ensure_future(house.leases.leave(lease.id, "ci"))  # which makes it no longer
    await asyncio.sleep(0)
    house.wait(9)
    await asyncio.sleep(0)
    assert not leaving.done()
    house.wait(1.5)
    assert (await leaving, await again) == (1, 1)
    with pytest.raises(CallLost):
        await call


async def test_lease_leave_of_idle_replica_returns_at_once(house: House) -> None:
    lease = house.leases.join(replica_info(), FakeTransport())
    assert await house.leases.leave(lease.id, "ci") == 0
    with pytest.raises(UnknownLease):
        await house.leases.leave(lease.id, "ci")


async def test_lease_leave_goes_on_if_its_request_is_cancelled(house: House) -> None:
    line = HoldingTransport()
    lease = house.leases.join(replica_info(), line)
    call = house.run()
    leaving = asyncio.ensure_future(house.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    line.finish()
    await call
    assert len(house.pools) == 0


async def test_lease_rejoin_while_draining_keeps_replica(house: House) -> None:
    line = HoldingTransport()
    lease = house.leases.join(replica_info(), line)
    call = house.run()
    leaving = asyncio.ensure_future(house.leases.leave(lease.id, "ci"))
    await asyncio.sleep(0)
    again = house.leases.join(replica_info(), line)
    assert await leaving == 1
    line.finish()
    await call
    assert house.pools.pick(*KIT) is again.replica
    assert line.closed == 0


async def test_lease_end_loses_running_calls(house: House) -> None:
    house.leases.join(replica_info(), HoldingTransport())
    calls = [house.run(), house.run()]
    await asyncio.sleep(0)
    house.wait(16)
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [CallLost, CallLost]


def test_lease_join_beyond_caller_limit_is_denied(house: House) -> None:
    for number in range(200):
        house.leases.join(replica_info(str(number)), FakeTransport())
    with pytest.raises(Denied, match="200 replicas"):
        house.leases.join(replica_info("one more"), FakeTransport())
    house.leases.join(replica_info("7"), FakeTransport())  # not one more
    house.leases.join(replica_info("another", by="ada"), FakeTransport())
    house.wait(15)
    house.leases.join(replica_info("one more"), FakeTransport())


def test_lease_join_beyond_total_limit_is_unavailable(house: House) -> None:
    for number in range(1_000):
        house.leases.join(replica_info(str(number), by=str(number // 200)), FakeTransport())
    with pytest.raises(Unavailable, match="1000 replicas"):
        house.leases.join(replica_info(by="ada"), FakeTransport())


async def test_lease_manager_has_one_timer_and_none_when_empty(house: House) -> None:
    leases = house.leases
    leases.join(replica_info("before"), FakeTransport())
    assert leases.alarm() is None
    leases.start()
    alarm = leases.alarm()
    assert alarm is not None
    lease = leases.join(replica_info("after"), FakeTransport())
    assert leases.alarm() is alarm
    house.wait(15, lease)
    assert leases.alarm() is not None
    assert await leases.leave(lease.id, "ci") == 0
    assert leases.alarm() is None
    assert leases.next_deadline is None


async def test_lease_timer_expires_replica(house: House) -> None:
    line = FakeTransport()
    house.leases.join(replica_info(), line)
    house.clock.now += 15  # the hall notices when it watches; it did not sleep, so it forgives nothing
    house.leases.expire()
    assert line.closed == 1
    lease = house.leases.join(replica_info(), FakeTransport())
    house.clock.now += 7.6
    house.leases.start()
    await eventually(lambda: lease.replica.heartbeat_late)
    house.leases.close()


async def test_lease_stalled_process_extends_leases(house: House) -> None:
    lease = house.leases.join(replica_info(), FakeTransport())
    house.leases.start()
    house.clock.now += 60  # the alarm was due long ago
    house.leases.ring()
    assert house.pools.pick(*KIT) is lease.replica
    assert house.leases.heartbeat(lease.id, "ci") is lease.replica
    house.leases.close()


async def test_lease_manager_close_removes_all_replicas(house: House) -> None:
    lines = [HoldingTransport(), HoldingTransport()]
    leases = [house.leases.join(replica_info(str(number)), line) for number, line in enumerate(lines)]
    house.leases.start()
    calls = [house.run(), house.run()]
    await asyncio.sleep(0)
    leaving = asyncio.ensure_future(house.leases.leave(leases[0].id, "ci"))
    await asyncio.sleep(0)
    house.leases.close()
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [CallLost, CallLost]
    assert await leaving == 1
    assert house.leases.alarm() is None
    assert len(house.pools) == 0


def test_lease_heartbeat_with_unknown_status_is_degraded(house: House) -> None:
    lease = house.leases.join(replica_info(), FakeTransport())
    house.leases.heartbeat(lease.id, "ci", "splendid")
    assert house.pools.pick(*KIT) is lease.replica
    assert house.pools.server_states() == {"servers": "degraded"}


def test_lease_overloaded_hall_excuses_responding_replica(house: House) -> None:
    lease = house.leases.join(replica_info(), FakeTransport())
    lease.replica.record_probe("healthy", {})
    house.leases.is_overloaded = lambda: True
    house.wait(60)
    lease.replica.begin_call().record_rejection()  # a call that it did not take
    house.wait(60)
    assert (house.pools.pick(*KIT), lease.replica.heartbeat_late) == (lease.replica, False)
    house.leases.is_overloaded = lambda: False
    house.wait(15)
    assert len(house.pools) == 0


@pytest.mark.parametrize("case", ["revoked", "not known", "mute", "never asked", "a socket"])
def test_lease_overloaded_hall_expires_other_replicas(house: House, case: str) -> None:
    proofs = {"revoked": False, "not known": None}
    lease = house.leases.join(replica_info(listens=case != "a socket"), FakeTransport())
    lease.is_credential_valid = lambda: proofs.get(case, True)
    if case != "never asked":
        lease.replica.record_probe("healthy", {})
    if case == "mute":
        lease.replica.record_probe_failure()
    house.leases.is_overloaded = lambda: True
    house.wait(15)
    assert len(house.pools) == 0


def test_lease_recheck_removes_only_invalid_credentials(house: House) -> None:
    for name, proof in {"revoked": False, "not-known": None, "good": True}.items():
        house.leases.join(replica_info(name), FakeTransport()).is_credential_valid = lambda proof=proof: proof  # type: ignore[misc]
    house.leases.recheck_credentials()
    assert sorted(replica.id for replica in house.pools) == ["good", "not-known"]


def test_lease_join_with_revoked_credential_is_refused(house: House) -> None:
    with pytest.raises(Unauthenticated):
        house.leases.join(replica_info(), FakeTransport(), lambda: False)
    assert len(house.pools) == 0


async def test_lease_on_end_is_called_once(house: House) -> None:
    heard: list[str] = []
    for number, end in enumerate(("leave", "cut", "join")):
        lease = house.leases.join(replica_info(str(number)), FakeTransport())
        lease.on_end = partial(heard.append, end)
        if end == "leave":
            await house.leases.leave(lease.id, "ci")
        elif end == "cut":
            house.leases.on_socket_closed(lease.id)
        else:
            house.leases.join(replica_info(str(number)), FakeTransport())
    house.leases.close()
    assert heard == ["leave", "cut", "join"]
