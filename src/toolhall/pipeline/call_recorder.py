"""CallRecorder: records arguments and answers of selected tools for replay, with their secrets redacted.

`redact_parts` finds secrets by schema, by member name and by shape, then replaces every further occurrence of the same
values; with too many of them, everything is redacted.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from toolhall.model.call_records import MAX_VALUE_BYTES, Recording, recorded_answer, recorded_outcome, recorded_size
from toolhall.model.content import Result
from toolhall.model.errors import Crashed, ToolFailed
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.model.messages import Call
from toolhall.model.names import matches_any
from toolhall.model.secret import is_count_name, is_secret_name
from toolhall.model.tool import Tool
from toolhall.pipeline.states import Equipped
from toolhall.redaction.secret_patterns import REDACTED, redact_patterns
from toolhall.registry.snapshot import Entry
from toolhall.schema.annotations import NO_SECRET_FIELDS, SecretFields, secret_fields_of

_log = logging.getLogger("toolhall.record")
MAX_KNOWN_TOOLS = 4096
ARGUMENTS, ANSWER = "/arguments", "/answer"
MAX_DEPTH = 64
# With more secrets, pointers to them, or characters in the pointers, everything is redacted: little would be left.
MAX_SECRETS = 32
MAX_POINTERS = 100
MAX_POINTER_CHARS = 16 * 1024
MIN_ECHO_LENGTH = 4  # a shorter secret is part of too many words to be replaced elsewhere
_NAME_MEMBERS = ("name", "key", "header", "field")
_VALUE_MEMBERS = ("value", "values")


class Recordings(Protocol):
    """Stores recorded calls."""

    full: bool

    def append(self, record: bytes) -> None:
        """Store one line."""
        ...


class ToolSecrecy(msgspec.Struct, frozen=True):
    """The secret fields of a tool's schemas; found once per tool."""

    tool: Tool
    input: SecretFields
    output: SecretFields

    @classmethod
    def of(cls, tool: Tool) -> "ToolSecrecy":
        """Find the secret fields of a tool's schemas."""
        return cls(tool, secret_fields_of(tool.input), secret_fields_of(tool.output.schema))

    def redact_call(self, arguments: Json, answer: JsonObject) -> "RedactedCall":
        """Redact a call. The tool's name counts as the name of its result: what `get_secret` returns is secret."""
        name = self.tool.id.tool
        parts = [
            RedactionInput(f"{ANSWER}/{key}", value, name, self.output if key == "value" else NO_SECRET_FIELDS)
            for key, value in answer.items()
        ]
        found = redact_parts(RedactionInput(ARGUMENTS, arguments, "", self.input), *parts)
        return RedactedCall(found.values[0], dict(zip(answer, found.values[1:], strict=True)), found.pointers)


class RedactedCall(msgspec.Struct, frozen=True):
    """A call without its secrets, and the pointers to what was replaced."""

    arguments: Json
    answer: JsonObject
    redacted: tuple[str, ...]


class CallRecorder:
    """Records the calls of tools whose id matches one of the globs."""

    def __init__(self, globs: Sequence[str], recordings: Recordings, clock: Callable[[], float]) -> None:
        self._globs = globs
        self._recordings = recordings
        self._clock = clock
        self._known: dict[str, tuple[Entry, ToolSecrecy | None]] = {}
        self._failed = False

    def __call__(self, equipped: Equipped) -> "PendingRecording | None":
        """Start a recording before the tool runs, because the tool may change its arguments; None if not recorded.

        Records the arguments as they were sent, without defaults.
        """
        secrets = self._secrecy(equipped.entry)
        if secrets is None or self._recordings.full:
            return None
        arguments, redactor = encode(equipped.call.arguments), equipped.redactor
        return PendingRecording(
            equipped.call, arguments if redactor is None else redactor.redact_json(arguments), secrets, self
        )

    def write(self, pending: "PendingRecording", ended: Result | ToolFailed) -> None:
        """Store a call that was answered; a failure is logged and never reaches the caller."""
        try:
            self._recordings.append(encode(self._recording(pending, ended)) + b"\n")
        except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            if (
                not self._failed
            ):  # logged once, because it may happen often; without its text, which may contain secrets
                self._failed = True
                _log.warning("a call of %s cannot be recorded: %s", pending.secrecy.tool.id, type(error).__name__)

    def _secrecy(self, entry: Entry) -> ToolSecrecy | None:
        """Return the tool's secret fields, None if it is not recorded; cached per entry, since schemas may change."""
        known = self._known.get(entry.id)
        if known is None or known[0] is not entry:
            if len(self._known) >= MAX_KNOWN_TOOLS:
                self._known.clear()
            known = self._known[entry.id] = (
                entry,
                ToolSecrecy.of(entry.tool) if matches_any(self._globs, entry.id) else None,
            )
        return known[1]

    def _recording(self, pending: "PendingRecording", ended: Result | ToolFailed) -> Recording:
        sizes = {ARGUMENTS: len(pending.arguments), ANSWER: recorded_size(ended)}
        omitted = tuple(pointer for pointer, size in sizes.items() if size > MAX_VALUE_BYTES)
        arguments: Json = None if ARGUMENTS in omitted else msgspec.json.decode(pending.arguments)
        shown = pending.secrecy.redact_call(arguments, {} if ANSWER in omitted else recorded_answer(ended))
        return Recording(
            time=self._clock(),
            tool=str(pending.secrecy.tool.id),
            dialect=pending.call.dialect,
            outcome=recorded_outcome(ended),
            arguments=shown.arguments,
            answer=None if ANSWER in omitted else shown.answer,
            redacted=shown.redacted,
            omitted=omitted,
        )


