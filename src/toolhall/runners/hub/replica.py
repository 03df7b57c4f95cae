"""One process of a tool server: what runs there now, and whether it should get more."""

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from toolhall.runners.hub.circuit import Circuit
from toolhall.runners.hub.line import Line

Kit: TypeAlias = tuple[str, str]  # a toolkit and its version
Health: TypeAlias = Literal["healthy", "degraded", "unhealthy"]


class Joined(msgspec.Struct, frozen=True):
    """Who joins, and with what."""

    server: str
    replica: str  # the process's own word for itself
    by: str  # the id of the caller that it joined as
    tools: frozenset[Kit]
    listens: bool = True  # it is called by HTTP; False: over the socket that it opened, which breaks with its calls


class Replica:
    """Counts what runs, and knows the signs of trouble; `Leases` says when it comes and goes."""

    __slots__ = (
        "_elsewhere",
        "answers",
        "circuit",
        "draining",
        "id",
        "joined",
        "late",
        "lease",
        "line",
        "mute",
        "on_idle",
        "on_word",
        "probed",
        "running",
        "seen",
        "status",
        "unwell",
    )

    def __init__(self, joined: Joined, line: Line, clock: Callable[[], float]) -> None:
        self.id = joined.replica
        self.lease = ""
        self.joined = joined
        self.line = line
        self.circuit = Circuit(clock)
        self.running = 0
        self.seen = clock()  # when it last said that it is there
        self.status: Health = "healthy"
        self.unwell: frozenset[str] = frozenset()  # toolkits that it says it cannot run now
        self.draining = False  # it is leaving: no new calls
        self.late = False  # heartbeats are missing
        self.mute = False  # it did not answer a probe, or lost a call, or did not take one
        self.probed = False  # a probe was answered, which tells more than a heartbeat
        self.answers = False  # the last probe, whatever became of calls
        self.on_idle: Callable[[], None] | None = None
        self.on_word: Callable[[], None] | None = None  # it says that it is otherwise than it was
        self._elsewhere: Counter[Line] = Counter()  # what still runs on lines that it had before

    @property
    def server(self) -> str:
        """The name of the tool server that it is one of."""
        return self.joined.server

    @property
    def by(self) -> str:
        """The id of the caller that it joined as."""
        return self.joined.by

    @property
    def suspect(self) -> bool:
        """Whether it gets a call only where there is no other."""
        return self.mute or self.late

    def is_troubled(self, toolkit: str | None = None) -> bool:
        """Whether somebody should have a look at it, for the sake of this toolkit or at all."""
        if self.suspect or not self.circuit.closed or self.status == "degraded":
            return True
        return bool(self.unwell) if toolkit is None else toolkit in self.unwell

    def takes(self, toolkit: str) -> bool:
        """Whether it may be given a call now."""
        return not self.draining and toolkit not in self.unwell and self.circuit.takes()

    def begin(self) -> "Turn":
        """A call goes there, now."""
        self.running += 1
        return Turn(self)

    def end(self, line: Line) -> None:
        """A call is over."""
        self.running -= 1
        if line is not self.line:
            self._end_elsewhere(line)
        if not self.running and self.on_idle is not None:
            self.on_idle()

    def move(self, joined: Joined, line: Line) -> None:
        """The same process has joined again: what runs goes on, on the line on which it began, if that still holds."""
        if line is not self.line:
            old, running = self.line, self.running - self._elsewhere.total()
            self._elsewhere.pop(line, None)
            self.line = line
            if running:
                self._elsewhere[old] = running
            if not running or not self.joined.listens:
                old.close()
        self.joined = joined
        self.draining = self.late = self.mute = self.probed = False
        self._says("healthy", {})
        self.circuit.probed()

    def close(self) -> None:
        """Everything that runs there is lost."""
        for line in (self.line, *self._elsewhere):
            line.close()

    def beats(self, status: Health, now: float) -> None:
        """It says that it is there; of how it is, a probe tells more."""
        self.seen, self.late = now, False
        if not self.probed:
            self._says(status, {})

    def answered(self, status: Health, toolkits: dict[str, object]) -> None:
        """A probe went well; it says how each of its toolkits is."""
        self.mute, self.probed, self.answers = False, True, True
        self.circuit.probed()
        self._says(status, toolkits)

    def missed(self) -> None:
        """A probe failed."""
        self.mute, self.answers = True, False
        self.circuit.missed()

    def _says(self, status: Health, toolkits: dict[str, object]) -> None:
        before = self.status, self.unwell
        self.status, self.unwell = status, frozenset()
        if status == "unhealthy":
            own = {toolkit for toolkit, _ in self.joined.tools}
            named = frozenset(toolkit for toolkit in own if toolkits.get(toolkit) == "unhealthy")
            self.unwell = named or frozenset(own)
        if self.on_word is not None and before != (self.status, self.unwell):
            self.on_word()

    def _end_elsewhere(self, line: Line) -> None:
        self._elsewhere[line] -= 1
        if self._elsewhere[line] <= 0:
            del self._elsewhere[line]
            line.close()


class Turn:
    """One call at one replica, until it is over."""

    __slots__ = ("is_trial", "line", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.line = replica.line
        self.is_trial = replica.circuit.enter()

    def came_back(self) -> None:
        """With whatever the tool said."""
        replica = self.replica
        replica.mute = False
        replica.circuit.succeeded()

    def was_lost(self) -> None:
        """Nobody knows how it ended, or it never got there."""
        self.replica.mute = True
        self.replica.circuit.failed()

    def was_refused(self) -> None:
        """It is there, and does not begin with the call."""
        self.replica.mute = True

    def end(self) -> None:
        """Exactly once, however it ended."""
        if self.is_trial:
            self.replica.circuit.leave()
        self.replica.end(self.line)
