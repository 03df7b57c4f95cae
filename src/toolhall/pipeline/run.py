"""Runs the tool under its deadline; what it raises becomes a failure that tells the caller nothing of the inside."""

import asyncio
import logging

from toolhall.model.errors import TimedOut, ToolFailed, ToolhallError
from toolhall.pipeline.states import Equipped, Raw
from toolhall.runners.suspension import Noticed

_log = logging.getLogger("toolhall.run")


class Run:
    """Deadline, cancellation, and the one place where a tool's exceptions are caught."""

    def __init__(self, default_timeout: float) -> None:
        self._default_timeout = default_timeout

    async def __call__(self, equipped: Equipped) -> Raw:
        """What the tool returned; ToolFailed, TimedOut, or the refusal that the tool itself raised."""
        entry, call = equipped.entry, equipped.call
        deadline = _Deadline(entry.tool.timeout or self._default_timeout)
        try:
            work = entry.runner.run(entry.tool, call, equipped.arguments)
            return Raw(entry, await Noticed(work, deadline.start))
        except ToolhallError:
            raise
        except asyncio.CancelledError:
            if deadline.passed:
                raise TimedOut(f"the tool did not finish within {deadline.seconds:g} seconds") from None
            raise
        except Exception as error:
            # Exception text may hold anything: it goes to the log, never to the caller.
            _log.exception("tool %s failed in call %s", entry.id, call.id)
            raise ToolFailed(f"the tool failed; the server's log has the details under call {call.id}") from error
        finally:
            deadline.stop()


class _Deadline:
    """Cancels the running task when time is up; armed only once the tool has to wait for something."""

    __slots__ = ("_timer", "passed", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that waits runs in a task
        self._timer = asyncio.get_running_loop().call_later(self.seconds, self._pass, task)

    def _pass(self, task: asyncio.Task[object]) -> None:
        self.passed = True
        task.cancel()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.passed:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
