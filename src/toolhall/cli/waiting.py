"""Shows that something goes on, on a terminal, once it has taken a second."""

import contextlib
import sys
import threading
import time
from collections.abc import Generator

_PATIENCE = 1.0
_STEP = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ERASE = "\r\x1b[K"

_drawing = threading.Lock()
_quiet: list[str] = []  # why nothing may be drawn now


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


@contextlib.contextmanager
def quiet(why: str) -> Generator[None, None, None]:
    """Meanwhile no sign turns, so that a question on the terminal is not drawn over."""
    with _drawing:
        if sys.stderr.isatty():
            _write(_ERASE)
        _quiet.append(why)
    try:
        yield
    finally:
        _quiet.remove(why)


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
            self._draw(f"\r{_FRAMES[count % len(_FRAMES)]} {self._what} ({elapsed:.0f} s)\x1b[K")
        self._draw(_ERASE)

    def _draw(self, text: str) -> None:
        with _drawing:
            if not _quiet:
                _write(text)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
