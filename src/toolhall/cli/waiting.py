"""Shows that something goes on, on a terminal, once it has taken a second."""

import contextlib
import sys
import threading
import time
from collections.abc import Generator

_PATIENCE = 1.0
_STEP = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@contextlib.contextmanager
def waiting(what: str) -> Generator["Spinner | None", None, None]:
    """A turning sign with `what` and the seconds so far, gone again at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    spinner = Spinner(what)
    try:
        yield spinner
    finally:
        spinner.stop()


class Spinner:
    """Turns in a thread of its own until it is stopped."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._turn, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the line away; a second time does nothing."""
        self._stop.set()
        self._thread.join()

    def _turn(self) -> None:
        started, count = time.monotonic(), 0
        if self._stop.wait(_PATIENCE):
            return
        while not self._stop.wait(_STEP):
            count += 1
            elapsed = time.monotonic() - started
            sys.stderr.write(f"\r{_FRAMES[count % len(_FRAMES)]} {self._what} ({elapsed:.0f} s)\x1b[K")
            sys.stderr.flush()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
