"""`Replica`: one process of a tool server, its running calls and its health (`CircuitBreaker`); `ReplicaCall`.

Theory of operation
-------------------
Existence and health are separate. A lease says that the process exists (see `leases`); the health of a replica decides
whether it gets calls, and is kept in five independent signs, because each of them has another source and another end:

- `draining`: the replica is leaving, gone, or drained by an operator. No new calls; never taken back, except by joining
  again.
- `unhealthy_toolkits`: the replica itself reports that it cannot run these toolkits. No calls of those; the next report
  decides again. Reports come with probes; heartbeats carry a status too, which counts only until the first probe.
- `circuit`: the replica failed again and again (lost calls, failed probes). No calls while it is open, one trial at a
  time while it is half-open (see `CircuitBreaker`).
- `unresponsive`: the last probe failed, or the last call was lost or rejected. Ends with a good probe or a call that
  comes back.
- `heartbeat_late`: a heartbeat is overdue. Ends with the next one.

The first three exclude a replica (`accepts_call`). The last two make it suspected (`is_suspected`): it gets a call only
if no other replica accepts it, because a call that may be lost is better than one that is certainly refused.
"""

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from toolhall.execution.remote.replica_transport import Transport

ToolkitVersion: TypeAlias = tuple[str, str]  # a toolkit and its version
HealthState: TypeAlias = Literal["healthy", "degraded", "unhealthy"]
CircuitState: TypeAlias = Literal["closed", "open", "half-open"]
FAILURE_THRESHOLD = 5  # lost calls and failed probes in a row
OPEN_SECONDS = 30.0
_TRIAL_INTERVAL_SECONDS = 5.0  # after a failed trial, before a good probe allows the next one


class ReplicaInfo(msgspec.Struct, frozen=True):
    """A replica as it joined: its server, its caller, and the toolkits it runs."""

    server: str
    replica_id: str  # chosen by the process
    caller_id: str  # the caller that joined it
    toolkits: frozenset[ToolkitVersion]
    listens: bool = True  # it is called over HTTP; False: over the WebSocket that it opened
    address: str | None = None  # the origin that it listens at


