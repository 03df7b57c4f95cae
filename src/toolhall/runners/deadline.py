"""The time a tool has; it stands still while the tool waits for a person's answer."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

_AGAIN_SECONDS = 1.0


class Deadline:
    """Cancels the running task when time is up, and again until it ends; armed only once the tool has to wait."""

    __slots__ = ("_holds", "_left", "_loop", "_task", "_timer", "passed", "seconds")

    _loop: asyncio.AbstractEventLoop  # asked for once: each time costs a system call

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = 0  # how often the task was cancelled
        self._left = seconds
        self._holds = 0
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The tool waits for something: time counts from now on."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(self._loop)
        if not self._holds:
            self._arm(self._left)

    def stop(self) -> None:
        """The tool has ended; its task is no longer to be cancelled for us."""
        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None
        if task is not None:
            for _ in range(self.passed):
                task.uncancel()

    @property
    def left(self) -> float:
        """How many seconds there still are."""
        if self._timer is None or self._holds:
            return self._left
        return max(0.0, self._timer.when() - self._loop.time())

    def is_over(self) -> bool:
        """Whether the tool was told twice: its time to clean up is over too."""
        return self.passed > 1

    @contextmanager
    def hold(self) -> Generator[None, None, None]:
        """Time does not count meanwhile: whoever asks a person has a deadline of its own for that."""
        self._holds += 1
        if self._timer is not None and self._holds == 1:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
        try:
            yield
        finally:
            self._holds -= 1
            if self._task is not None and not self._holds:
                self._arm(self._left)

    def _arm(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._pass)

    def _pass(self) -> None:
        self.passed += 1
        if self._task is not None:
            self._task.cancel()
        self._arm(_AGAIN_SECONDS)
