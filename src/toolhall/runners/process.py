"""Runs a tool in a worker process, which can be killed: what a tool does there costs its own call and nobody else's."""

import logging
import math
import signal
from collections.abc import Awaitable

import msgspec

from toolhall.authoring.context import Patience
from toolhall.egress.outside import Outside
from toolhall.model.call import Call
from toolhall.model.errors import BadOutput, Crashed, ToolhallError
from toolhall.model.exchange import Asking, Event, Log, Progress
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.runners.address import Address
from toolhall.runners.carried import all_tagged, all_untagged, raised, returned, told
from toolhall.runners.child import Child, Gone, Lied
from toolhall.runners.supply import known_to, supply_of
from toolhall.runners.wire import (
    Done,
    End,
    Limits,
    Questions,
    Raised,
    Ready,
    Replied,
    Said,
    Told,
    TooLarge,
    Unfit,
    Unwound,
    Unwritable,
    Work,
)
from toolhall.runners.workers import Workers

_OUTSIDE = Outside()
_FEATURES = ("elicitation", "elicitation.url", "sampling", "roots")
_log = logging.getLogger("toolhall.run")


class ToolRaised(Exception):
    """The tool's own exception, which stayed in its process; the message is its traceback."""


class ProcessRunner:
    """One call, one worker; when the call is cancelled or its time is up, the worker is killed."""

    __slots__ = ("_address", "_code_sha256", "_outside", "_seconds", "_workers")

    def __init__(
        self, address: Address, workers: Workers, seconds: float, outside: Outside = _OUTSIDE, code_sha256: str = ""
    ) -> None:
        self._address = address
        self._code_sha256 = code_sha256  # of the function that was registered; "": whatever is there now runs
        self._workers = workers
        self._outside = outside
        self._seconds = seconds  # for tools that state no timeout

    def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> Awaitable[object]:
        """What the function returned, there."""
        return self._run(tool, call, arguments, patience)

    async def _run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> object:
        name, sound = str(tool.id), False
        seconds = math.ceil(tool.timeout or self._seconds) + 1
        child = await self._workers.take(self._address, name, patience)
        child.output.tool = name
        try:
            if call.equipment is not None:
                child.output.hide(call.equipment.hidden)
            can = tuple(filter(call.link.can, _FEATURES))
            supply, allow, code = supply_of(call.equipment), self._outside.allow, self._code_sha256
            work = Work(self._address, tool.name, arguments, known_to(call), can, seconds, supply, allow, code)
            await child.say(work)
            end, asking = await _conversation(child, call, patience)
            sound = not isinstance(end, Raised) or not end.spent
        except Lied as error:
            raise ToolRaised("its process does not speak as a worker does") from error
        except Gone:
            raise await _autopsy(child, name, seconds) from None
        finally:
            self._workers.give(child, self._address, name, sound=sound)
        if isinstance(end, Unwound) and asking is not None:
            raise asking
        return _outcome(end, name, self._workers.limits)


async def _conversation(child: Child, call: Call, patience: Patience) -> tuple[End, Asking | None]:
    """Pass on what the tool says and asks, until it ends."""
    asking: Asking | None = None
    while True:
        report = await child.hear()
        match report:
            case Said():
                call.link.emit(_event(report))
            case Questions():
                replied, asking = await _asked(report, call, patience)
                await child.say(replied)
            case Ready() | Unfit():
                raise Lied  # it said so before
            case _:
                return report, asking


def _event(said: Said) -> Event:
    if said.done is None:
        return Log(said.level, said.data, said.logger)
    return Progress(said.done, said.total, said.message)


async def _asked(questions: Questions, call: Call, patience: Patience) -> tuple[Replied, Asking | None]:
    try:
        if questions.retry_ms is not None:
            await call.link.detach(questions.retry_ms)
            return Replied(questions.number), None
        asked = all_untagged(questions.asked)
        with patience.hold():
            return Replied(questions.number, all_tagged(await call.link.ask(asked))), None
    except Asking as asking:
        return Replied(questions.number, later=True), asking
    except ToolhallError as error:
        return Replied(questions.number, error=told(error)), None
    except (msgspec.ValidationError, ValueError) as error:
        raise Lied from error


def _outcome(end: End, tool: str, limits: Limits) -> object:
    match end:
        case Done():
            return returned(end)
        case Told():
            raise raised(end)
        case Unwritable():
            _log.error("tool %s returned what cannot be written as JSON:\n%s", tool, end.trace)
            raise BadOutput("the tool returned something that cannot be written as JSON")
        case TooLarge():
            _log.error("tool %s returned %d bytes", tool, end.size)
            raise BadOutput(f"the tool returned {end.size} bytes; that is more than is passed on")
        case Raised(memory=True):
            _log.error("tool %s used up its memory:\n%s", tool, end.trace)
            raise Crashed(f"the tool was stopped: it used more than {_amount(limits.memory)} of memory")
        case Raised():
            raise ToolRaised(end.trace)
        case Unwound():
            raise ToolRaised("the tool ended as if it had asked something, and it had not")


async def _autopsy(child: Child, tool: str, seconds: int) -> Crashed:
    code = await child.ending()
    if code is None:
        cause = "it no longer answers"
    elif code == -signal.SIGXCPU:
        cause = f"it used more than {seconds} seconds of CPU"
    elif code == -signal.SIGKILL:
        cause = "the system killed it, most likely for want of memory"
    elif code < 0:
        cause = f"it crashed ({signal.Signals(-code).name})"
    else:
        cause = f"it ended its process with code {code}"
    _log.error("tool %s took its process down: %s", tool, cause)
    return Crashed(f"the tool was stopped: {cause}")


def _amount(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} bytes"