class Replica:
    """Counts running calls and keeps the signs of health; `LeaseManager` adds and removes it."""

    __slots__ = (
        "_clock",
        "_old_transports",
        "circuit",
        "draining",
        "has_probe_status",
        "heartbeat_late",
        "id",
        "info",
        "joined_at",
        "last_probe_at",
        "last_probe_succeeded",
        "last_seen",
        "lease",
        "on_idle",
        "on_status_change",
        "running",
        "status",
        "transport",
        "unhealthy_toolkits",
        "unresponsive",
    )

    def __init__(self, info: ReplicaInfo, transport: Transport, clock: Callable[[], float]) -> None:
        self.id = info.replica_id
        self.lease = ""
        self.info = info
        self.transport = transport
        self.circuit = CircuitBreaker(clock)
        self.running = 0
        self._clock = clock
        self.joined_at = self.last_seen = clock()  # `last_seen` is the time of the last heartbeat
        self.last_probe_at: float | None = None
        self.status: HealthState = "healthy"
        self.unhealthy_toolkits: frozenset[str] = frozenset()  # that it reports it cannot run now
        self.draining = False  # leaving or gone: no new calls
        self.heartbeat_late = False  # a heartbeat is overdue
        self.unresponsive = False  # the last probe failed, or the last call was lost or rejected
        self.has_probe_status = False  # `status` comes from a probe, which outranks heartbeats
        self.last_probe_succeeded = False  # whatever became of calls
        self.on_idle: Callable[[], None] | None = None
        self.on_status_change: Callable[[], None] | None = None  # called when the reported status changes
        self._old_transports: Counter[Transport] = Counter()  # calls that still run on earlier transports

    @property
    def server(self) -> str:
        """The name of its tool server."""
        return self.info.server

    @property
    def caller_id(self) -> str:
        """The id of the caller that joined it."""
        return self.info.caller_id

    @property
    def is_suspected(self) -> bool:
        """Whether it gets calls only if no other replica accepts them."""
        return self.unresponsive or self.heartbeat_late

    def is_degraded(self, toolkit: str | None = None) -> bool:
        """Whether it shows any sign of trouble that concerns this toolkit, or any toolkit."""
        if self.is_suspected or not self.circuit.is_closed or self.status == "degraded":
            return True
        return bool(self.unhealthy_toolkits) if toolkit is None else toolkit in self.unhealthy_toolkits

    def accepts_call(self, toolkit: str) -> bool:
        """Whether it may get a call of this toolkit now."""
        circuit = self.circuit
        return (
            not self.draining
            and toolkit not in self.unhealthy_toolkits
            and (circuit.is_closed or circuit.allows_call())
        )

    def begin_call(self) -> "ReplicaCall":
        """Count a call that goes to this replica now."""
        return ReplicaCall(self)

    def end_call(self, transport: Transport) -> None:
        """Count the end of a call; closes an earlier transport after its last call."""
        self.running -= 1
        if transport is not self.transport:
            self._end_old_call(transport)
        if not self.running and self.on_idle is not None:
            self.on_idle()

    def rejoin(self, info: ReplicaInfo, transport: Transport) -> None:
        """Take over a new lease of the same process; running calls go on over the transport on which they began."""
        if transport is not self.transport:
            old, running = self.transport, self.running - self._old_transports.total()
            self._old_transports.pop(transport, None)
            self.transport = transport
            if running:
                self._old_transports[old] = running
            if not running or not self.info.listens:
                old.close()
        self.info = info
        self.draining = self.heartbeat_late = self.unresponsive = self.has_probe_status = False
        self._set_status("healthy", {})
        self.circuit.record_probe_success()

    def close(self) -> None:
        """Close all transports: every running call is lost."""
        for transport in (self.transport, *self._old_transports):
            transport.close()

    def record_heartbeat(self, status: HealthState, now: float) -> None:
        """Record a heartbeat; its status counts only while no probe has succeeded."""
        self.last_seen, self.heartbeat_late = now, False
        if not self.has_probe_status:
            self._set_status(status, {})

    def record_probe(self, status: HealthState, toolkits: dict[str, object]) -> None:
        """Record a good probe, with the reported state of the replica and of each toolkit."""
        self.unresponsive, self.has_probe_status, self.last_probe_succeeded = False, True, True
        self.last_probe_at = self._clock()
        self.circuit.record_probe_success()
        self._set_status(status, toolkits)

    def record_probe_failure(self) -> None:
        """Record a failed probe."""
        self.unresponsive, self.last_probe_succeeded = True, False
        self.last_probe_at = self._clock()
        self.circuit.record_probe_failure()

    def _set_status(self, status: HealthState, toolkits: dict[str, object]) -> None:
        before = self.status, self.unhealthy_toolkits
        self.status, self.unhealthy_toolkits = status, frozenset()
        if status == "unhealthy":
            own = {toolkit for toolkit, _ in self.info.toolkits}
            named = frozenset(toolkit for toolkit in own if toolkits.get(toolkit) == "unhealthy")
            self.unhealthy_toolkits = named or frozenset(own)
        if self.on_status_change is not None and before != (self.status, self.unhealthy_toolkits):
            self.on_status_change()

    def _end_old_call(self, transport: Transport) -> None:
        self._old_transports[transport] -= 1
        if self._old_transports[transport] <= 0:
            del self._old_transports[transport]
            transport.close()


