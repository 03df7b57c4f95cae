"""Runs the tool under its deadline; what it raises becomes a failure that tells the caller nothing of the inside."""

import asyncio
import logging

from toolhall.model.errors import Crashed, TimedOut, ToolFailed, ToolhallError
from toolhall.pipeline.sanitize import clean_text
from toolhall.pipeline.states import Equipped, Raw
from toolhall.runners.deadline import Deadline
from toolhall.runners.suspension import Noticed

_log = logging.getLogger("toolhall.run")
_MOST_LETTERS = 8_000


class Run:
    """Deadline, cancellation, and the one place where a tool's exceptions are caught."""

    def __init__(self, default_timeout: float) -> None:
        self._default_timeout = default_timeout

    async def __call__(self, equipped: Equipped) -> Raw:
        """What the tool returned; Crashed, TimedOut, or the refusal that the tool itself raised."""
        entry, call = equipped.entry, equipped.call
        deadline = Deadline(entry.tool.timeout or self._default_timeout)
        try:
            work = entry.runner.run(entry.tool, call, equipped.arguments, deadline)
            return Raw(entry, await Noticed(work, deadline.start, deadline.is_over))
        except ToolhallError as error:
            _clean(error)
            raise
        except asyncio.CancelledError as error:
            if deadline.passed:
                raise TimedOut(f"the tool did not finish within {deadline.seconds:g} seconds") from None
            if _is_cancelled():
                raise
            raise _failed(equipped) from error  # nobody cancelled the call: the tool raised this by itself
        except (Exception, SystemExit, BaseExceptionGroup) as error:
            raise _failed(equipped) from error
        finally:
            deadline.stop()


def _clean(error: ToolhallError) -> None:
    """The tool's own words, like any of its output."""
    error.message = clean_text(error.message[:_MOST_LETTERS])
    error.args = (error.message,)
    if isinstance(error, ToolFailed) and error.prompt is not None:
        error.prompt = clean_text(error.prompt[:_MOST_LETTERS])


def _failed(equipped: Equipped) -> Crashed:
    """Exception text may hold anything: it goes to the log, never to the caller."""
    call = equipped.call.id
    _log.exception("tool %s failed in call %s", equipped.entry.id, call)
    return Crashed(f"the tool failed; the server's log has the details under call {call}")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
