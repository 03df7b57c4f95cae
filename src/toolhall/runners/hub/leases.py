"""Who is there: a replica joins, says every few seconds that it is still there, and is gone when it says so no more."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from toolhall.dialects.hub.errors import HubError, Row
from toolhall.dialects.hub.leasing import LEASE_UNKNOWN
from toolhall.model.errors import Denied, NotFound, Unauthenticated, Unavailable
from toolhall.runners.hub.line import Line
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.replica import Health, Joined, Replica

HEARTBEAT_SECONDS = 5.0
EXPIRES_SECONDS = 15.0
_LATE_SECONDS = 7.5  # a heartbeat is missing, and the next is due
_DRAIN_SECONDS = 30.0
_MOST_EACH, _MOST = 200, 1_000  # replicas of one caller, and of all
_ASLEEP_SECONDS = 1.0  # an alarm that comes so late says that the hall itself stood still
_log = logging.getLogger("toolhall.toolservers")

IsProven: TypeAlias = Callable[[], bool | None]  # whether what a server joined with is still good; None: not known now


class UnknownLease(HubError, NotFound):
    """It has ended, or is another caller's."""

    row = Row(LEASE_UNKNOWN)
    message = "this lease is not known: join again"


def _yes() -> bool:
    return True


def _no() -> bool:
    return False


class Lease:
    """What a replica holds while it is there."""

    __slots__ = ("id", "is_proven", "left", "on_over", "over", "replica", "until")

    def __init__(self, replica: Replica, is_proven: IsProven) -> None:
        self.id = secrets.token_hex(16)
        self.replica = replica
        self.is_proven = is_proven
        self.on_over: Callable[[], None] | None = None
        self.until: float | None = None  # when it must have drained
        self.over = asyncio.Event()
        self.left = 0  # calls that ran when it was over


