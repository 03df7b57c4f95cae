"""Options of a run of the benchmark, which every measure is given."""

from pathlib import Path
from typing import NamedTuple

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
