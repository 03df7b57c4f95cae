"""Progress on the terminal for what takes longer than a second: Spinner and ProgressDisplay."""

import contextlib
import sys
import threading
import time
from collections.abc import Generator
from typing import Protocol

from toolhall.cli.output import note, pluralize


class ProgressBar(Protocol):
    """A progress bar, which is drawn by a module of its own that only a call with progress needs."""

    def update(self, done: float, total: float | None, message: str) -> None:
        """Move it."""
        ...

    def print_above(self, line: str) -> None:
        """Write a line that stays."""
        ...

    def stop(self) -> None:
        """Take it away."""
        ...


_DELAY_SECONDS = 1.0
_FRAME_SECONDS = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ERASE = "\r\x1b[K"
_draw_lock = threading.Lock()
_pause_reasons: list[str] = []  # why nothing may be drawn now


@contextlib.contextmanager
def show_spinner(label: str) -> Generator["Spinner | None", None, None]:
    """A turning sign with `what` and the seconds so far, gone again at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    spinner = Spinner(label)
    try:
        yield spinner
    finally:
        spinner.stop()


@contextlib.contextmanager
def pause_spinner(reason: str) -> Generator[None, None, None]:
    """Meanwhile no sign turns, so that a question on the terminal is not drawn over."""
    with _draw_lock:
        if sys.stderr.isatty():
            _write(_ERASE)
        _pause_reasons.append(reason)
    try:
        yield
    finally:
        _pause_reasons.remove(reason)


class Spinner:
    """Turns in a thread of its own until it is stopped."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._animate, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the line away; a second time does nothing."""
        self._stop.set()
        self._thread.join()

    def _animate(self) -> None:
        started, count = time.monotonic(), 0
        if self._stop.wait(_DELAY_SECONDS):
            return
        while not self._stop.wait(_FRAME_SECONDS):
            count += 1
            elapsed = time.monotonic() - started
            self._draw(f"\r{_FRAMES[count % len(_FRAMES)]} {self._label} ({elapsed:.0f} s)\x1b[K")
        self._draw(_ERASE)

    def _draw(self, text: str) -> None:
        with _draw_lock:
            if not _pause_reasons:
                _write(text)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


_CHECK_EVERY = 16  # looking at the clock for each document would cost more than it tells


class ProgressDisplay:
    """Counts documents, or other things, and the bytes they had; draws nothing where nobody looks."""

    def __init__(self, total: int | None, *, enabled: bool, noun: str = "document") -> None:
        self._total = total
        self._noun = noun
        self._enabled = enabled
        self._bar: ProgressBar | None = None
        self._count = self._done = 0
        self._next = time.monotonic() + _DELAY_SECONDS

    def advance(self, size: int) -> None:
        """One document more."""
        self._count += 1
        self._done += size
        if self._enabled and not self._count % _CHECK_EVERY and time.monotonic() >= self._next:
            self._draw()

    def print_line(self, line: str) -> None:
        """A line that stays, above the bar."""
        if self._bar is None:
            note(line)
        else:
            self._bar.print_above(line)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self) -> None:
        from toolhall.cli.rich_output import RichProgressBar  # lazy: rich

        bar: ProgressBar = self._bar or RichProgressBar()
        self._bar = bar
        bar.update(self._done, self._total, pluralize(self._count, self._noun))
        self._next = time.monotonic() + _FRAME_SECONDS


@contextlib.contextmanager
def show_progress(
    total: int | None, *, output_scrolls: bool, noun: str = "document"
) -> Generator[ProgressDisplay, None, None]:
    """Progress on the terminal, unless the output itself scrolls by there."""
    shown = ProgressDisplay(total, enabled=sys.stderr.isatty() and not output_scrolls, noun=noun)
    try:
        yield shown
    finally:
        shown.stop()
