"""Runs one recorded call through the whole pipeline of a hall, and compares what comes back."""

from collections.abc import Mapping

import msgspec

from toolhall.cli.replaying.report import Kind, Replayed
from toolhall.cli.sources.offer import offer_of
from toolhall.contracts.answers import Difference, differences
from toolhall.hall import Hall
from toolhall.model.caller import LOCAL
from toolhall.model.content import Result
from toolhall.model.errors import Crashed, Refused, ToolFailed, ToolhallError
from toolhall.model.exchange import Answer, Asking, CallTool, Finished, Silent
from toolhall.model.json import Json, encode
from toolhall.model.levels import STEP_UP_FROM, level_of
from toolhall.model.question import Answered, Question
from toolhall.model.recording import Recording, answer_of, outcome_of
from toolhall.model.secret_shapes import HIDDEN
from toolhall.model.tool import Tool
from toolhall.pipeline.record import ANSWER, ARGUMENTS, Open, Secrets

MOST_DIFFERENCES = 5
_DIALECT = "replay"
_NOBODY = "and a replay has nobody to ask"


class Replay:
    """Runs only what reads, unless writes are allowed; a call of a tool names no version, so the newest answers."""

    def __init__(self, hall: Hall, *, writes: bool) -> None:
        self._hall = hall
        self._writes = writes
        self._known: dict[str, _Known] = {}

    async def run(self, recording: Recording) -> Replayed:
        """How it went."""
        name = recording.tool.partition("@")[0]
        replayed = Replayed(kind="same", tool=name, recorded=recording.tool)
        tool = self._hall.find(name, LOCAL)
        if tool is None:
            return _ended(replayed, "gone", "there is no such tool any more")
        if name not in self._known:
            self._known[name] = _Known(Secrets.of(tool), _unrun(tool, writes=self._writes))
        known = self._known[name]
        why = known.unrun or _incomparable(recording)
        if why:
            return _ended(replayed, "skipped", why)
        ask = CallTool(name, recording.arguments, _DIALECT, len(encode(recording.arguments)))
        return _judged(replayed, recording, await self._hall.answer(ask, LOCAL, _Nobody()), known.secrets)


class _Nobody(Silent):
    """Takes every question and answers none: a tool that was told "no" might answer something else than it did."""

    def can(self, feature: str) -> bool:  # noqa: ARG002 - a tool that could ask shall do so, and be found out
        return True

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        raise Asking(questions)


class _Known(msgspec.Struct, frozen=True):
    """What need not be found out for every call of a tool: its secrets, and why it is not run."""

    secrets: Secrets
    unrun: str | None


def _unrun(tool: Tool, *, writes: bool) -> str | None:
    """Why this tool is not run, or None."""
    offer = offer_of(tool)
    if level_of(tool) >= STEP_UP_FROM:
        return f"level {level_of(tool)} needs a person's yes, {_NOBODY}"
    if writes or offer.reads_only:
        return None
    said = f"its effect is {offer.effect!r}" if offer.effect else "it does not say that it only reads"
    return f"{said}; --writes runs it"


def _incomparable(recording: Recording) -> str | None:
    """Why this call cannot be repeated and compared, or None."""
    if ARGUMENTS in recording.omitted or ANSWER in recording.omitted:
        return f"its {'arguments were' if ARGUMENTS in recording.omitted else 'answer was'} too large to be recorded"
    if any(pointer.startswith(ARGUMENTS) for pointer in recording.redacted):
        return "its arguments were redacted"
    return "its answer was redacted" if _shows_nothing(recording.answer) else None


def _judged(replayed: Replayed, recording: Recording, answer: Answer, secrets: Secrets) -> Replayed:
    match answer:
        case Finished(_, result):
            return _compared(replayed, recording, result, secrets)
        case ToolFailed() if not isinstance(answer, Crashed):
            return _compared(replayed, recording, answer, secrets)
        case ToolhallError():
            shown = secrets.taken_out(recording.arguments, {"content": [answer.message]})
            told = msgspec.structs.replace(replayed, arguments=shown.arguments)
            return _ended(told, "refused" if isinstance(answer, Refused) else "failed", shown.answer["content"][0])
        case _:
            return _ended(replayed, "skipped", f"it asks a person, {_NOBODY}")


def _compared(replayed: Replayed, recording: Recording, ended: Result | ToolFailed, secrets: Secrets) -> Replayed:
    """What is new has its secrets taken out as well, because it is printed."""
    shown = secrets.taken_out(recording.arguments, answer_of(ended))
    if _shows_nothing(shown.answer):
        return _ended(replayed, "skipped", "its answer is redacted now")
    hidden = _hidden(recording, shown)
    found = differences(recording.answer, shown.answer, hidden, MOST_DIFFERENCES)
    if recording.outcome != outcome_of(ended):
        found.insert(0, Difference("/outcome", recording.outcome, outcome_of(ended)))
    return msgspec.structs.replace(
        replayed,
        kind="changed" if found else "same",
        arguments=shown.arguments,
        differences=tuple(found),
        hidden=len(hidden),
    )


def _hidden(recording: Recording, shown: Open) -> frozenset[str]:
    places = (*recording.redacted, *shown.redacted)
    return frozenset(place.removeprefix(ANSWER) for place in places if place.startswith(ANSWER))


def _shows_nothing(answer: Json) -> bool:
    """Whether everything in it was redacted."""
    match answer:
        case dict():
            return bool(answer) and all(map(_shows_nothing, answer.values()))
        case list():
            return bool(answer) and all(map(_shows_nothing, answer))
        case _:
            return bool(answer == HIDDEN)


def _ended(replayed: Replayed, kind: Kind, reason: str) -> Replayed:
    return msgspec.structs.replace(replayed, kind=kind, reason=reason)
