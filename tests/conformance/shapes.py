"""A toolkit whose parameters have the shapes that clients read differently; test_frameworks.py uses it."""

import dataclasses
import enum

from toolhall import Toolkit, tool


class Unit(enum.Enum):
    """One word of several."""

    METRE = "m"
    FOOT = "ft"


@dataclasses.dataclass
class Point:
    """Inside another model."""

    x: int
    y: int


@dataclasses.dataclass
class Place:
    """A model that holds a model, and a tuple of them."""

    name: str
    at: Point
    corners: tuple[Point, Point] | None = None


class Shapes(Toolkit):
    """One tool for each shape; every one says what it understood."""

    @tool
    def pair(self, pair: tuple[int, str], more: tuple[int, ...] = ()) -> str:
        """Say what is in a tuple."""
        return f"pair {pair[0] + 1} {pair[1]} {len(more)}"

    @tool
    def returned(self, number: int) -> tuple[int, str]:
        """Return a tuple."""
        return number, "returned"

    @tool
    def union(self, value: int | str | list[int]) -> str:
        """Say which of several types it is."""
        return f"union {type(value).__name__}"

    @tool
    def nested(self, place: Place) -> Place:
        """Return a nested model."""
        return place

    @tool
    def choice(self, unit: Unit, other: Unit = Unit.FOOT) -> str:
        """Say which word it is."""
        return f"choice {unit.name} {other.name}"

    @tool
    def nothing(self) -> str:
        """Take no parameters."""
        return "nothing taken"
