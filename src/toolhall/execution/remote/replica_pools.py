"""`ReplicaPools`: picks the least loaded healthy replica for a call; `HealthProber`: probes all of them."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from random import Random

import msgspec

from toolhall.dialects.hub.call_messages import HEALTH, write_request
from toolhall.egress.exchange import ExchangeLost
from toolhall.execution.remote.replica import HealthState, Replica, ToolkitVersion
from toolhall.model.errors import Unavailable
from toolhall.model.json import Json, JsonObject
from toolhall.telemetry import Metric

_MAX_REMEMBERED = 10_000
_MISSING_SECONDS = 120.0  # for which a tool server that vanished without leaving is reported as unhealthy
_CACHE_SECONDS = 1.0  # the health endpoint needs no credential; states are computed no more often than this
_PROBE_INTERVAL_SECONDS = 2.0
PROBE_TIMEOUT_SECONDS = 2.0
_MAX_CONCURRENT_PROBES = 64
_log = logging.getLogger("toolhall.toolservers")


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
        if len(pool) == 1 and not exclude and pool[0].accepts_call(toolkit):
            return pool[0]  # suspected or not, there is no other
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

    def seconds_ago(self, moment: float) -> float:
        """Return how long ago a moment of a replica was."""
        return self._clock() - moment

    def forget_server(self, server: str) -> None:
        """Report a server that vanished as missing no longer."""
        self._missing.pop(("server", server), None)
        self._invalidate()

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


class HealthProber:
    """Probes all replicas from one task, each over the transport of its calls."""

    def __init__(
        self, pools: ReplicaPools, interval: float = _PROBE_INTERVAL_SECONDS, timeout: float = PROBE_TIMEOUT_SECONDS
    ) -> None:
        self._pools = pools
        self._interval = interval
        self._timeout = timeout
        self._ids = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Probe from now on, in the running loop."""
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="probing tool servers")

    def close(self) -> None:
        """Stop probing; a task whose loop is closed has ended with it."""
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    async def probe_all(self) -> None:
        """Probe every replica, up to 64 at a time; one that does not answer delays others by the timeout at most."""
        replicas = tuple(self._pools)
        if not replicas:
            return
        remaining = iter(replicas)  # shared by the tasks
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_MAX_CONCURRENT_PROBES, len(replicas))):
                group.create_task(self._probe_each(remaining))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.probe_all()
            await asyncio.sleep(max(0.0, began + self._interval - loop.time()))

    async def _probe_each(self, replicas: Iterator[Replica]) -> None:
        for replica in replicas:
            try:
                await self._probe(replica)
            except Exception:  # noqa: BLE001 - a bug must not end the probes of all others
                _log.exception("a replica of the tool server %r cannot be probed", replica.server)
                replica.record_probe_failure()

    async def _probe(self, replica: Replica) -> None:
        probe_id = f"h{next(self._ids)}"
        try:
            async with asyncio.timeout(self._timeout):
                response = await replica.transport.request(write_request(probe_id, HEALTH, {}), probe_id)
        except (ExchangeLost, TimeoutError):
            health = None
        else:
            health = _parse_health(response)
        if health is not None:
            replica.record_probe(*health)
            return
        if not replica.unresponsive:
            _log.warning("a replica of the tool server %r does not answer", replica.server)
        replica.record_probe_failure()


def _parse_health(response: JsonObject) -> tuple[HealthState, dict[str, Json]] | None:
    """The state of the replica and of its toolkits; None if the response is not a health response."""
    result = response.get("result")
    if not isinstance(result, dict):
        return None
    match result.get("status"):
        case "healthy" | "degraded" | "unhealthy" as status:
            parts = result.get("components")
            tools = parts.get("tools") if isinstance(parts, dict) else None
            return status, tools if isinstance(tools, dict) else {}
        case _:
            return None
