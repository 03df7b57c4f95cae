"""`ReplicaPools`: picks the least loaded healthy replica for a call, and reports the health of tool servers."""

from collections.abc import Callable, Collection, Iterable, Iterator
from random import Random

import msgspec

from toolhall.execution.remote.replica import HealthState, Replica, ToolkitVersion
from toolhall.model.errors import Unavailable
from toolhall.telemetry.metrics import Metric

_MAX_REMEMBERED = 10_000
_MISSING_SECONDS = 120.0  # for which a tool server that vanished without leaving is reported as unhealthy
_CACHE_SECONDS = 1.0  # the health endpoint needs no credential; states are computed no more often than this


class _HealthSnapshot(msgspec.Struct, frozen=True):
    """The states of tool servers and toolkits, and until when they are fresh."""

    servers: dict[str, HealthState]
    toolkits: dict[str, HealthState]
    fresh_until: float


class ReplicaPools:
    """The replicas of every toolkit version; a call of one version never goes to a replica of another."""

    def __init__(self, clock: Callable[[], float], rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._pools: dict[ToolkitVersion, list[Replica]] = {}
        self._replicas: dict[Replica, float] = {}  # and when each joined, in that order
        self._known: dict[ToolkitVersion, None] = {}  # that some replica ever ran
        self._missing: dict[tuple[str, str], float] = {}  # servers and toolkits that vanished, and when
        self._health_snapshot: _HealthSnapshot | None = None
        self.lost_calls = 0
        self.retried_calls = 0

    def __iter__(self) -> Iterator[Replica]:
        """All replicas, as a copy that may be iterated while they change."""
        return iter(tuple(self._replicas))

    def __len__(self) -> int:
        return len(self._replicas)

    def add(self, replica: Replica) -> None:
        """Add a replica, which takes calls from now on."""
        self._replicas[replica] = self._clock()
        replica.on_status_change = self._invalidate
        self._invalidate()
        self._missing.pop(("server", replica.server), None)
        for kit in replica.info.toolkits:
            self._pools.setdefault(kit, []).append(replica)
            self._missing.pop(("toolkit", kit[0]), None)
            if len(self._known) < _MAX_REMEMBERED:
                self._known[kit] = None

    def remove(self, replica: Replica, *, unannounced: bool = False) -> None:
        """Remove a replica. If it vanished `unannounced`, its server is reported as missing, unless it was replaced."""
        del self._replicas[replica]
        replica.on_status_change = None
        self._invalidate()
        for kit in replica.info.toolkits:
            self._pools[kit].remove(replica)
            if not self._pools[kit]:
                del self._pools[kit]
        if unannounced and len(self._missing) < _MAX_REMEMBERED and not self._is_replaced(replica):
            names = [("server", replica.server), *(("toolkit", toolkit) for toolkit, _ in replica.info.toolkits)]
            self._missing.update(dict.fromkeys(names, self._clock()))

    def has_replicas(self, kit: ToolkitVersion) -> bool:
        """Whether any replica runs this toolkit version now."""
        return kit in self._pools

    def is_known(self, toolkit: str, version: str) -> bool:
        """Whether any replica ever ran this toolkit version."""
        return (toolkit, version) in self._known

    def pick(self, toolkit: str, version: str, exclude: Collection[Replica] = ()) -> Replica:
        """The replica with the fewest running calls, ties at random; a suspected one only if there is no other.

        Raises Unavailable if no replica accepts the call.
        """
        pool = self._pools.get((toolkit, version), ())
        ties: list[Replica] = []
        least = -1
        for replica in pool:
            if (
                replica.unresponsive
                or replica.heartbeat_late
                or replica in exclude
                or not replica.accepts_call(toolkit)
            ):
                continue
            running = replica.running
            if running < least or not ties:
                least, ties = running, [replica]
            elif running == least:
                ties.append(replica)
        if not ties:
            ties = self._pick_suspected(toolkit, pool, exclude)
        return ties[0] if len(ties) == 1 else ties[int(self._rng.random() * len(ties))]

    def server_states(self) -> dict[str, HealthState]:
        """The state of each tool server, at most a second old."""
        return self._current_health().servers

    def toolkit_states(self) -> dict[str, HealthState]:
        """The state of each toolkit that tool servers run, at most a second old."""
        return self._current_health().toolkits

    def metrics(self) -> Iterator[Metric]:
        """The metrics of remote calls."""
        yield Metric("toolhall_replicas", "gauge", "Replicas of tool servers that have joined.", self.__len__)
        yield Metric(
            "toolhall_remote_calls_running", "gauge", "Calls that run in tool servers now.", self._running_calls
        )
        yield Metric(
            "toolhall_remote_calls_lost_total", "counter", "Calls lost with a replica.", lambda: self.lost_calls
        )
        yield Metric(
            "toolhall_remote_calls_tried_again_total",
            "counter",
            "Times a call was tried at another replica.",
            lambda: self.retried_calls,
        )

    def _running_calls(self) -> int:
        return sum(replica.running for replica in self._replicas)

    def _pick_suspected(self, toolkit: str, pool: Iterable[Replica], exclude: Collection[Replica]) -> list[Replica]:
        """The least loaded suspected replicas: a call that may be lost is better than one that is refused."""
        accepting = [replica for replica in pool if replica not in exclude and replica.accepts_call(toolkit)]
        if not accepting:
            raise _unavailable_error(toolkit, [replica for replica in pool if replica not in exclude])
        least = min(replica.running for replica in accepting)
        return [replica for replica in accepting if replica.running == least]

    def _is_replaced(self, replica: Replica) -> bool:
        """Whether another replica of the same server joined after this one was last seen, as after a quick restart."""
        for other, joined_at in reversed(self._replicas.items()):
            if joined_at <= replica.last_seen:
                return False
            if other.server == replica.server:
                return True
        return False

    def _invalidate(self) -> None:
        self._health_snapshot = None

    def _current_health(self) -> "_HealthSnapshot":
        now = self._clock()
        if self._health_snapshot is None or now >= self._health_snapshot.fresh_until:
            self._missing = {key: since for key, since in self._missing.items() if now - since < _MISSING_SECONDS}
            servers: dict[str, list[Replica]] = {}
            for replica in self._replicas:
                servers.setdefault(replica.server, []).append(replica)
            toolkits: dict[str, list[Replica]] = {}
            for (toolkit, _), pool in self._pools.items():
                toolkits.setdefault(toolkit, []).extend(pool)
            until = now + _CACHE_SECONDS
            self._health_snapshot = _HealthSnapshot(
                self._states_by_name("server", servers), self._states_by_name("toolkit", toolkits), until
            )
        return self._health_snapshot

    def _states_by_name(self, kind: str, by_name: dict[str, list[Replica]]) -> dict[str, HealthState]:
        troubled = {replica for replica in self._replicas if replica.draining or replica.is_degraded()}
        states: dict[str, HealthState] = {name: "unhealthy" for of_kind, name in self._missing if of_kind == kind}
        for name, replicas in by_name.items():
            healthy = troubled.isdisjoint(replicas)  # nearly always true, and quick for many replicas and toolkits
            state = "healthy" if healthy else _combined_state(name if kind == "toolkit" else None, replicas)
            states[name] = "degraded" if state == "healthy" and name in states else state
        return states


def _combined_state(toolkit: str | None, replicas: list[Replica]) -> HealthState:
    """The state of one toolkit, or of a server, which accepts calls as long as one of its toolkits does."""
    if not any(replica.accepts_call(kit) for replica in replicas for kit in _toolkits_of(toolkit, replica)):
        return "unhealthy"
    return "degraded" if any(replica.is_degraded(toolkit) for replica in replicas) else "healthy"


def _toolkits_of(toolkit: str | None, replica: Replica) -> set[str]:
    return {name for name, _ in replica.info.toolkits} if toolkit is None else {toolkit}


def _unavailable_error(toolkit: str, replicas: list[Replica]) -> Unavailable:
    open_for = [replica.circuit.retry_after for replica in replicas if not replica.circuit.is_closed]
    if open_for and len(open_for) == len([replica for replica in replicas if not replica.draining]):
        wait = max(1, round(min(open_for)))
        error = Unavailable(f"the tool servers of {toolkit} failed again and again; try again in {wait} seconds")
        error.retry_after = float(wait)
        return error
    if replicas and all(toolkit in replica.unhealthy_toolkits for replica in replicas):
        return Unavailable(f"the tool servers of {toolkit} say that they cannot run it now; try again later")
    return Unavailable(f"no tool server runs {toolkit} now; try again later")
