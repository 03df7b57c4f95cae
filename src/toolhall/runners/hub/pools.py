"""Which replica gets the next call of a toolkit: the one with the least to do, among those that are well."""

from collections.abc import Callable, Collection, Iterable, Iterator
from random import Random

import msgspec

from toolhall.model.errors import Unavailable
from toolhall.runners.hub.replica import Health, Kit, Replica
from toolhall.telemetry.figures import Gauge

_MOST_REMEMBERED = 10_000
_MISSED_SECONDS = 120.0  # so long it is said that a tool server is gone which did not say goodbye
_FRESH_SECONDS = 1.0  # anybody may ask how all of them are; they are not looked at more often than this


class _Found(msgspec.Struct, frozen=True):
    """How tool servers and toolkits were, and until when that is good."""

    servers: dict[str, Health]
    toolkits: dict[str, Health]
    until: float


class Pools:
    """The replicas of every version of every toolkit; a call of one version is never given to another."""

    def __init__(self, clock: Callable[[], float], rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._pools: dict[Kit, list[Replica]] = {}
        self._replicas: dict[Replica, float] = {}  # and when they came, in that order
        self._known: dict[Kit, None] = {}  # what ever was there
        self._missed: dict[tuple[str, str], float] = {}  # servers and toolkits that are gone, and since when
        self._found: _Found | None = None  # how all were when somebody last asked
        self.lost = 0  # calls
        self.tried_again = 0

    def __iter__(self) -> Iterator[Replica]:
        """All of them, as they are now."""
        return iter(tuple(self._replicas))

    def __len__(self) -> int:
        return len(self._replicas)

    def add(self, replica: Replica) -> None:
        """It takes calls from now on."""
        self._replicas[replica] = self._clock()
        replica.on_word = self._look_again
        self._look_again()
        self._missed.pop(("server", replica.server), None)
        for kit in replica.joined.tools:
            self._pools.setdefault(kit, []).append(replica)
            self._missed.pop(("toolkit", kit[0]), None)
            if len(self._known) < _MOST_REMEMBERED:
                self._known[kit] = None

    def remove(self, replica: Replica, *, missed: bool = False) -> None:
        """It takes none any more; `missed` if it went without a word, which is no news once another took its place."""
        del self._replicas[replica]
        replica.on_word = None
        self._look_again()
        for kit in replica.joined.tools:
            self._pools[kit].remove(replica)
            if not self._pools[kit]:
                del self._pools[kit]
        if missed and len(self._missed) < _MOST_REMEMBERED and not self._is_replaced(replica):
            names = [("server", replica.server), *(("toolkit", toolkit) for toolkit, _ in replica.joined.tools)]
            self._missed.update(dict.fromkeys(names, self._clock()))

    def runs(self, kit: Kit) -> bool:
        """Whether anything is there for it now."""
        return kit in self._pools

    def knows(self, toolkit: str, version: str) -> bool:
        """Whether anything ever ran it."""
        return (toolkit, version) in self._known

    def pick(self, toolkit: str, version: str, without: Collection[Replica] = ()) -> Replica:
        """The one with the least to do, ties at random; a suspect one only where there is no other. Or Unavailable."""
        pool = self._pools.get((toolkit, version), ())
        ties: list[Replica] = []
        least = -1
        for replica in pool:
            if replica.mute or replica.late or replica in without or not replica.takes(toolkit):
                continue
            running = replica.running
            if running < least or not ties:
                least, ties = running, [replica]
            elif running == least:
                ties.append(replica)
        if not ties:
            ties = self._suspects(toolkit, pool, without)
        return ties[0] if len(ties) == 1 else ties[int(self._rng.random() * len(ties))]

    def states(self) -> dict[str, Health]:
        """How each tool server is, or was a moment ago."""
        return self._look().servers

    def toolkit_states(self) -> dict[str, Health]:
        """How each toolkit is that tool servers run, or was a moment ago."""
        return self._look().toolkits

    def figures(self) -> Iterator[Gauge]:
        """What an operator can watch of it."""
        yield Gauge("toolhall_replicas", "gauge", "Replicas of tool servers that have joined.", self.__len__)
        yield Gauge("toolhall_remote_calls_running", "gauge", "Calls that run in tool servers now.", self._running)
        yield Gauge("toolhall_remote_calls_lost_total", "counter", "Calls lost with a replica.", lambda: self.lost)
        yield Gauge(
            "toolhall_remote_calls_tried_again_total",
            "counter",
            "Times a call was tried at another replica.",
            lambda: self.tried_again,
        )

    def _running(self) -> int:
        return sum(replica.running for replica in self._replicas)

    def _suspects(self, toolkit: str, pool: Iterable[Replica], without: Collection[Replica]) -> list[Replica]:
        """Better a call that may be lost than one that is refused for certain."""
        taking = [replica for replica in pool if replica not in without and replica.takes(toolkit)]
        if not taking:
            raise _refusal(toolkit, [each for each in pool if each not in without])
        least = min(replica.running for replica in taking)
        return [replica for replica in taking if replica.running == least]

    def _is_replaced(self, replica: Replica) -> bool:
        """Whether one of the same server has come since this one was last heard of, as after a quick restart."""
        for other, came in reversed(self._replicas.items()):
            if came <= replica.seen:
                return False
            if other.server == replica.server:
                return True
        return False

    def _look_again(self) -> None:
        self._found = None

    def _look(self) -> "_Found":
        now = self._clock()
        if self._found is None or now >= self._found.until:
            self._missed = {key: since for key, since in self._missed.items() if now - since < _MISSED_SECONDS}
            servers: dict[str, list[Replica]] = {}
            for replica in self._replicas:
                servers.setdefault(replica.server, []).append(replica)
            toolkits: dict[str, list[Replica]] = {}
            for (toolkit, _), pool in self._pools.items():
                toolkits.setdefault(toolkit, []).extend(pool)
            until = now + _FRESH_SECONDS
            self._found = _Found(self._states("server", servers), self._states("toolkit", toolkits), until)
        return self._found

    def _states(self, kind: str, by_name: dict[str, list[Replica]]) -> dict[str, Health]:
        shaky = {replica for replica in self._replicas if replica.draining or replica.is_troubled()}
        states: dict[str, Health] = {name: "unhealthy" for of_kind, name in self._missed if of_kind == kind}
        for name, replicas in by_name.items():
            healthy = shaky.isdisjoint(replicas)  # as nearly always, and of many replicas and toolkits quickly seen
            state = "healthy" if healthy else _state(name if kind == "toolkit" else None, replicas)
            states[name] = "degraded" if state == "healthy" and name in states else state
        return states


def _state(toolkit: str | None, replicas: list[Replica]) -> Health:
    """Of one toolkit, or of a server, which takes calls as long as one of its toolkits does."""
    if not any(replica.takes(kit) for replica in replicas for kit in _kits(toolkit, replica)):
        return "unhealthy"
    return "degraded" if any(replica.is_troubled(toolkit) for replica in replicas) else "healthy"


def _kits(toolkit: str | None, replica: Replica) -> set[str]:
    return {name for name, _ in replica.joined.tools} if toolkit is None else {toolkit}


def _refusal(toolkit: str, replicas: list[Replica]) -> Unavailable:
    opened = [replica.circuit.retry_after for replica in replicas if not replica.circuit.closed]
    if opened and len(opened) == len([replica for replica in replicas if not replica.draining]):
        wait = max(1, round(min(opened)))
        error = Unavailable(f"the tool servers of {toolkit} failed again and again; try again in {wait} seconds")
        error.retry_after = float(wait)
        return error
    if replicas and all(toolkit in replica.unwell for replica in replicas):
        return Unavailable(f"the tool servers of {toolkit} say that they cannot run it now; try again later")
    return Unavailable(f"no tool server runs {toolkit} now; try again later")
