"""How many random seeds a fault test runs: two by default, all of them with TOOLHALL_ALL_SEEDS=1 (`make test-all`)."""

import os

ALL_SEEDS_VARIABLE = "TOOLHALL_ALL_SEEDS"
DEFAULT_SEEDS = 2


def seeds(count: int) -> range:
    """Return the seeds from 0 to run now, out of `count` in a full run; a seed always means the same sequence."""
    return range(count if os.environ.get(ALL_SEEDS_VARIABLE) == "1" else min(count, DEFAULT_SEEDS))
