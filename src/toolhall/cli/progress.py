"""How far a long command is, on a terminal, once it has taken a second."""

import contextlib
import importlib
import sys
import time
from collections.abc import Generator

from toolhall.cli.attending import Bar
from toolhall.cli.screen import note

_PATIENCE = 1.0
_STEP = 0.1
_EVERY = 16  # looking at the clock for each document would cost more than it tells


def counted(number: int, thing: str) -> str:
    """A number of things in words."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


class Progress:
    """Counts documents, or other things, and the bytes they had; draws nothing where nobody looks."""

    def __init__(self, total: int | None, *, shown: bool, thing: str = "document") -> None:
        self._total = total
        self._thing = thing
        self._shown = shown
        self._bar: Bar | None = None
        self._count = self._done = 0
        self._next = time.monotonic() + _PATIENCE

    def step(self, size: int) -> None:
        """One document more."""
        self._count += 1
        self._done += size
        if self._shown and not self._count % _EVERY and time.monotonic() >= self._next:
            self._draw()

    def say(self, line: str) -> None:
        """A line that stays, above the bar."""
        if self._bar is None:
            note(line)
        else:
            self._bar.write_above(line)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self) -> None:
        bar: Bar = self._bar or importlib.import_module("toolhall.cli.bar").RichBar()
        self._bar = bar
        bar.show(self._done, self._total, counted(self._count, self._thing))
        self._next = time.monotonic() + _STEP


@contextlib.contextmanager
def progress(total: int | None, *, scrolls: bool, thing: str = "document") -> Generator[Progress, None, None]:
    """Progress on the terminal, unless the output itself scrolls by there."""
    shown = Progress(total, shown=sys.stderr.isatty() and not scrolls, thing=thing)
    try:
        yield shown
    finally:
        shown.stop()
