"""Measures several things in turn, over and over, so that all of them see the same machine."""

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


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
