"""How much of random and bulky tests runs: a part by default, all with TOOLHALL_ALL_SEEDS=1 (`make test-all`)."""

import os
from collections.abc import Sequence
from typing import TypeVar

ALL_SEEDS_VARIABLE = "TOOLHALL_ALL_SEEDS"
DEFAULT_SEEDS = 2
_EXAMPLES_SHARE = 4  # one of so many examples of a property
_MIN_EXAMPLES = 25
_SAMPLE = 250  # rows of a corpus
T = TypeVar("T")


def runs_everything() -> bool:
    """Whether this is the full run."""
    return os.environ.get(ALL_SEEDS_VARIABLE) == "1"


def seeds(count: int) -> range:
    """Return the seeds from 0 to run now, out of `count` in a full run; a seed always means the same sequence."""
    return range(count if runs_everything() else min(count, DEFAULT_SEEDS))


def examples(count: int) -> int:
    """Return how many examples of a property to try now, out of `count` in a full run."""
    return count if runs_everything() else max(count // _EXAMPLES_SHARE, min(count, _MIN_EXAMPLES))


def count(default: int, full: int) -> int:
    """Return how often to repeat something now: `full` times in a full run."""
    return full if runs_everything() else default


def sample(rows: Sequence[T]) -> Sequence[T]:
    """Return rows spread evenly over a large table; all of them in a full run."""
    if runs_everything() or len(rows) <= _SAMPLE:
        return rows
    return rows[:: -(-len(rows) // _SAMPLE)]
