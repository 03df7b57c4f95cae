"""`Watchdog`: a thread that detects tools which block the event loop, and logs which one, where, and the fix.

Theory of operation
-------------------
An async tool that computes or makes a blocking call stops every other call of the process. While calls run, the thread
posts a callback to the loop every 50 ms. If the callback has not run after 100 ms, the loop is stalled: the thread
walks the stack of the loop's thread, finds the innermost frame that belongs to a tool (`tool_of_frame`), and logs the
tool, the stack and the fix, at most once in ten seconds. A stall of more than a second is also reported to
`on_blocked`, which counts it and moves the tool to a worker process after the third one.

A call pays two increments of `CallActivity`. After a second without calls the thread sleeps, and the next call wakes it
(`asleep`, checked by the run stage); an idle process therefore uses no CPU for it.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

_STALL_SECONDS = 0.1  # without a response of the loop
_PROBE_SECONDS = 0.05  # between two probes
_IDLE_PROBES = 20  # without a call, then the thread sleeps
_LONG_STALL_SECONDS = 1.0
_WARN_SECONDS = 10.0  # between two warnings
_MAX_FRAMES = 12
_log = logging.getLogger("toolhall.watchdog")


class CallActivity:
    """Counts calls that started and finished, and wakes the watchdog when calls begin again."""

    __slots__ = ("_wake", "asleep", "finished", "started")

    def __init__(self) -> None:
        self.started = 0
        self.finished = 0
        self.asleep = False  # the watchdog sleeps: the next call must `wake` it
        self._wake: Callable[[], None] | None = None

    @property
    def running(self) -> int:
        """Calls that have started and not finished."""
        return self.started - self.finished

    def on_wake(self, wake: Callable[[], None]) -> None:
        """Set the callback of `wake`."""
        self._wake = wake

    def wake(self) -> None:
        """Wake the watchdog: a call has started after a quiet time."""
        self.asleep = False
        if self._wake is not None:
            self._wake()


class Watchdog:
    """Probes one event loop from a thread of its own while calls run.

    `tool_of_frame` gives the name of the tool that a stack frame belongs to, if any; `on_blocked` is called with the
    name of a tool that blocked the loop for more than a second.
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
        """Watch the loop that runs in the current thread."""
        self._loop, self._loop_thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._activity.on_wake(self._wake_thread)
        self._activity.asleep = True

    def close(self) -> None:
        """Stop watching, and end the thread."""
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
        if seen == self._activity.started and not self._closed.is_set():  # no call started in between
            self._awake.wait()
        self._activity.asleep = False

    def _probe_loop(self) -> bool:
        """Probe the loop once; False if it is closed."""
        self._responded.clear()
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._responded.set)
        except RuntimeError:
            self._loop = None
        if self._loop is None:
            return False
        probed_at = time.monotonic()
        if not self._responded.wait(_STALL_SECONDS) and not self._closed.is_set():
            self._report_stall(probed_at)
        return True

    def _report_stall(self, probed_at: float) -> None:
        self.stalls += 1
        stacks = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - the documented way to see another's stack
        frames = list(_frames(stacks.get(self._loop_thread_id)))
        tool = next(filter(None, map(self._tool_of_frame, frames)), None)
        self._warn(tool, frames)
        while not self._responded.wait(_LONG_STALL_SECONDS):
            if self._loop is None or self._loop.is_closed():
                return
        if tool is not None and time.monotonic() - probed_at > _LONG_STALL_SECONDS:
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
    """The frames of a stack, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back
