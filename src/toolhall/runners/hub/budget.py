"""How many calls may be tried again: few enough that trying again never becomes a load of its own."""

from collections.abc import Callable

_SHARE = 0.1  # of all calls
_ALWAYS = 10.0  # within a window, however few calls there are
_WINDOW_SECONDS = 10.0


class Budget:
    """Counts calls and second tries over a window that slides: all of this one, and what is left of the last."""

    __slots__ = ("_again", "_began", "_called", "_clock")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._called = [0, 0]  # in the window before, and in this one
        self._again = [0, 0]

    def called(self) -> None:
        """One more call."""
        if self._clock() - self._began >= _WINDOW_SECONDS:
            self._turn()
        self._called[1] += 1

    def spend(self) -> bool:
        """Whether one more call may be tried again, which then counts."""
        if self._clock() - self._began >= _WINDOW_SECONDS:
            self._turn()
        left = 1 - (self._clock() - self._began) / _WINDOW_SECONDS
        called = self._called[0] * left + self._called[1]
        again = self._again[0] * left + self._again[1]
        if again + 1 > max(_ALWAYS, called * _SHARE):
            return False
        self._again[1] += 1
        return True

    def _turn(self) -> None:
        """The next window begins; after a long pause, the last one is forgotten too."""
        passed = (self._clock() - self._began) // _WINDOW_SECONDS
        for counted in (self._called, self._again):
            counted[:] = [counted[1] if passed == 1 else 0, 0]
        self._began += passed * _WINDOW_SECONDS