class PendingRecording(msgspec.Struct, frozen=True):
    """A running call that will be recorded if the tool answers it."""

    call: Call
    arguments: bytes
    secrecy: ToolSecrecy
    recorder: CallRecorder

    def finish(self, ended: Result | BaseException) -> None:
        """Record an answer: a result, or an error that the tool raised on purpose; not a crash."""
        if isinstance(ended, Result | ToolFailed) and not isinstance(ended, Crashed):
            self.recorder.write(self, ended)


class RedactionInput(msgspec.Struct, frozen=True):
    """A value to redact: its JSON pointer, its member name, and the secret fields of its schema."""

    pointer: str
    value: Json
    name: str = ""
    secrecy: SecretFields = NO_SECRET_FIELDS


class RedactionResult(msgspec.Struct, frozen=True):
    """The redacted values, in the order of the inputs, and the pointers to what was replaced."""

    values: list[Json]
    pointers: tuple[str, ...]


def redact_parts(*parts: RedactionInput) -> RedactionResult:
    """Redact all parts together, because a tool may return the very secret that it was called with."""
    try:
        search = _SecretSearch()
        values = [search.redact(part) for part in parts]
        if search.secrets:
            echoes = _EchoReplacer(search.secrets)
            values = [echoes.replaced(value) for value in values]
        pointers = (
            pointer
            for part, value in zip(parts, values, strict=True)
            for pointer in _redacted_pointers(value, part.pointer)
        )
        return RedactionResult(values, tuple(_bounded(pointers)))
    except _TooManySecrets:
        return RedactionResult([REDACTED] * len(parts), tuple(part.pointer for part in parts))


class _TooManySecrets(Exception):
    """There are too many secrets or pointers: everything is redacted."""


class _SecretSearch:
    """Replaces secrets that are found by schema, name or shape, and collects them."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self._secrecy = NO_SECRET_FIELDS

    def redact(self, part: RedactionInput) -> Json:
        """Return the part without its secrets."""
        self._secrecy = part.secrecy
        return self._hide(part.value) if part.secrecy.whole else self._member(part.name, part.value, 0)

    def _member(self, name: str, value: Json, depth: int) -> Json:
        if name in self._secrecy.members or (is_secret_name(name) and not (is_count_name(name) and _is_numbers(value))):
            return self._hide(value)
        return self._open(value, depth)

    def _hide(self, value: Json) -> Json:
        """Replace a value; booleans, null and empty values are never secret, whatever their name."""
        if value is None or isinstance(value, bool) or value in ("", [], {}):
            return value
        for leaf in _leaves(value):
            self._remember(str(leaf))
            redact_patterns(str(leaf), self._remember)  # the value of a header contains more than the secret
        return REDACTED

    def _open(self, value: Json, depth: int) -> Json:
        match value:
            case str():
                return redact_patterns(value, self._remember)
            case dict() | list() if depth > MAX_DEPTH:
                return self._hide(value)
            case dict():
                return self._object(value, depth + 1)
            case [str(name), second] if is_secret_name(name):  # a header, as a pair
                return [name, self._hide(second)]
            case list():
                return [self._open(each, depth + 1) for each in value]
            case _:
                return value

    def _object(self, value: JsonObject, depth: int) -> JsonObject:
        named = any(isinstance(value.get(key), str) and is_secret_name(value[key]) for key in _NAME_MEMBERS)
        return {
            redact_patterns(key, self._remember): (
                self._hide(each) if named and key in _VALUE_MEMBERS else self._member(key, each, depth)
            )
            for key, each in value.items()
        }

    def _remember(self, secret: str) -> None:
        if len(secret) >= MIN_ECHO_LENGTH and secret != REDACTED:
            self.secrets.add(secret)
            if len(self.secrets) > MAX_SECRETS:
                raise _TooManySecrets


class _EchoReplacer:
    """Replaces every further occurrence of the secrets that were found."""

    def __init__(self, secrets: set[str]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)  # one may be a part of another

    def replaced(self, value: Json) -> Json:
        """Return the value without the secrets."""
        match value:
            case str():
                return self._text(value)
            case dict():
                return {self._text(key): self.replaced(each) for key, each in value.items()}
            case list():
                return [self.replaced(each) for each in value]
            case int() | float() if str(value) in self._secrets:
                return REDACTED
            case _:
                return value

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text and text != REDACTED:
                text = text.replace(secret, REDACTED)
        return text


def _leaves(value: Json) -> Iterator[Json]:
    """Yield the texts and numbers in a value."""
    pending = [value]
    while pending:
        part = pending.pop()
        match part:
            case dict():
                pending.extend(part.values())
            case list():
                pending.extend(part)
            case bool() | None:
                continue
            case _:
                yield part


def _is_numbers(value: Json) -> bool:
    return not any(isinstance(leaf, str) for leaf in _leaves(value))


def _redacted_pointers(value: Json, pointer: str) -> Iterator[str]:
    """Yield the pointers to what was replaced; called last, when no member name is a secret any more."""
    match value:
        case str() if REDACTED in value:
            yield pointer
        case dict():
            for key, each in value.items():
                inner = f"{pointer}/{escape_pointer(key)}"
                if REDACTED in key:
                    yield inner
                yield from _redacted_pointers(each, inner)
        case list():
            for index, each in enumerate(value):
                yield from _redacted_pointers(each, f"{pointer}/{index}")
        case _:
            return


def _bounded(pointers: Iterator[str]) -> Iterator[str]:
    characters = 0
    for count, pointer in enumerate(pointers):
        characters += len(pointer)
        if count >= MAX_POINTERS or characters > MAX_POINTER_CHARS:
            raise _TooManySecrets
        yield pointer
