"""`LeaseManager`: adds replicas that join, expires those whose heartbeats stop, and drains those that leave.

Theory of operation
-------------------
A replica that joins gets a lease and is in the pools for as long as it holds it:

    join ──▶ live ──▶ late (no heartbeat for 7.5 s: suspected) ──▶ expired (15 s) ──▶ removed
               │  ◀── heartbeat ──┘                                                      ▲
               ├── leave ──▶ draining: no new calls; ends with its last call, or after 30 s
               └── socket closed, or its credential no longer valid ─────────────────────┘

A replica joins again with the id that it had (after a restart of the hall, or a lost answer): it gets a new lease, the
old one ends, and running calls go on. Leases belong to the caller that joined; for anyone else they do not exist.
Removing takes the replica out of the pools first and closes its transports then, so that a call that is lost by the
closing is not retried at the same replica.

There is one timer for all leases, set to the earliest deadline; heartbeats do not move it. Two cases must not expire
healthy replicas: if the timer comes late by a second or more, the process itself stood still and could not read
heartbeats, so every lease is extended by that time; and if the hall is so overloaded that it rejects heartbeats, a
listening replica that answers probes is excused.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from toolhall.dialects.hub.errors import HubError, HubErrorRow
from toolhall.dialects.hub.lease_messages import LEASE_UNKNOWN
from toolhall.execution.remote.replica import HealthState, Replica, ReplicaInfo
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.execution.remote.replica_transport import Transport
from toolhall.model.errors import Denied, NotFound, Unauthenticated, Unavailable

HEARTBEAT_SECONDS = 5.0
EXPIRY_SECONDS = 15.0
_LATE_SECONDS = 7.5  # one heartbeat is missing, and the next is due
_DRAIN_SECONDS = 30.0
_MAX_PER_CALLER, _MAX_REPLICAS = 200, 1_000  # replicas of one caller, and of all
_STALL_SECONDS = 1.0  # a timer that comes so late shows that the process itself stood still
_log = logging.getLogger("toolhall.toolservers")
# Whether the credential that a server joined with is still valid; None: not known now.
CredentialCheck: TypeAlias = Callable[[], bool | None]


class UnknownLease(HubError, NotFound):
    """The lease has ended, or belongs to another caller."""

    row = HubErrorRow(LEASE_UNKNOWN)
    message = "this lease is not known: join again"


def _always_valid() -> bool:
    return True


def _never() -> bool:
    return False


class Lease:
    """The lease of one replica, with its credential check and its drain deadline."""

    __slots__ = ("drain_deadline", "ended", "id", "is_credential_valid", "on_end", "replica", "unfinished_calls")

    def __init__(self, replica: Replica, is_credential_valid: CredentialCheck) -> None:
        self.id = secrets.token_hex(16)
        self.replica = replica
        self.is_credential_valid = is_credential_valid
        self.on_end: Callable[[], None] | None = None
        self.drain_deadline: float | None = None  # when it must have drained
        self.ended = asyncio.Event()
        self.unfinished_calls = 0  # calls that were still running when it ended


class LeaseManager:
    """Adds replicas to the pools and removes them; one timer for all leases, none without leases."""

    def __init__(self, pools: ReplicaPools, clock: Callable[[], float]) -> None:
        self._pools = pools
        self._clock = clock
        self._leases: dict[str, Lease] = {}
        self._by_replica: dict[tuple[str, str], Lease] = {}  # by caller and replica id
        self._count_by_caller: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._shutting_down = False
        self.is_overloaded: Callable[[], bool] = _never  # whether the hall rejects messages, heartbeats too

    def join(
        self, info: ReplicaInfo, transport: Transport, is_credential_valid: CredentialCheck = _always_valid
    ) -> Lease:
        """Add a replica, which takes calls from now on; one that joins again gets a new lease, and its calls go on."""
        if is_credential_valid() is False:  # it was valid when the message came
            raise Unauthenticated("the credential is no longer valid")
        previous = self._by_replica.get((info.caller_id, info.replica_id))
        if previous is None:
            self._check_limits(info.caller_id)
            replica = Replica(info, transport, self._clock)
            self._count_by_caller[info.caller_id] += 1
        else:
            replica = previous.replica
            self._pools.remove(replica)
            self._end_lease(previous)
            replica.rejoin(info, transport)
        lease = Lease(replica, is_credential_valid)
        replica.lease, replica.last_seen = lease.id, self._clock()
        replica.on_idle = None
        self._leases[lease.id] = self._by_replica[info.caller_id, info.replica_id] = lease
        self._pools.add(replica)
        self._schedule_timer()
        return lease

    def heartbeat(self, lease: str, caller_id: str, status: str = "healthy") -> Replica:
        """Record a heartbeat; raises UnknownLease if the lease has ended, or belongs to another caller."""
        replica = self._owned_lease(lease, caller_id).replica
        replica.record_heartbeat(_parse_status(status), self._clock())
        return replica

    async def leave(self, lease: str, caller_id: str) -> int:
        """Drain the replica: no new calls. Returns the number of calls that are lost after 30 seconds, usually none."""
        leaving = self._owned_lease(lease, caller_id)
        replica = leaving.replica
        if leaving.drain_deadline is None:
            leaving.drain_deadline = self._clock() + _DRAIN_SECONDS
            replica.draining = True
            if replica.running:
                replica.on_idle = lambda: self._remove(leaving)
                self._schedule_timer()
            else:
                self._remove(leaving)
        await leaving.ended.wait()
        return leaving.unfinished_calls

    def drain(self, server: str) -> int:
        """Give the replicas of a server no new calls until they join again; returns how many there are."""
        replicas = [replica for replica in self._pools if replica.server == server]
        for replica in replicas:
            replica.draining = True
            if replica.on_status_change is not None:
                replica.on_status_change()
        return len(replicas)

    def seconds_left(self, replica: Replica) -> float | None:
        """Return the seconds until the lease of a replica ends if nothing is heard of it; None if it has ended."""
        lease = self._leases.get(replica.lease)
        if lease is None:
            return None
        end = replica.last_seen + EXPIRY_SECONDS if lease.drain_deadline is None else lease.drain_deadline
        return max(0.0, end - self._clock())

    def on_socket_closed(self, lease: str) -> None:
        """End the lease of a replica whose WebSocket has closed, unless it has ended already."""
        if (found := self._leases.get(lease)) is not None:
            if not self._shutting_down:
                _log.warning("tool server %r closed its socket without leaving", found.replica.server)
            self._remove(found, unannounced=not found.replica.draining)

    def recheck_credentials(self) -> None:
        """Remove replicas whose credential is no longer valid at once: the next call may carry secrets."""
        for lease in tuple(self._leases.values()):
            if lease.is_credential_valid() is False:
                _log.warning("the key of tool server %r is no longer valid: removed it", lease.replica.server)
                self._remove(lease)

    @property
    def next_deadline(self) -> float | None:
        """The earliest deadline of all leases; None without leases."""
        return min((self._deadline_of(lease) for lease in self._leases.values()), default=None)

    def expire(self) -> None:
        """Remove replicas whose heartbeats stopped or whose drain took too long, and mark late ones."""
        now = self._clock()
        for lease in tuple(self._leases.values()):
            replica, silence = lease.replica, now - lease.replica.last_seen
            if lease.drain_deadline is not None:
                if now >= lease.drain_deadline:
                    self._remove(lease)
            elif silence >= _LATE_SECONDS and self._is_excused(lease):
                replica.last_seen, replica.heartbeat_late = now, False
            elif silence >= EXPIRY_SECONDS:
                _log.warning("tool server %r sent no heartbeat for %.0f seconds: removed it", replica.server, silence)
                self._remove(lease, unannounced=True)
            elif silence >= _LATE_SECONDS:
                replica.heartbeat_late = True
        self._schedule_timer()

    def begin_shutdown(self) -> None:
        """From now on the hall itself closes the sockets: do not log that."""
        self._shutting_down = True

    @property
    def is_watching(self) -> bool:
        """Whether leases expire by a timer."""
        return self._loop is not None

    def start(self) -> None:
        """Expire leases by a timer in the running loop from now on."""
        self._cancel_timer()  # a timer of a closed loop never fires
        self._loop, self._shutting_down = asyncio.get_running_loop(), False
        self._schedule_timer()

    def close(self) -> None:
        """Remove every replica; running calls are lost."""
        for lease in tuple(self._leases.values()):
            self._remove(lease)
        self._cancel_timer()
        self._loop = None

    def _owned_lease(self, lease: str, caller_id: str) -> Lease:
        found = self._leases.get(lease)
        if found is None or found.replica.caller_id != caller_id:
            raise UnknownLease
        return found

    def _is_excused(self, lease: Lease) -> bool:
        """Whether an overloaded hall may have rejected its heartbeats: it answers probes with a valid credential."""
        replica = lease.replica
        return (
            replica.info.listens
            and replica.last_probe_succeeded
            and self.is_overloaded()
            and lease.is_credential_valid() is True
        )

    def _check_limits(self, caller_id: str) -> None:
        if self._count_by_caller[caller_id] >= _MAX_PER_CALLER:
            raise Denied(f"this caller has {_MAX_PER_CALLER} replicas here already: let some of them leave first")
        if len(self._leases) >= _MAX_REPLICAS:
            raise Unavailable(f"{_MAX_REPLICAS} replicas have joined this hall, and it takes no more: try again later")

    def _remove(self, lease: Lease, *, unannounced: bool = False) -> None:
        """Remove the replica from the pools, then close it, so that no lost call is retried there."""
        replica = lease.replica
        replica.on_idle = None
        replica.draining = True
        self._pools.remove(replica, unannounced=unannounced)
        self._end_lease(lease)
        del self._by_replica[replica.caller_id, replica.id]
        self._count_by_caller[replica.caller_id] -= 1
        if not self._count_by_caller[replica.caller_id]:
            del self._count_by_caller[replica.caller_id]
        replica.close()

    def _end_lease(self, lease: Lease) -> None:
        del self._leases[lease.id]
        lease.unfinished_calls = lease.replica.running
        lease.ended.set()
        if lease.on_end is not None:
            lease.on_end()
        if not self._leases:
            self._cancel_timer()

    def _deadline_of(self, lease: Lease) -> float:
        if lease.drain_deadline is not None:
            return lease.drain_deadline
        replica = lease.replica
        return replica.last_seen + (EXPIRY_SECONDS if replica.heartbeat_late else _LATE_SECONDS)

    def _schedule_timer(self) -> None:
        """Set the timer to the earliest deadline; an earlier timer stays, and finds the next deadline when it fires."""
        due = self.next_deadline
        if self._loop is None or due is None or (self._timer is not None and self._timer_due <= due):
            return
        self._cancel_timer()
        self._timer_due = due
        self._timer = self._loop.call_later(max(0.0, due - self._clock()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock()
        lateness = now - self._timer_due
        if lateness > _STALL_SECONDS:  # heartbeats that came meanwhile have not been read yet
            for lease in self._leases.values():
                lease.replica.last_seen = min(now, lease.replica.last_seen + lateness)
        self.expire()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _parse_status(status: str) -> HealthState:
    """The reported state; degraded for an unknown one, which is no reason to keep calls away."""
    match status:
        case "healthy" | "unhealthy":
            return status
        case _:
            return "degraded"