class Leases:
    """Puts replicas into the pools and takes them out; one alarm for all, and none while nobody is there."""

    def __init__(self, pools: Pools, clock: Callable[[], float]) -> None:
        self._pools = pools
        self._clock = clock
        self._leases: dict[str, Lease] = {}
        self._named: dict[tuple[str, str], Lease] = {}  # by caller, and the replica's word for itself
        self._callers: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._ending = False
        self.strained: Callable[[], bool] = _no  # whether the hall turns messages away, heartbeats among them

    def join(self, joined: Joined, line: Line, is_proven: IsProven = _yes) -> Lease:
        """It takes calls from now on; the same replica that joins again has a new lease, and its calls go on."""
        if is_proven() is False:  # it was when the message came
            raise Unauthenticated("the credential is good no longer")
        before = self._named.get((joined.by, joined.replica))
        if before is None:
            self._refuse_too_many(joined.by)
            replica = Replica(joined, line, self._clock)
            self._callers[joined.by] += 1
        else:
            replica = before.replica
            self._pools.remove(replica)
            self._end(before)
            replica.move(joined, line)
        lease = Lease(replica, is_proven)
        replica.lease, replica.seen = lease.id, self._clock()
        replica.on_idle = None
        self._leases[lease.id] = self._named[joined.by, joined.replica] = lease
        self._pools.add(replica)
        self._watch_again()
        return lease

    def heartbeat(self, lease: str, by: str, status: str = "healthy") -> Replica:
        """It is still there; UnknownLease if it is not, and where the lease is another caller's."""
        replica = self._own(lease, by).replica
        replica.beats(_health(status), self._clock())
        return replica

    async def leave(self, lease: str, by: str) -> int:
        """No new calls at once; returns when none runs, or after 30 seconds how many still did, which are lost."""
        leaving = self._own(lease, by)
        replica = leaving.replica
        if leaving.until is None:
            leaving.until = self._clock() + _DRAIN_SECONDS
            replica.draining = True
            if replica.running:
                replica.on_idle = lambda: self._remove(leaving)
                self._watch_again()
            else:
                self._remove(leaving)
        await leaving.over.wait()
        return leaving.left

    def cut(self, lease: str) -> None:
        """The socket that it was called over is closed; a lease that is over already is none of ours."""
        if (found := self._leases.get(lease)) is not None:
            if not self._ending:
                _log.warning("tool server %r closed its socket without a word", found.replica.server)
            self._remove(found, missed=not found.replica.draining)

    def keys_changed(self) -> None:
        """Whose key is good no longer is gone at once: the next call may bring secrets."""
        for lease in tuple(self._leases.values()):
            if lease.is_proven() is False:
                _log.warning("the key of tool server %r is good no longer: it is gone", lease.replica.server)
                self._remove(lease)

    @property
    def running_out(self) -> float | None:
        """When to look next; None while nobody is there."""
        return min((self._look_at(lease) for lease in self._leases.values()), default=None)

    def expire(self) -> None:
        """Take out who was not heard of for too long, and mark who is late."""
        now = self._clock()
        for lease in tuple(self._leases.values()):
            replica, silent = lease.replica, now - lease.replica.seen
            if lease.until is not None:
                if now >= lease.until:
                    self._remove(lease)
            elif silent >= _LATE_SECONDS and self._is_excused(lease):
                replica.seen, replica.late = now, False
            elif silent >= EXPIRES_SECONDS:
                _log.warning("tool server %r was not heard of for %.0f seconds: it is gone", replica.server, silent)
                self._remove(lease, missed=True)
            elif silent >= _LATE_SECONDS:
                replica.late = True
        self._watch_again()

    def end(self) -> None:
        """The hall stops, and it is the hall that closes the sockets now."""
        self._ending = True

    def watch(self) -> None:
        """From now on, in the loop that runs now, look by itself whose time is over."""
        self._disarm()  # an alarm of a loop that has ended never rings
        self._loop, self._ending = asyncio.get_running_loop(), False
        self._watch_again()

    def close(self) -> None:
        """Everybody is gone, and what runs is lost."""
        for lease in tuple(self._leases.values()):
            self._remove(lease)
        self._disarm()
        self._loop = None

    def _own(self, lease: str, by: str) -> Lease:
        found = self._leases.get(lease)
        if found is None or found.replica.by != by:
            raise UnknownLease
        return found

    def _is_excused(self, lease: Lease) -> bool:
        """Whether it may have said that it is there and was turned away: it answers, and nobody has shut it out."""
        replica = lease.replica
        return replica.joined.listens and replica.answers and self.strained() and lease.is_proven() is True

    def _refuse_too_many(self, by: str) -> None:
        if self._callers[by] >= _MOST_EACH:
            raise Denied(f"this caller has {_MOST_EACH} replicas here already: let some of them leave first")
        if len(self._leases) >= _MOST:
            raise Unavailable(f"{_MOST} replicas have joined this hall, and it takes no more: try again later")

    def _remove(self, lease: Lease, *, missed: bool = False) -> None:
        """Out of the pools first, so that no call that is lost now is tried there again."""
        replica = lease.replica
        replica.on_idle = None
        replica.draining = True
        self._pools.remove(replica, missed=missed)
        self._end(lease)
        del self._named[replica.by, replica.id]
        self._callers[replica.by] -= 1
        if not self._callers[replica.by]:
            del self._callers[replica.by]
        replica.close()

    def _end(self, lease: Lease) -> None:
        del self._leases[lease.id]
        lease.left = lease.replica.running
        lease.over.set()
        if lease.on_over is not None:
            lease.on_over()
        if not self._leases:
            self._disarm()

    def _look_at(self, lease: Lease) -> float:
        if lease.until is not None:
            return lease.until
        replica = lease.replica
        return replica.seen + (EXPIRES_SECONDS if replica.late else _LATE_SECONDS)

    def _watch_again(self) -> None:
        """Heartbeats move nobody's alarm: it rings at the first time that was due, and looks when the next is."""
        due = self.running_out
        if self._loop is None or due is None or (self._alarm is not None and self._due <= due):
            return
        self._disarm()
        self._due = due
        self._alarm = self._loop.call_later(max(0.0, due - self._clock()), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock()
        asleep = now - self._due
        if asleep > _ASLEEP_SECONDS:  # what was said meanwhile has not been read yet
            for lease in self._leases.values():
                lease.replica.seen = min(now, lease.replica.seen + asleep)
        self.expire()

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def _health(status: str) -> Health:
    """A word that is none of ours is no reason to keep calls away."""
    match status:
        case "healthy" | "unhealthy":
            return status
        case _:
            return "degraded"
