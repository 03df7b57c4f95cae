"""How much memory the process has held, asked of the kernel at most once a second."""

import sys
from collections.abc import Callable

if sys.platform != "win32":
    import resource

_UNIT = 1 if sys.platform == "darwin" else 1024


class Memory:
    """The most that the whole process has held; what one call takes in a shared process cannot be told."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._next = 0.0
        self._bytes = 0

    def most(self) -> int:
        """Bytes, no more than a second old; 0 where the system does not say."""
        now = self._timer()
        if now >= self._next:
            self._next = now + 1
            if sys.platform != "win32":
                self._bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
        return self._bytes
