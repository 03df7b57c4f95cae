"""`Watchdog`: a thread that detects tools which block the event loop, and logs which one, where, and the fix."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

_STALL_SECONDS = 0.1
_PROBE_SECONDS = 0.05
_IDLE_PROBES = 20  # without a call, then it sleeps
_LONG_STALL_SECONDS = 1.0
_WARN_SECONDS = 10.0  # between two warnings
_MAX_FRAMES = 12
_log = logging.getLogger("toolhall.watchdog")


class CallActivity:
    """How many calls have begun and ended: all that a call pays for being watched."""

    __slots__ = ("_wake", "asleep", "finished", "started")

    def __init__(self) -> None:
        self.started = 0
        self.finished = 0
        self.asleep = False  # somebody wants to know when the next call begins
        self._wake: Callable[[], None] | None = None

    @property
    def running(self) -> int:
        """Calls that have begun and not ended."""
        return self.started - self.finished

    def on_wake(self, wake: Callable[[], None]) -> None:
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
        self,
        activity: CallActivity,
        tool_of_frame: Callable[[FrameType], str | None],
        on_blocked: Callable[[str], None],
    ) -> None:
        self.stalls = 0
        self._activity = activity
        self._tool_of_frame = tool_of_frame
        self._on_blocked = on_blocked
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread_id = 0
        self._thread: threading.Thread | None = None
        self._awake = threading.Event()
        self._responded = threading.Event()
        self._closed = threading.Event()
        self._warned_at = -_WARN_SECONDS

    def watch(self) -> None:
        """From now on, watch the loop that runs in this thread."""
        self._loop, self._loop_thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._activity.on_wake(self._wake_thread)
        self._activity.asleep = True

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._activity.asleep = False
        self._awake.set()
        self._responded.set()
        if self._thread is not None:
            self._thread.join()

    def _wake_thread(self) -> None:
        self._awake.set()
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(target=self._run, name="toolhall-watchdog", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        seen, quiet = 0, 0
        while not self._closed.is_set():
            if not self._probe_loop():
                quiet = _IDLE_PROBES
            quiet = 0 if self._activity.running or seen != self._activity.started else quiet + 1
            seen = self._activity.started
            if quiet > _IDLE_PROBES:
                self._sleep_until_call(seen)
                quiet = 0
            self._closed.wait(_PROBE_SECONDS)

    def _sleep_until_call(self, seen: int) -> None:
        self._awake.clear()
        self._activity.asleep = True
        if seen == self._activity.started and not self._closed.is_set():  # none began in between
            self._awake.wait()
        self._activity.asleep = False

    def _probe_loop(self) -> bool:
        """Ask once; False if the loop is no more."""
        self._responded.clear()
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._responded.set)
        except RuntimeError:
            self._loop = None
        if self._loop is None:
            return False
        asked = time.monotonic()
        if not self._responded.wait(_STALL_SECONDS) and not self._closed.is_set():
            self._report_stall(asked)
        return True

    def _report_stall(self, asked: float) -> None:
        self.stalls += 1
        stacks = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - the documented way to see another's stack
        frames = list(_frames(stacks.get(self._loop_thread_id)))
        tool = next(filter(None, map(self._tool_of_frame, frames)), None)
        self._warn(tool, frames)
        while not self._responded.wait(_LONG_STALL_SECONDS):
            if self._loop is None or self._loop.is_closed():
                return
        if tool is not None and time.monotonic() - asked > _LONG_STALL_SECONDS:
            self._on_blocked(tool)

    def _warn(self, tool: str | None, frames: list[FrameType]) -> None:
        if time.monotonic() - self._warned_at < _WARN_SECONDS:
            return
        self._warned_at = time.monotonic()
        shown = [traceback.extract_stack(frame, 1)[0] for frame in frames[:_MAX_FRAMES]]
        stack = "".join(traceback.format_list(shown[::-1]))
        if tool is None:
            _log.warning("the loop has not turned for %d ms; it hangs here:\n%s", _STALL_SECONDS * 1000, stack)
            return
        fix = "write it with 'def' instead of 'async def', or with @tool(isolated=True)"
        _log.warning(
            "tool %s holds up every other call for more than %d ms; %s; it hangs here:\n%s",
            tool,
            _STALL_SECONDS * 1000,
            fix,
            stack,
        )


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """From the innermost outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back
