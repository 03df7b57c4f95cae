"""Options of a run, and rounds that measure several things in turn, so that all of them see the same machine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

# The last commit before connections recognized heads and calls had plans: what later work is compared with.
BEFORE = "cf7fb8f"


class Options(NamedTuple):
    """How long to measure, and what to compare this tree with."""

    rounds: int
    seconds: int = 1  # of load, each time
    before: str = BEFORE  # revision of git that `cli` and `stdio` run beside this tree
    python: Path | None = None  # another interpreter, for `python`

    def halved(self) -> "Options":
        """For measures that take long or vary little."""
        return self._replace(rounds=max(2, self.rounds // 2))


def interleaved(lanes: Mapping[str, Callable[[], T]], rounds: int, *, warm: bool = True) -> dict[str, list[T]]:
    """What each lane gave in each round; every other round runs backwards, and a first one only warms up."""
    seen: dict[str, list[T]] = {name: [] for name in lanes}
    if warm:
        for measure in lanes.values():
            measure()
    for number in range(rounds):
        for name in sorted(lanes, key=list(lanes).index, reverse=number % 2 == 1):
            seen[name].append(lanes[name]())
    return seen
