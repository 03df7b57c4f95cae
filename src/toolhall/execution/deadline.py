"""`Deadline`: cancels the task of a running tool when its time is up.

Theory of operation
-------------------
A timer per call would be the largest cost of a quick call, so the deadline is armed only once the tool first has to
wait (`start` is the hook of `on_first_suspend`). It stands still while the tool waits for a person's answer (`hold`).
When it expires it cancels the task, and cancels it again every second until the tool ends, because a tool may catch the
first CancelledError to clean up. `grace_is_over` becomes true with the second cancellation: from then on
`on_first_suspend` abandons a tool that goes on waiting. `stop` takes back every cancellation that the deadline caused
(`Task.uncancel`), so that the task can serve the next request.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

_REPEAT_SECONDS = 1.0


class Deadline:
    """Cancels the task of one call when its time is up, and again every second until it ends."""

    # As class attributes, the initial values cost nothing per call.
    _loop: asyncio.AbstractEventLoop  # kept, because get_running_loop costs a system call (getpid)
    is_started = False
    cancel_count = 0  # how often the task was cancelled
    _holds = 0
    _task: asyncio.Task[object] | None = None
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, seconds: float, on_start: Callable[[], None] | None = None) -> None:
        self.seconds = self._remaining = seconds
        self.on_start = on_start  # called when the tool first has to wait

    def start(self) -> None:
        """Count the time from now on, in the current task; called when the tool first has to wait."""
        self.is_started = True
        if self.on_start is not None:
            self.on_start()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(self._loop)
        if not self._holds:
            self._arm(self._remaining)

    def stop(self) -> None:
        """Disarm: the tool has ended. Takes back the cancellations of the task that the deadline caused."""
        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None
        if task is not None:
            for _ in range(self.cancel_count):
                task.uncancel()

    @property
    def remaining(self) -> float:
        """Seconds that are left."""
        if self._timer is None or self._holds:
            return self._remaining
        return max(0.0, self._timer.when() - self._loop.time())

    def grace_is_over(self) -> bool:
        """Whether the tool was cancelled twice: its time to clean up is over too."""
        return self.cancel_count > 1

    @contextmanager
    def hold(self) -> Generator[None, None, None]:
        """Stop the clock inside the block, as for a question to a person, which has a deadline of its own."""
        self._holds += 1
        if self._timer is not None and self._holds == 1:
            self._remaining = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
        try:
            yield
        finally:
            self._holds -= 1
            if self._task is not None and not self._holds:
                self._arm(self._remaining)

    def _arm(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self.cancel_count += 1
        if self._task is not None:
            self._task.cancel()
        self._arm(_REPEAT_SECONDS)
