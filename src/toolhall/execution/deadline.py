"""`Deadline`: cancels the task of a running tool when its time is up.

Theory of operation
-------------------
A timer per call would be the largest cost of a quick call, so the deadline is armed only once the tool first has to
wait (`start` is the hook of `on_first_suspend`), and all deadlines of an event loop share one timer (`SharedTimer`).
A deadline stands still while the tool waits for a person's answer (`hold`). When it expires it cancels the task, and
cancels it again every second until the tool ends, because a tool may catch the first CancelledError to clean up.
`grace_is_over` becomes true with the second cancellation: from then on `on_first_suspend` abandons a tool that goes on
waiting. `stop` takes back every cancellation that the deadline caused (`Task.uncancel`), so that the task can serve the
next request.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

_REPEAT_SECONDS = 1.0
_EARLY_SECONDS = 0.001  # by which an event loop may call a timer too early, because it counts milliseconds


class Deadline(msgspec.Struct, eq=False):
    """Cancels the task of one call when its time is up, and again every second until it ends."""

    seconds: float
    on_start: Callable[[], None] | None = None  # called when the tool first has to wait
    is_started: bool = False
    cancel_count: int = 0  # how often the task was cancelled
    _left: float | None = None  # seconds, while it stands still; None: all of them
    _holds: int = 0
    _task: "asyncio.Task[object] | None" = None
    _timer: "SharedTimer | None" = None  # of the loop in which it was started
    _expires_at: float | None = None  # by the loop's clock; None while it is not armed

    def start(self) -> None:
        """Count the time from now on, in the current task; called when the tool first has to wait."""
        self.is_started = True
        if self.on_start is not None:
            self.on_start()
        loop = asyncio.get_running_loop()
        self._timer = _timer_for(loop)
        self._task = asyncio.current_task(loop)
        if not self._holds:
            self._expires_at = when = loop.time() + self.remaining
            self._timer.add(self, when)

    def stop(self) -> None:
        """Disarm: the tool has ended. Takes back the cancellations of the task that the deadline caused."""
        self._disarm()
        task, self._task = self._task, None
        if self.cancel_count and task is not None:
            for _ in range(self.cancel_count):
                task.uncancel()

    @property
    def remaining(self) -> float:
        """Seconds that are left."""
        if self._timer is None or self._expires_at is None:
            return self.seconds if self._left is None else self._left
        return max(0.0, self._expires_at - self._timer.loop.time())

    def shorten(self, seconds: float) -> None:
        """Leave no more than these seconds, as for a call that goes on from an earlier request."""
        if seconds < self.remaining:
            is_armed = self._expires_at is not None
            self._disarm()
            self._left = seconds
            if is_armed:
                self._arm(seconds)

    def grace_is_over(self) -> bool:
        """Whether the tool was cancelled twice: its time to clean up is over too."""
        return self.cancel_count > 1

    @contextmanager
    def hold(self) -> Generator[None, None, None]:
        """Stop the clock inside the block, as for a question to a person, which has a deadline of its own."""
        self._holds += 1
        if self._expires_at is not None:
            self._left = self.remaining
            self._disarm()
        try:
            yield
        finally:
            self._holds -= 1
            if self._task is not None and not self._holds:
                self._arm(self.remaining)

    def expire(self) -> None:
        """Cancel the task, and do so again in a second if the tool goes on."""
        self.cancel_count += 1
        if self._task is not None:
            self._task.cancel()
        self._arm(_REPEAT_SECONDS)

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._expires_at = self._timer.loop.time() + seconds
            self._timer.add(self, self._expires_at)

    def _disarm(self) -> None:
        if self._timer is not None and self._expires_at is not None:
            self._expires_at = None
            self._timer.remove(self)


class SharedTimer:
    """The one timer of all deadlines of an event loop.

    A timer of the event loop costs more than all else about a deadline, and most calls end long before theirs. So it is
    armed for the earliest deadline that was added, and stays so while there are others, even if that one is removed:
    when it rings, it looks through those that are left, once for many calls.
    """

    __slots__ = ("_armed", "_deadlines", "_rings_at", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._deadlines: dict[Deadline, float] = {}  # and when they expire
        self._armed: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def add(self, deadline: Deadline, when: float) -> None:
        """Expire the deadline then."""
        self._deadlines[deadline] = when
        if self._armed is None or when < self._rings_at:
            self._arm(when)

    def remove(self, deadline: Deadline) -> None:
        """Do not expire the deadline."""
        self._deadlines.pop(deadline, None)
        if not self._deadlines and self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _arm(self, when: float) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._rings_at = when
        self._armed = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._armed = None
        now = self.loop.time() + _EARLY_SECONDS
        due = [(when, deadline) for deadline, when in self._deadlines.items() if when <= now]
        for _, deadline in sorted(due, key=lambda each: each[0]):
            del self._deadlines[deadline]
            deadline.expire()  # which adds it again, for its second cancellation
        if self._deadlines:
            self._arm(min(self._deadlines.values()))


class _LatestTimer(threading.local):
    """The timer of the event loop that ran last in each thread."""

    timer: SharedTimer | None = None


_latest = _LatestTimer()


def _timer_for(loop: asyncio.AbstractEventLoop) -> SharedTimer:
    timer = _latest.timer
    if timer is None or timer.loop is not loop:
        timer = _latest.timer = SharedTimer(loop)
    return timer
