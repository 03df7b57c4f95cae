"""A figure measured several times: its median, with the least and the most that were seen."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """Median, least, most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of these values."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int = 0) -> str:
        """`12.3 (11.9-14.0)`."""
        return self.written(lambda value: f"{value:,.{digits}f}")

    def written(self, write: Callable[[float], str]) -> str:
        """The same with each number written in another way; of a single value only the value."""
        if self.least == self.most:
            return write(self.median)
        return f"{write(self.median)} ({write(self.least)}-{write(self.most)})"

    @property
    def width(self) -> float:
        """How much more the most is than the least, as a part of the median."""
        return (self.most - self.least) / self.median


def ratios(values: Sequence[float], base: Sequence[float]) -> Spread:
    """How many times the base, round by round: neighbours in time saw the same machine."""
    return Spread.of([value / other for value, other in zip(values, base, strict=True)])
