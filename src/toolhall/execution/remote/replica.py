"""`Replica`: one process of a tool server, its running calls and its health; `ReplicaCall`: one call at it."""

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from toolhall.execution.remote.circuit_breaker import CircuitBreaker
from toolhall.execution.remote.replica_transport import Transport

ToolkitVersion: TypeAlias = tuple[str, str]  # a toolkit and its version
HealthState: TypeAlias = Literal["healthy", "degraded", "unhealthy"]


class ReplicaInfo(msgspec.Struct, frozen=True):
    """Who joins, and with what."""

    server: str
    replica_id: str  # the process's own word for itself
    caller_id: str  # the id of the caller that it joined as
    toolkits: frozenset[ToolkitVersion]
    listens: bool = True  # it is called by HTTP; False: over the socket that it opened, which breaks with its calls


class Replica:
    """Counts what runs, and knows the signs of trouble; `Leases` says when it comes and goes."""

    __slots__ = (
        "_old_transports",
        "circuit",
        "draining",
        "has_probe_status",
        "heartbeat_late",
        "id",
        "info",
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
        self.last_seen = clock()  # when it last said that it is there
        self.status: HealthState = "healthy"
        self.unhealthy_toolkits: frozenset[str] = frozenset()  # toolkits that it says it cannot run now
        self.draining = False  # it is leaving: no new calls
        self.heartbeat_late = False  # heartbeats are missing
        self.unresponsive = False  # it did not answer a probe, or lost a call, or did not take one
        self.has_probe_status = False  # a probe was answered, which tells more than a heartbeat
        self.last_probe_succeeded = False  # the last probe, whatever became of calls
        self.on_idle: Callable[[], None] | None = None
        self.on_status_change: Callable[[], None] | None = None  # it says that it is otherwise than it was
        self._old_transports: Counter[Transport] = Counter()  # what still runs on lines that it had before

    @property
    def server(self) -> str:
        """The name of the tool server that it is one of."""
        return self.info.server

    @property
    def caller_id(self) -> str:
        """The id of the caller that it joined as."""
        return self.info.caller_id

    @property
    def is_suspected(self) -> bool:
        """Whether it gets a call only where there is no other."""
        return self.unresponsive or self.heartbeat_late

    def is_degraded(self, toolkit: str | None = None) -> bool:
        """Whether somebody should have a look at it, for the sake of this toolkit or at all."""
        if self.is_suspected or not self.circuit.is_closed or self.status == "degraded":
            return True
        return bool(self.unhealthy_toolkits) if toolkit is None else toolkit in self.unhealthy_toolkits

    def accepts_call(self, toolkit: str) -> bool:
        """Whether it may be given a call now."""
        return not self.draining and toolkit not in self.unhealthy_toolkits and self.circuit.allows_call()

    def begin_call(self) -> "ReplicaCall":
        """A call goes there, now."""
        self.running += 1
        return ReplicaCall(self)

    def end_call(self, transport: Transport) -> None:
        """A call is over."""
        self.running -= 1
        if transport is not self.transport:
            self._end_old_call(transport)
        if not self.running and self.on_idle is not None:
            self.on_idle()

    def rejoin(self, info: ReplicaInfo, transport: Transport) -> None:
        """The same process has joined again: what runs goes on, on the line on which it began, if that still holds."""
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
        """Everything that runs there is lost."""
        for line in (self.transport, *self._old_transports):
            line.close()

    def record_heartbeat(self, status: HealthState, now: float) -> None:
        """It says that it is there; of how it is, a probe tells more."""
        self.last_seen, self.heartbeat_late = now, False
        if not self.has_probe_status:
            self._set_status(status, {})

    def record_probe(self, status: HealthState, toolkits: dict[str, object]) -> None:
        """A probe went well; it says how each of its toolkits is."""
        self.unresponsive, self.has_probe_status, self.last_probe_succeeded = False, True, True
        self.circuit.record_probe_success()
        self._set_status(status, toolkits)

    def record_probe_failure(self) -> None:
        """A probe failed."""
        self.unresponsive, self.last_probe_succeeded = True, False
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
    """One call at one replica, until it is over."""

    __slots__ = ("is_trial", "replica", "transport")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.transport = replica.transport
        self.is_trial = replica.circuit.begin_call()

    def record_success(self) -> None:
        """With whatever the tool said."""
        replica = self.replica
        replica.unresponsive = False
        replica.circuit.record_success()

    def record_loss(self) -> None:
        """Nobody knows how it ended, or it never got there."""
        self.replica.unresponsive = True
        self.replica.circuit.record_failure()

    def record_rejection(self) -> None:
        """It is there, and does not begin with the call."""
        self.replica.unresponsive = True

    def end(self) -> None:
        """Exactly once, however it ended."""
        if self.is_trial:
            self.replica.circuit.end_trial()
        self.replica.end_call(self.transport)
