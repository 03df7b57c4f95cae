"""Progress on the terminal for what takes longer than a second: Spinner and ProgressDisplay."""

import contextlib
import sys
import threading
import time
from collections.abc import Generator
from typing import Protocol

from toolhall.cli.output import note, pluralize


class ProgressBar(Protocol):
    """A progress bar; RichProgressBar implements it, and is imported only when one is shown."""

    def update(self, done: float, total: float | None, message: str) -> None:
        """Show this progress and message."""
        ...

    def print_above(self, line: str) -> None:
        """Print a line above the bar."""
        ...

    def stop(self) -> None:
        """Remove the bar."""
        ...


_DELAY_SECONDS = 1.0
_FRAME_SECONDS = 0.1
_CHECK_EVERY = 16  # reading the clock for each document would be too slow
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ERASE = "\r\x1b[K"
_draw_lock = threading.Lock()
_pause_reasons: list[str] = []  # while it is not empty, nothing is drawn


@contextlib.contextmanager
def show_spinner(label: str) -> Generator["Spinner | None", None, None]:
    """Show a spinner with the label and the elapsed seconds on a terminal, after one second; remove it at the end."""
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
    """Context in which no spinner is drawn, so that it does not overwrite a prompt."""
    with _draw_lock:
        if sys.stderr.isatty():
            _write(_ERASE)
        _pause_reasons.append(reason)
    try:
        yield
    finally:
        _pause_reasons.remove(reason)


class Spinner:
    """A spinner on stderr, drawn by its own thread until `stop`."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._animate, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Remove the spinner; may be called twice."""
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


class ProgressDisplay:
    """Counts documents and their bytes and draws a progress bar if it is enabled, after one second."""

    def __init__(self, total: int | None, *, enabled: bool, noun: str = "document") -> None:
        self._total = total
        self._noun = noun
        self._enabled = enabled
        self._bar: ProgressBar | None = None
        self._count = self._done = 0
        self._next = time.monotonic() + _DELAY_SECONDS

    def advance(self, size: int) -> None:
        """Count one more document of this size."""
        self._count += 1
        self._done += size
        if self._enabled and not self._count % _CHECK_EVERY and time.monotonic() >= self._next:
            self._draw()

    def print_line(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._bar is None:
            note(line)
        else:
            self._bar.print_above(line)

    def stop(self) -> None:
        """Remove the bar."""
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
    """Show progress on a terminal, unless the output itself goes there."""
    display = ProgressDisplay(total, enabled=sys.stderr.isatty() and not output_scrolls, noun=noun)
    try:
        yield display
    finally:
        display.stop()
