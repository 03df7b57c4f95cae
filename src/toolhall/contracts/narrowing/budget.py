"""How much may be compared: schemas from outside can ask for more than anybody has time for."""

MOST_STEPS = 10_000  # about half a second
DEEPEST = 40


class Exhausted(Exception):
    """There was too much to compare."""


class Budget:
    """Steps that are left, and how deep inside the value the comparison is."""

    __slots__ = ("_left", "depth")

    def __init__(self) -> None:
        self._left = MOST_STEPS
        self.depth = 0

    def spend(self, steps: int = 1) -> None:
        """Take some steps, or give up."""
        self._left -= steps
        if self._left < 0 or self.depth > DEEPEST:
            raise Exhausted
