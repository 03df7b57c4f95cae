"""`Deadline`: cancels a tool when its time is up; `OnFirstSuspend`: calls a hook when an awaitable first has to wait.

Together they make quick calls cheap: the deadline's timer is armed only once the tool suspends. The deadline stands
still while the tool waits for a person's answer, and cancels again every second until the tool ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_log = logging.getLogger("toolhall.run")


def is_short_wait(waiting_for: object) -> bool:
    """Whether this future says of itself that it is done in a moment, so that nobody need watch over it."""
    return getattr(waiting_for, "brief", False) is True


def _never() -> bool:
    return False


class OnFirstSuspend(Generic[T]):
    """`await Noticed(work, hook)` equals `await work`, but calls `hook` once if `work` does not finish at once.

    What it waits for only briefly, as for a record that goes to the disk, does not count.

    Work that goes on waiting after it was cancelled is abandoned once `give_up` says so: it is driven no further.
    """

    __slots__ = ("_on_suspend", "_should_abandon", "_work")

    def __init__(
        self, work: Awaitable[T], on_suspend: Callable[[], None], should_abandon: Callable[[], bool] = _never
    ) -> None:
        self._work = work
        self._on_suspend = on_suspend
        self._should_abandon = should_abandon

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        try:
            waiting_for = next(steps)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        noticed = False
        while True:
            if not noticed and not is_short_wait(waiting_for):
                noticed = True
                self._on_suspend()
            thrown: BaseException | None = None
            try:
                yield waiting_for
            except BaseException as error:  # noqa: BLE001 - a cancellation must reach the work, as it would without us
                thrown = error
            try:
                waiting_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as finished:
                return finished.value  # type: ignore[no-any-return]
            if thrown is not None and self._should_abandon():
                _close_abandoned(steps)
                raise asyncio.CancelledError


def _close_abandoned(steps: Generator[Any, Any, Any]) -> None:
    """Close the work where it waits; what it says to that matters to nobody any more."""
    try:
        steps.close()
    except (Exception, asyncio.CancelledError):  # noqa: BLE001
        _log.exception("a tool that was abandoned did not end quietly")


_REPEAT_SECONDS = 1.0


class Deadline:
    """Cancels the running task when time is up, and again until it ends; armed only once the tool has to wait."""

    __slots__ = ("_holds", "_loop", "_remaining", "_task", "_timer", "cancel_count", "seconds")

    _loop: asyncio.AbstractEventLoop  # asked for once: each time costs a system call

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.cancel_count = 0  # how often the task was cancelled
        self._remaining = seconds
        self._holds = 0
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The tool waits for something: time counts from now on."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(self._loop)
        if not self._holds:
            self._arm(self._remaining)

    def stop(self) -> None:
        """The tool has ended; its task is no longer to be cancelled for us."""
        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None
        if task is not None:
            for _ in range(self.cancel_count):
                task.uncancel()

    @property
    def remaining(self) -> float:
        """How many seconds there still are."""
        if self._timer is None or self._holds:
            return self._remaining
        return max(0.0, self._timer.when() - self._loop.time())

    def grace_is_over(self) -> bool:
        """Whether the tool was told twice: its time to clean up is over too."""
        return self.cancel_count > 1

    @contextmanager
    def hold(self) -> Generator[None, None, None]:
        """Time does not count meanwhile: whoever asks a person has a deadline of its own for that."""
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
