"""Notices when a tool holds up the loop, and with it every other call; says which one, where it hangs, and the fix."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

_ALARM_SECONDS = 0.1
_TICK_SECONDS = 0.05
_QUIET_TICKS = 20  # without a call, then it sleeps
_LONG_SECONDS = 1.0
_SPEAK_SECONDS = 10.0  # between two warnings
_SHOWN_FRAMES = 12
_log = logging.getLogger("toolhall.watchdog")


class Activity:
    """How many calls have begun and ended: all that a call pays for being watched."""

    __slots__ = ("_wake", "asleep", "begun", "ended")

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.asleep = False  # somebody wants to know when the next call begins
        self._wake: Callable[[], None] | None = None

    @property
    def running(self) -> int:
        """Calls that have begun and not ended."""
        return self.begun - self.ended

    def woken_by(self, wake: Callable[[], None]) -> None:
        """Whom `wake` wakes."""
        self._wake = wake

    def wake(self) -> None:
        """A call has begun after a quiet time."""
        self.asleep = False
        if self._wake is not None:
            self._wake()


class Watchdog:
    """A thread that asks the loop for a sign of life, only while calls run.

    `named` tells of a stack frame which tool it runs, if any; `blocked` hears of a tool that held up the loop for long.
    """

    def __init__(
        self, activity: Activity, named: Callable[[FrameType], str | None], blocked: Callable[[str], None]
    ) -> None:
        self.stalls = 0
        self._activity = activity
        self._named = named
        self._blocked = blocked
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched = 0
        self._thread: threading.Thread | None = None
        self._awake = threading.Event()
        self._turned = threading.Event()
        self._closed = threading.Event()
        self._spoke = -_SPEAK_SECONDS

    def watch(self) -> None:
        """From now on, watch the loop that runs in this thread."""
        self._loop, self._watched = asyncio.get_running_loop(), threading.get_ident()
        self._activity.woken_by(self._begin)
        self._activity.asleep = True

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._activity.asleep = False
        self._awake.set()
        self._turned.set()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        self._awake.set()
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(target=self._keep_watch, name="toolhall-watchdog", daemon=True)
            self._thread.start()

    def _keep_watch(self) -> None:
        seen, quiet = 0, 0
        while not self._closed.is_set():
            if not self._look():
                quiet = _QUIET_TICKS
            quiet = 0 if self._activity.running or seen != self._activity.begun else quiet + 1
            seen = self._activity.begun
            if quiet > _QUIET_TICKS:
                self._sleep(seen)
                quiet = 0
            self._closed.wait(_TICK_SECONDS)

    def _sleep(self, seen: int) -> None:
        self._awake.clear()
        self._activity.asleep = True
        if seen == self._activity.begun and not self._closed.is_set():  # none began in between
            self._awake.wait()
        self._activity.asleep = False

    def _look(self) -> bool:
        """Ask once; False if the loop is no more."""
        self._turned.clear()
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._turned.set)
        except RuntimeError:
            self._loop = None
        if self._loop is None:
            return False
        asked = time.monotonic()
        if not self._turned.wait(_ALARM_SECONDS) and not self._closed.is_set():
            self._alarm(asked)
        return True

    def _alarm(self, asked: float) -> None:
        self.stalls += 1
        stacks = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - the documented way to see another's stack
        frames = list(_frames(stacks.get(self._watched)))
        tool = next(filter(None, map(self._named, frames)), None)
        self._warn(tool, frames)
        while not self._turned.wait(_LONG_SECONDS):
            if self._loop is None or self._loop.is_closed():
                return
        if tool is not None and time.monotonic() - asked > _LONG_SECONDS:
            self._blocked(tool)

    def _warn(self, tool: str | None, frames: list[FrameType]) -> None:
        if time.monotonic() - self._spoke < _SPEAK_SECONDS:
            return
        self._spoke = time.monotonic()
        shown = [traceback.extract_stack(frame, 1)[0] for frame in frames[:_SHOWN_FRAMES]]
        stack = "".join(traceback.format_list(shown[::-1]))
        if tool is None:
            _log.warning("the loop has not turned for %d ms; it hangs here:\n%s", _ALARM_SECONDS * 1000, stack)
            return
        fix = "write it with 'def' instead of 'async def', or with @tool(isolated=True)"
        _log.warning(
            "tool %s holds up every other call for more than %d ms; %s; it hangs here:\n%s",
            tool,
            _ALARM_SECONDS * 1000,
            fix,
            stack,
        )


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """From the innermost outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back