class ReplicaCall:
    """One call at one replica: reports its outcome to the replica's health, and `end`s exactly once."""

    __slots__ = ("is_trial", "replica", "transport")

    def __init__(self, replica: Replica) -> None:
        replica.running += 1
        self.replica = replica
        self.transport = replica.transport
        self.is_trial = not replica.circuit.is_closed and replica.circuit.begin_call()

    def record_success(self) -> None:
        """The call came back, with a result or an error of the tool."""
        replica = self.replica
        replica.unresponsive = False
        replica.circuit.record_success()

    def record_loss(self) -> None:
        """The call was lost: it was not delivered, or its end is unknown."""
        self.replica.unresponsive = True
        self.replica.circuit.record_failure()

    def record_rejection(self) -> None:
        """The replica answered that it did not start the call."""
        self.replica.unresponsive = True

    def end(self) -> None:
        """End the call, whatever its outcome; must be called exactly once."""
        if self.is_trial:
            self.replica.circuit.end_trial()
        self.replica.end_call(self.transport)


class CircuitBreaker:
    """The circuit of one replica. Closed: calls pass. Open: none does. Half-open: one trial call at a time passes.

    A failure is a lost call or a failed probe; an error that the tool itself returns is none. Five in a row open the
    circuit for 30 seconds, then it is half-open: a trial that comes back closes it, one that is lost opens it again. A
    good probe makes it half-open before that time, but never closes it, because a probe runs no tool.
    """

    __slots__ = (
        "_clock",
        "_failed_probes",
        "_lost_calls",
        "_next_trial_at",
        "_open_until",
        "_trial_running",
        "is_closed",
    )

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.is_closed = True  # as nearly always: ReplicaPools.pick reads only this then
        self._lost_calls = 0  # since a call that came back
        self._failed_probes = 0  # since a good probe, or a call that came back
        self._open_until = 0.0  # when it becomes half-open by itself
        self._next_trial_at = 0.0  # the earliest time at which a good probe makes it half-open
        self._trial_running = False

    @property
    def state(self) -> CircuitState:
        """The state as the hub protocol names it."""
        if self.is_closed:
            return "closed"
        return "half-open" if self._clock() >= self._open_until else "open"

    @property
    def has_failures(self) -> bool:
        """Whether a call or a probe failed since the last call that came back."""
        return bool(self._lost_calls or self._failed_probes)

    @property
    def retry_after(self) -> float:
        """Seconds until the circuit becomes half-open by itself."""
        return 0.0 if self.is_closed else max(0.0, self._open_until - self._clock())

    def allows_call(self) -> bool:
        """Whether a call may pass now, as a trial if the circuit is half-open."""
        return self.is_closed or (not self._trial_running and self._clock() >= self._open_until)

    def begin_call(self) -> bool:
        """Count a call that passes; True if it is the trial, which must `end_trial`."""
        if self.is_closed:
            return False
        self._trial_running = True
        return True

    def end_trial(self) -> None:
        """Allow the next trial, however this one ended."""
        self._trial_running = False

    def record_success(self) -> None:
        """Record that a call came back; one that began before the circuit opened counts as a good probe."""
        if not self.is_closed and self.state == "open":
            self.record_probe_success()
        else:
            self.is_closed = True
            self._lost_calls = self._failed_probes = 0

    def record_failure(self) -> None:
        """Record a lost call."""
        self._lost_calls += 1
        self._open_if_failing()

    def record_probe_failure(self) -> None:
        """Record a failed probe."""
        self._failed_probes += 1
        self._open_if_failing()

    def record_probe_success(self) -> None:
        """Record a good probe: an open circuit becomes half-open, unless a trial failed a moment ago."""
        self._failed_probes = 0
        if not self.is_closed and (now := self._clock()) >= self._next_trial_at:
            self._open_until = min(self._open_until, now)

    def _open_if_failing(self) -> None:
        state, now = self.state, self._clock()
        if state == "half-open":
            self._open(now, now + _TRIAL_INTERVAL_SECONDS)
        elif state == "closed" and self._lost_calls + self._failed_probes >= FAILURE_THRESHOLD:
            self._open(now, now)

    def _open(self, now: float, next_trial_at: float) -> None:
        self.is_closed = False
        self._open_until, self._next_trial_at = now + OPEN_SECONDS, next_trial_at
