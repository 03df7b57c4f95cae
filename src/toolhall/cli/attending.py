"""Attends to a running call at the terminal: a progress bar, log lines, answers to what the tool asks."""

import contextlib
import importlib
import signal
import sys
from collections.abc import Generator
from typing import Protocol

from toolhall.cli.failure import CommandFailed
from toolhall.cli.forms import DECLINED, asking
from toolhall.cli.screen import DIM, note, person_present, styled, visible, visible_json
from toolhall.cli.terminal import forget_typed, prompt
from toolhall.cli.waiting import Spinner
from toolhall.model.json import Json, JsonObject


class Bar(Protocol):
    """A progress bar, which is drawn by a module of its own that only a call with progress needs."""

    def show(self, done: float, total: float | None, message: str) -> None:
        """Move it."""
        ...

    def write_above(self, line: str) -> None:
        """Write a line that stays."""
        ...

    def stop(self) -> None:
        """Take it away."""
        ...


class TerminalAttendant:
    """Shows a bar only where there is a terminal; asks only where there is a person, and declines for nobody."""

    def __init__(self, spinner: Spinner | None) -> None:
        self._spinner = spinner
        self._bar: Bar | None = None

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Move the bar."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._quiet()
            self._bar = _new_bar()
        self._bar.show(done, total, visible(message or ""))

    def log(self, level: str, data: Json) -> None:
        """A line above the bar."""
        text = visible(data) if isinstance(data, str) else visible_json(data)
        line = f"{visible(level)}: {text}"
        if self._bar is not None:
            self._bar.write_above(line)
        else:
            self._quiet()
            note(styled(line, DIM, sys.stderr))

    def answer(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the person."""
        if method != "elicitation/create":
            raise CommandFailed(f"the tool asks for {visible(method)}, which a terminal cannot give")
        self.close()
        if not person_present():
            return DECLINED
        with _plain_interrupts():
            return _ask(params)

    def close(self) -> None:
        """Take the bar away."""
        self._quiet()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _quiet(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()


def _new_bar() -> Bar:
    bar: Bar = importlib.import_module("toolhall.cli.bar").RichBar()
    return bar


def _ask(params: JsonObject) -> JsonObject:
    steps = asking(params)
    typed: str | None = None
    forget_typed()
    try:
        shown = next(steps)
        while True:
            prompt(shown)
            typed = None if shown.endswith("\n") else _read_line()
            shown = steps.send(typed)
    except StopIteration as finished:
        reply: JsonObject = finished.value
        return reply


def _read_line() -> str | None:
    line = sys.stdin.readline()
    if not line:
        note()
        return None
    return line.strip()


@contextlib.contextmanager
def _plain_interrupts() -> Generator[None, None, None]:
    """An event loop waits for its turn to hear of Ctrl+C; while we wait for the keyboard it has none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
