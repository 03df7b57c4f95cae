"""The run stage: runs the tool with its deadline, and turns what it raises into errors without internal details."""

import asyncio
import logging
import types
from collections.abc import Generator
from types import FrameType
from typing import Any

import msgspec

from toolhall.concurrency import drive_suspended
from toolhall.egress.addresses import EgressRefused
from toolhall.execution.client_link import ChangesLink, ThrottledLink
from toolhall.execution.deadline import Deadline
from toolhall.execution.loop_watchdog import CallActivity
from toolhall.execution.worker_protocol import WorkerToolError, author_traceback
from toolhall.model.errors import BadArguments, Crashed, Problem, TimedOut, ToolError, ToolFailed, ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.messages import NULL_LINK, InputRequiredSignal
from toolhall.model.text import TextSanitizer, clean_text
from toolhall.pipeline.resource_changes import ResourceChanges
from toolhall.pipeline.states import Equipped, Raw
from toolhall.redaction.log_redaction import install_log_redaction, start_redaction, stop_redaction
from toolhall.redaction.redactor import Redactor
from toolhall.schema.types import to_json

_log = logging.getLogger("toolhall.run")
IN_LOG = "; the server's log has the details"
_MAX_CHARS = 8_000
_MAX_CAUSES = 10
_REFUSED_NAME = f"{EgressRefused.__module__}.{EgressRefused.__qualname__}"


class Run:
    """Runs tools with a deadline; the one place where their exceptions are caught."""

    def __init__(
        self,
        default_timeout: float,
        activity: CallActivity | None = None,
        changes: ResourceChanges | None = None,
        *,
        explain: bool = False,
    ) -> None:
        """With `explain`, the caller operates the hall and learns which settings refuse a tool's request."""
        self._changed = (changes or ResourceChanges()).changed
        self._unheard_link = ChangesLink(self._changed)
        self._default_timeout = default_timeout
        self._explain = explain
        self._activity = activity or CallActivity()
        install_log_redaction()

    @types.coroutine
    def __call__(  # noqa: PLR0912 - all that can end a tool, in one place
        self, equipped: Equipped, time_left: float | None = None
    ) -> Generator[Any, Any, Raw]:
        """Await what the tool returns; raises Crashed, TimedOut, or the ToolhallError that the tool raised.

        `time_left` is the deadline in seconds that came with the call, if any; the tool's own timeout may be shorter.
        """
        # The watchdog finds the running tool by the name `equipped` in this frame: see tool_of_frame.
        entry, call, redactor = equipped.entry, equipped.call, equipped.redactor
        link = None
        if entry.is_interactive:
            if call.link is not NULL_LINK:
                link = ThrottledLink(call.link, redactor, on_changed=self._changed)
            call = msgspec.structs.replace(
                call, link=self._unheard_link if link is None else link, credentials=equipped.credentials
            )
        elif equipped.credentials is not None:
            call = msgspec.structs.replace(call, credentials=equipped.credentials)
        seconds = entry.tool.timeout or self._default_timeout
        if time_left is not None:
            seconds = min(entry.tool.timeout or time_left, time_left)
        deadline = Deadline(seconds, call.on_suspend)
        log_redaction = None if redactor is None else start_redaction(redactor)
        activity = self._activity
        activity.started += 1
        if activity.asleep:
            activity.wake()
        try:
            steps = entry.runner.run(entry.tool, call, equipped.arguments, deadline).__await__()
            try:
                waiting_for = next(steps)
            except StopIteration as finished:  # without waiting, as most tools do
                return Raw(entry, finished.value, redactor, call.requested_name)
            value = yield from drive_suspended(steps, waiting_for, deadline.start, deadline.grace_is_over)
            return Raw(entry, value, redactor, call.requested_name)
        except ToolhallError as error:
            _clean_error(error, redactor)
            raise
        except InputRequiredSignal as signal:
            signal.consent = call.consent
            raise
        except asyncio.CancelledError as error:
            if deadline.cancel_count:
                raise TimedOut(f"the tool did not finish within {deadline.seconds:g} seconds") from None
            if _is_cancelled():
                raise
            raise self._crash_error(equipped, error) from error  # not cancelled: the tool raised this itself
        except (Exception, SystemExit, BaseExceptionGroup) as error:
            raise self._crash_error(equipped, error) from error
        finally:
            activity.finished += 1
            if deadline.is_started:
                deadline.stop()
            if link is not None and link.dropped:
                link.finish()
            if log_redaction is not None:
                stop_redaction(log_redaction)

    def _crash_error(self, equipped: Equipped, error: BaseException) -> Crashed:
        """Log the exception and return an error without its text, which may contain anything."""
        call = equipped.call.id
        # An exception of a worker process carries its traceback as text.
        shown = (type(error), error, None if isinstance(error, WorkerToolError) else author_traceback(error))
        _log.error("tool %s failed in call %s", equipped.entry.id, call, exc_info=shown)
        if self._explain and (refusal := _egress_refusal(error)) is not None:
            return Crashed(f"the tool failed: {_redacted_text(str(refusal), equipped.redactor)}")
        return Crashed(f"the tool failed{IN_LOG} under call {call}")

    @staticmethod
    def tool_of_frame(frame: FrameType) -> str | None:
        """Return the id of the tool that a stack frame of `__call__` runs; for the watchdog, which looks at stacks."""
        if frame.f_code is not Run.__call__.__code__:
            return None
        equipped = frame.f_locals.get("equipped")
        return equipped.entry.id if isinstance(equipped, Equipped) else None


def _clean_error(error: ToolhallError, redactor: Redactor | None) -> None:
    """Sanitize and redact every text of an error that a tool raised, also the detail for the log."""
    error.message = _redacted_text(error.message, redactor)
    error.args = (error.message,)
    error.detail = error.detail and _redacted_text(error.detail, redactor)
    if isinstance(error, BadArguments):  # written by the tool's validators
        error.problems = tuple(Problem(each.path, _redacted_text(each.reason, redactor)) for each in error.problems)
    if isinstance(error, ToolFailed) and error.prompt is not None:
        error.prompt = _redacted_text(error.prompt, redactor)
    if isinstance(error, ToolError):
        error.code = _redacted_text(error.code, redactor)
        error.details = _clean_details(error.details, redactor)


def _clean_details(details: JsonObject, redactor: Redactor | None) -> JsonObject:
    """Return an author's details if they are JSON and small enough; else nothing."""
    try:
        encoded = to_json(details)
    except (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError):
        return {}
    if len(encoded) > _MAX_CHARS:
        return {}
    clean = TextSanitizer().clean_json(encoded)
    decoded: JsonObject = msgspec.json.decode(clean if redactor is None else redactor.redact_json(clean))
    return decoded


def _redacted_text(text: str, redactor: Redactor | None) -> str:
    """Cut, clean and redact a text; the cut may be inside a secret, which `redact_next` takes into account."""
    text = clean_text(text[:_MAX_CHARS])
    return text if redactor is None else redactor.redact_next(text)


def _egress_refusal(error: BaseException) -> EgressRefused | None:
    """Return the refused request that caused a tool's failure; of a worker process only its traceback is known."""
    seen: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if isinstance(seen, EgressRefused) or seen is None:
            return seen
        if isinstance(seen, WorkerToolError):
            name, _, message = str(seen).rstrip().rpartition("\n")[2].partition(": ")
            return EgressRefused(message) if name == _REFUSED_NAME else None
        seen = seen.__cause__ or seen.__context__
    return None


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
