"""StageTimes: how long one call spends in each stage, taken for few calls because every stage costs a clock reading.

`TimedCalls` chooses them: all while somebody watches; else the ones that follow a call that was refused, failed or
slow, since such calls come again, and one in many.

Time counts for the stage that was entered last, so that the times of a call add up to its duration: what lies between
two stages belongs to the one before, and everything before the first to find. A call that follows a plan never enters
authorize, verify and equip by themselves; their times are 0.
"""

from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat
from typing import Generic, TypeVar

from toolhall.model.call_records import CALL_STAGES, CallStage
from toolhall.pipeline.states import Stage, StageChain

SAMPLED_CALLS = 500  # while nobody watches the calls, the times of one in so many are taken: it costs several stages
FOLLOWING_CALLS = 4  # so many after a call that did not go well
SLOW_SECONDS = 1.0
StateT = TypeVar("StateT")
NextT = TypeVar("NextT")


class TimedCalls:
    """Chooses the calls whose times are taken: `next(timed.calls)` is whether those of this call are."""

    __slots__ = ("_few", "_watched", "calls")

    def __init__(self) -> None:
        self._few = cycle((False,) * (SAMPLED_CALLS - 1) + (True,))
        self._watched = False
        self.calls: Iterator[bool] = self._few

    def watch(self, *, watched: bool) -> None:
        """Take the times of every call, because somebody watches them, or only of a few."""
        self._watched = watched
        self.calls = repeat(True) if watched else self._few

    def follow_up(self) -> None:
        """Take the times of the next calls, because one did not go well."""
        if not self._watched:
            self.calls = chain(repeat(True, FOLLOWING_CALLS), self._few)


class StageTimes:
    """The time that one call has spent in each stage so far."""

    def __init__(self, started: float, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._seconds: dict[CallStage, float] = dict.fromkeys(CALL_STAGES, 0.0)
        self._stage: CallStage = "find"
        self._since = started

    def enter(self, stage: CallStage) -> None:
        """Count the time from now on for this stage."""
        now = self._timer()
        self._seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now

    def finish(self, now: float, duration_us: int) -> tuple[int, ...]:
        """Return the microseconds per stage, which add up to the duration exactly."""
        self._seconds[self._stage] += now - self._since
        self._since = now
        ends: list[int] = []
        passed = 0.0
        for seconds in self._seconds.values():
            passed += seconds
            ends.append(min(int(passed * 1e6), duration_us))
        ends[-1] = duration_us
        return tuple(end - begin for begin, end in zip([0, *ends], ends, strict=False))

    def watch(self, chain: StageChain) -> StageChain:
        """Return the stages for this call: each one notes when it is entered."""
        return StageChain(
            find=_WatchedStage(self, "find", chain.find),
            authorize=_WatchedStage(self, "authorize", chain.authorize),
            limit=_WatchedStage(self, "limit", chain.limit),
            validate=_WatchedStage(self, "validate", chain.validate),
            verify=_WatchedStage(self, "verify", chain.verify),
            equip=_WatchedStage(self, "equip", chain.equip),
            run=_WatchedStage(self, "run", chain.run),
            check=_WatchedStage(self, "check", chain.check),
            sanitize=_WatchedStage(self, "sanitize", chain.sanitize),
        )


class _WatchedStage(Generic[StateT, NextT]):
    """A stage of one call that notes when it is entered."""

    __slots__ = ("_name", "_stage", "_times")

    def __init__(self, times: StageTimes, name: CallStage, stage: Stage[StateT, NextT]) -> None:
        self._times = times
        self._name: CallStage = name
        self._stage = stage

    def __call__(self, state: StateT, /) -> NextT:
        self._times.enter(self._name)
        return self._stage(state)
