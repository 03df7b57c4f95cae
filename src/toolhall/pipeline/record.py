"""Keeps what calls were asked and what they answered, for the tools that the operator named, without their secrets."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from toolhall.model.call import Call
from toolhall.model.content import Result
from toolhall.model.errors import Crashed, ToolFailed
from toolhall.model.globs import means
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.recording import VALUE_LIMIT, Recording, answer_of, outcome_of, size_of
from toolhall.model.tool import Tool
from toolhall.pipeline.redact import Part, redact
from toolhall.pipeline.states import Equipped
from toolhall.registry.entry import Entry
from toolhall.schema.secrecy import OPEN, Secrecy, secrecy_of

_log = logging.getLogger("toolhall.record")

MOST_KNOWN = 4096  # tools; more than that come and go

ARGUMENTS, ANSWER = "/arguments", "/answer"


class Recordings(Protocol):
    """Where recorded calls are kept."""

    full: bool

    def append(self, record: bytes) -> None:
        """Keep this line."""
        ...


class Secrets(msgspec.Struct, frozen=True):
    """What a tool's schemas call secret; found out once per tool."""

    tool: Tool
    given: Secrecy
    answered: Secrecy

    @classmethod
    def of(cls, tool: Tool) -> "Secrets":
        """What this tool's schemas say."""
        return cls(tool, secrecy_of(tool.input), secrecy_of(tool.output.schema))

    def taken_out(self, arguments: Json, answer: JsonObject) -> "Open":
        """The call without them; what a tool called `get_secret` returns is one."""
        name = self.tool.id.tool
        parts = [
            Part(f"{ANSWER}/{key}", value, name, self.answered if key == "value" else OPEN)
            for key, value in answer.items()
        ]
        found = redact(Part(ARGUMENTS, arguments, "", self.given), *parts)
        return Open(found.values[0], dict(zip(answer, found.values[1:], strict=True)), found.pointers)


class Open(msgspec.Struct, frozen=True):
    """A call that may be shown, and the pointers to what was redacted in it."""

    arguments: Json
    answer: JsonObject
    redacted: tuple[str, ...]


class Recorder:
    """Looks at every call when it starts; those of other tools go on unseen."""

    def __init__(self, globs: Sequence[str], recordings: Recordings, clock: Callable[[], float]) -> None:
        self._globs = globs
        self._recordings = recordings
        self._clock = clock
        self._known: dict[str, tuple[Entry, Secrets | None]] = {}
        self._failed = False

    def __call__(self, equipped: Equipped) -> "Begun | None":
        """Before the tool runs, because it may change its arguments; as they were sent, with nothing added to them."""
        secrets = self._secrets(equipped.entry)
        if secrets is None or self._recordings.full:
            return None
        given, redactor = encode(equipped.call.arguments), equipped.redactor
        return Begun(equipped.call, given if redactor is None else redactor.json(given), secrets, self)

    def keep(self, begun: "Begun", ended: Result | ToolFailed) -> None:
        """Keep a call that was answered; whatever goes wrong with that is not the caller's concern."""
        try:
            self._recordings.append(encode(self._recording(begun, ended)) + b"\n")
        except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            if not self._failed:  # once, because it may happen often; without its text, which may hold anything
                self._failed = True
                _log.warning("a call of %s cannot be recorded: %s", begun.secrets.tool.id, type(error).__name__)

    def _secrets(self, entry: Entry) -> Secrets | None:
        """None for a tool that is not recorded; an id may come back with another schema."""
        known = self._known.get(entry.id)
        if known is None or known[0] is not entry:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[entry.id] = entry, Secrets.of(entry.tool) if means(self._globs, entry.id) else None
        return known[1]

    def _recording(self, begun: "Begun", ended: Result | ToolFailed) -> Recording:
        sizes = {ARGUMENTS: len(begun.arguments), ANSWER: size_of(ended)}
        omitted = tuple(pointer for pointer, size in sizes.items() if size > VALUE_LIMIT)
        arguments: Json = None if ARGUMENTS in omitted else msgspec.json.decode(begun.arguments)
        shown = begun.secrets.taken_out(arguments, {} if ANSWER in omitted else answer_of(ended))
        return Recording(
            time=self._clock(),
            tool=str(begun.secrets.tool.id),
            dialect=begun.call.dialect,
            outcome=outcome_of(ended),
            arguments=shown.arguments,
            answer=None if ANSWER in omitted else shown.answer,
            redacted=shown.redacted,
            omitted=omitted,
        )


class Begun(msgspec.Struct, frozen=True):
    """A call that will be kept if the tool answers it."""

    call: Call
    arguments: bytes
    secrets: Secrets
    recorder: Recorder

    def end(self, ended: Result | BaseException) -> None:
        """An answer is a result, or an error that the tool itself meant to give; a crash is none."""
        if isinstance(ended, Result | ToolFailed) and not isinstance(ended, Crashed):
            self.recorder.keep(self, ended)
