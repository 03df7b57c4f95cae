"""Runs the tool under its deadline; what it raises becomes a failure that tells the caller nothing of the inside."""

import asyncio
import logging
from types import FrameType

import msgspec

from toolhall.egress.errors import EgressRefused
from toolhall.model.errors import BadArguments, Crashed, Problem, TimedOut, ToolError, ToolFailed, ToolhallError
from toolhall.model.exchange import SILENT, Asking
from toolhall.model.json import JsonObject
from toolhall.model.text import Sweep, clean_text
from toolhall.pipeline.states import Equipped, Raw
from toolhall.runners.carried import own_frames
from toolhall.runners.deadline import Deadline
from toolhall.runners.discretion import hush, keep_discreet, unhush
from toolhall.runners.process import ToolRaised
from toolhall.runners.redactor import Redactor
from toolhall.runners.suspension import Noticed
from toolhall.runners.telling import Telling
from toolhall.runners.watchdog import Activity
from toolhall.schema.types import to_json

_log = logging.getLogger("toolhall.run")
IN_LOG = "; the server's log has the details"
_MOST_LETTERS = 8_000
_MOST_CAUSES = 10
_REFUSED_NAME = f"{EgressRefused.__module__}.{EgressRefused.__qualname__}"


class Run:
    """Deadline, cancellation, and the one place where a tool's exceptions are caught."""

    def __init__(self, default_timeout: float, activity: Activity | None = None, *, explain: bool = False) -> None:
        """With `explain`, whoever calls also operates the hall, and is told what its settings refuse."""
        self._default_timeout = default_timeout
        self._explain = explain
        self._activity = activity or Activity()
        keep_discreet()

    async def __call__(self, equipped: Equipped, left: float | None = None) -> Raw:
        """What the tool returned; Crashed, TimedOut, or the refusal that the tool itself raised.

        `left` is how many seconds the call has, where whoever sent it says so: then only the tool's own time is less.
        """
        entry, call, redactor = equipped.entry, equipped.call, equipped.redactor
        telling = None
        if entry.tells and call.link is not SILENT:
            telling = Telling(call.link, redactor)
            call = msgspec.structs.replace(call, link=telling, equipment=equipped.equipment)
        elif equipped.equipment is not None:
            call = msgspec.structs.replace(call, equipment=equipped.equipment)
        seconds = entry.tool.timeout or (self._default_timeout if left is None else left)
        deadline = Deadline(seconds if left is None else min(seconds, left))
        hushed = None if redactor is None else hush(redactor)
        activity = self._activity
        activity.begun += 1
        if activity.asleep:
            activity.wake()
        try:
            work = entry.runner.run(entry.tool, call, equipped.arguments, deadline)
            return Raw(entry, await Noticed(work, deadline.start, deadline.is_over), redactor)
        except ToolhallError as error:
            _clean(error, redactor)
            raise
        except Asking as asking:
            asking.consent = call.consent
            raise
        except asyncio.CancelledError as error:
            if deadline.passed:
                raise TimedOut(f"the tool did not finish within {deadline.seconds:g} seconds") from None
            if _is_cancelled():
                raise
            raise self._failed(equipped, error) from error  # nobody cancelled the call: the tool raised this by itself
        except (Exception, SystemExit, BaseExceptionGroup) as error:
            raise self._failed(equipped, error) from error
        finally:
            activity.ended += 1
            deadline.stop()
            if telling is not None and telling.dropped:
                telling.end()
            if hushed is not None:
                unhush(hushed)

    def _failed(self, equipped: Equipped, error: BaseException) -> Crashed:
        """Exception text may hold anything: it goes to the log, never to the caller."""
        call = equipped.call.id
        # What was raised in a process of its own brings its traceback as text.
        shown = (type(error), error, None if isinstance(error, ToolRaised) else own_frames(error))
        _log.error("tool %s failed in call %s", equipped.entry.id, call, exc_info=shown)
        if self._explain and (refusal := _egress_refusal(error)) is not None:
            return Crashed(f"the tool failed: {_text(str(refusal), equipped.redactor)}")
        return Crashed(f"the tool failed{IN_LOG} under call {call}")

    @staticmethod
    def tool_in(frame: FrameType) -> str | None:
        """The id of the tool that this stack frame runs, if it is ours; whoever looks at stacks can name the tool."""
        if frame.f_code is not Run.__call__.__code__:
            return None
        equipped = frame.f_locals.get("equipped")
        return equipped.entry.id if isinstance(equipped, Equipped) else None


def _clean(error: ToolhallError, redactor: Redactor | None) -> None:
    """The tool's own words, like any of its output; also those for the log."""
    error.message = _text(error.message, redactor)
    error.args = (error.message,)
    error.detail = error.detail and _text(error.detail, redactor)
    if isinstance(error, BadArguments):  # a validator's own words
        error.problems = tuple(Problem(each.path, _text(each.reason, redactor)) for each in error.problems)
    if isinstance(error, ToolFailed) and error.prompt is not None:
        error.prompt = _text(error.prompt, redactor)
    if isinstance(error, ToolError):
        error.code = _text(error.code, redactor)
        error.details = _details(error.details, redactor)


def _details(details: JsonObject, redactor: Redactor | None) -> JsonObject:
    """Of an author's details only what JSON can say, and not much of it."""
    try:
        encoded = to_json(details)
    except (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError):
        return {}
    if len(encoded) > _MOST_LETTERS:
        return {}
    clean = Sweep().json(encoded)
    decoded: JsonObject = msgspec.json.decode(clean if redactor is None else redactor.json(clean))
    return decoded


def _text(text: str, redactor: Redactor | None) -> str:
    """Cut off where it is too long, which may be in the middle of a secret."""
    text = clean_text(text[:_MOST_LETTERS])
    return text if redactor is None else redactor.next(text)


def _egress_refusal(error: BaseException) -> EgressRefused | None:
    """The refused request that a tool failed of; one in a process of its own tells only its traceback."""
    seen: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if isinstance(seen, EgressRefused) or seen is None:
            return seen
        if isinstance(seen, ToolRaised):
            name, _, said = str(seen).rstrip().rpartition("\n")[2].partition(": ")
            return EgressRefused(said) if name == _REFUSED_NAME else None
        seen = seen.__cause__ or seen.__context__
    return None


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
