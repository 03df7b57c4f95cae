"""The stages Validate and Check: arguments before the tool runs and its result after, against compiled schemas.

Costly arguments are validated outside the event loop. A result is measured, validated and encoded as JSON once.
"""

import logging
from collections.abc import Awaitable, Sequence
from operator import attrgetter
from typing import TypeGuard

import msgspec

from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.caller import GRANT_FROM
from toolhall.model.content import (
    CONTENT_TYPES,
    Audio,
    Content,
    Image,
    Notes,
    Reply,
    Resource,
    ResourceLink,
    Result,
    Text,
    TextOnlyReply,
)
from toolhall.model.errors import BadArguments, BadOutput, NotFound, Problem
from toolhall.model.json import Json, escape_pointer, type_name, walk_levels
from toolhall.model.messages import Call
from toolhall.pipeline.contents import prompt_result, resource_result, text_result
from toolhall.pipeline.find import not_found
from toolhall.pipeline.states import Admitted, Checked, Raw, Valid
from toolhall.redaction.log_redaction import start_redaction, stop_redaction
from toolhall.registry.snapshot import Entry
from toolhall.schema.signature import with_binding_problems
from toolhall.schema.types import to_json_within
from toolhall.schema.validator import MAX_PROBLEMS, MAX_REASON_LENGTH, Validator, printable

# Subschemas visited times bytes checked: below this, a validation blocks the loop for less than 20 ms.
IN_LOOP_BUDGET = 5_000_000


class Validate:
    """Validates arguments; reports all problems at once, each with its path, never with a value."""

    def __init__(self, checker: ProcessValidator) -> None:
        self._checker = checker

    def __call__(self, admitted: Admitted) -> Valid | Awaitable[Valid]:
        """Return Valid, or an awaitable of it for a costly check; raises BadArguments."""
        call, validator = admitted.call, admitted.entry.input_validator
        if call.size > validator.fast_size and not _is_cheap(validator, call):
            return self._validate_off_loop(admitted)
        if not validator.accepts(call.arguments):
            problems = validator.problems(call.arguments, call.size)
            problems = with_binding_problems(problems, call.arguments, call.size, admitted.entry.bind)
            raise _bad_arguments(call, problems)
        if admitted.entry.tool.foreign:
            return _valid(admitted) if admitted.entry.next_input is None else self._validate_next(admitted)
        return Valid(call, admitted.entry, admitted.verdict, call.arguments)

    async def _validate_off_loop(self, admitted: Admitted) -> Valid:
        call = admitted.call
        problems = await self._checker.problems(admitted.entry.input_validator.schema, call.arguments, call.size)
        if problems:
            raise _bad_arguments(call, problems)
        if admitted.entry.next_input is not None:
            checked = self._validate_next(admitted)
            return checked if isinstance(checked, Valid) else await checked
        return _valid(admitted)

    def _validate_next(self, admitted: Admitted) -> Valid | Awaitable[Valid]:
        """Hold the arguments to a newer definition as well, by which they are understood where they arrive."""
        call, validator = admitted.call, admitted.entry.next_input
        if validator is None:
            return _valid(admitted)
        if call.size > validator.fast_size and not _is_cheap(validator, call):
            return self._validate_next_off_loop(admitted, validator)
        if not validator.accepts(call.arguments):
            raise _bad_arguments(call, validator.problems(call.arguments, call.size))
        return _valid(admitted)

    async def _validate_next_off_loop(self, admitted: Admitted, validator: Validator) -> Valid:
        call = admitted.call
        problems = await self._checker.problems(validator.schema, call.arguments, call.size)
        if problems:
            raise _bad_arguments(call, problems)
        return _valid(admitted)


def _bad_arguments(call: Call, problems: Sequence[Problem]) -> BadArguments | NotFound:
    """Return the error for arguments that do not fit; a URI whose variables do not fit names nothing."""
    if call.kind == "resource":
        return not_found("resource", call.requested_name or call.tool)
    return BadArguments(problems)


def _is_cheap(validator: Validator, call: Call) -> bool:
    """Return whether the arguments can be checked in the loop; remembers the size up to which all of them can."""
    if validator.cost.growth == 1:
        validator.fast_size = max(validator.fast_size, IN_LOOP_BUDGET // max(1, validator.cost.visits))
    return validation_cost(validator, call.arguments, call.size) <= IN_LOOP_BUDGET


def _valid(admitted: Admitted) -> Valid:
    if admitted.entry.tool.foreign and admitted.verdict.level >= GRANT_FROM:
        _check_named_arguments(admitted)
    return Valid(admitted.call, admitted.entry, admitted.verdict, admitted.call.arguments)


def _check_named_arguments(admitted: Admitted) -> None:
    """Refuse arguments that a foreign tool's schema allows but does not name, from level 4 up."""
    call, closed = admitted.call, admitted.entry.input_validator.declared_only
    if closed is admitted.entry.input_validator or closed.accepts(call.arguments):
        return
    unnamed = [
        f"/{escape_pointer(name)[:MAX_REASON_LENGTH]}" for name in call.arguments if not closed.accepts({name: None})
    ]
    reason = f"the tool's definition does not name this argument, and from level {GRANT_FROM} on only named ones pass"
    raise BadArguments([Problem(printable(path), reason) for path in unnamed[:MAX_PROBLEMS]])


def validation_cost(validator: Validator, value: Json, size: int) -> int:
    """Return a bound on the work: with a recursive schema that checks a part repeatedly, it grows with every level."""
    bounds = validator.cost
    if bounds.growth == 1:
        return bounds.visits * size
    return int(bounds.visits * size * bounds.growth ** min(_depth(value), 64))


def _depth(value: Json) -> int:
    return sum(1 for _ in walk_levels(value)) + 1


_log = logging.getLogger("toolhall.check")
_decode = msgspec.json.decode
_UNENCODABLE = (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError)
_TEXT, _OPTIONAL_TEXT = (str,), (str, type(None))
_COMMON_FIELDS = {"notes": (Notes, type(None)), "meta": (dict, type(None))}
_FIELD_TYPES: dict[type, dict[str, tuple[type, ...]]] = {
    Text: {"text": _TEXT, **_COMMON_FIELDS},
    Image: {"data": (bytes,), "mime_type": _TEXT, **_COMMON_FIELDS},
    Audio: {"data": (bytes,), "mime_type": _TEXT, **_COMMON_FIELDS},
    ResourceLink: {
        "uri": _TEXT,
        "name": _TEXT,
        "title": _OPTIONAL_TEXT,
        "description": _OPTIONAL_TEXT,
        **_COMMON_FIELDS,
    },
    Resource: {"uri": _TEXT, "content": (str, bytes), "mime_type": _OPTIONAL_TEXT, **_COMMON_FIELDS},
    Result: {"content": (list, tuple), "meta": (dict, type(None))},
}
_FIELD_READERS = {kind: (attrgetter(*fields), tuple(fields.values())) for kind, fields in _FIELD_TYPES.items()}


class Check:
    """Checks size, encoding and output schema of what a tool returned."""

    def __init__(self, max_bytes: int, *, explain: bool = False) -> None:
        """With `explain`, the caller may be the author and learns what did not match; never the values."""
        self._max_bytes = max_bytes
        self._explain = explain

    def __call__(self, raw: Raw) -> Checked:
        """Return the result; raises BadOutput if it does not match the output schema or is too large."""
        entry, value, redactor = raw.entry, raw.value, raw.redactor
        if entry.read_texts is not None:
            return self._beside_tools(raw)
        log_redaction = None if redactor is None else start_redaction(redactor)  # problems with a value go to the log
        try:
            result = self._value(value, entry) if type(value) is dict else self._result(value, entry)
            return Checked(entry, result, redactor)
        finally:
            if log_redaction is not None:
                stop_redaction(log_redaction)

    def _beside_tools(self, raw: Raw) -> Checked:
        """Return the contents of a resource or the messages of a prompt."""
        entry, value, redactor = raw.entry, raw.value, raw.redactor
        if type(value) is str:  # as most of them return: there are no fields that could be wrong
            return Checked(entry, text_result(self._check_size(value, entry), entry, raw.requested_name), redactor)
        log_redaction = None if redactor is None else start_redaction(redactor)
        try:
            if entry.tool.prompt is not None:
                result = prompt_result(value)
            else:
                uri = raw.requested_name or ""
                result = resource_result(value, entry, uri, lambda value: self._encode(value, entry))
            return Checked(entry, self._check_blocks(result, entry), redactor)
        finally:
            if log_redaction is not None:
                stop_redaction(log_redaction)

    def _result(self, value: object, entry: Entry) -> Result:
        if type(value) is dict:
            return self._value(value, entry)
        if isinstance(value, Reply):
            return self._reply(value, entry)
        blocks = _blocks(value)
        if blocks:
            return self._without_value(Result(None, blocks), entry)
        if entry.output_validator is None and (value is None or type(value) is str):
            return Result(None, () if value is None else (Text(self._check_size(value, entry)),))
        return self._value(value, entry)

    def _reply(self, reply: Reply, entry: Entry) -> Result:
        if isinstance(reply, TextOnlyReply):
            return self._check_blocks(Result(None, reply.content, meta=reply.meta), entry)
        if reply.value is msgspec.UNSET:
            return self._without_value(Result(None, reply.content, meta=reply.meta, is_error=reply.is_error), entry)
        checked = self._value(reply.value, entry)
        return self._check_blocks(
            Result(checked.encoded, reply.content, checked.text, reply.meta, reply.is_error), entry
        )

    def _without_value(self, result: Result, entry: Entry) -> Result:
        if entry.output_validator is not None and not result.is_error:
            _log.error("tool %s declares an output schema and returned no value", entry.id)
            raise BadOutput("the tool returned no value, and its output schema promises one")
        return self._check_blocks(result, entry)

    def _check_blocks(self, result: Result, entry: Entry) -> Result:
        if not _has_valid_fields(result) or not all(map(_has_valid_fields, result.content)):
            _log.error("tool %s returned a block of content with a part of the wrong type", entry.id)
            raise BadOutput("the tool returned content that cannot be written")
        metas = [
            each for block in (*result.content, result) for each in (block.meta, getattr(block, "notes", None)) if each
        ]
        size = sum(map(_size, result.content))
        if size <= self._max_bytes and metas:
            try:
                encoded = to_json_within(metas, self._max_bytes - size)
            except _UNENCODABLE as error:
                raise self._encoding_error(error, entry) from error
            size = self._max_bytes + 1 if encoded is None else size + len(encoded)
        if size > self._max_bytes:
            raise self._too_large(entry)
        return result

    def _encode(self, value: object, entry: Entry) -> bytes:
        try:
            encoded = to_json_within(value, self._max_bytes)
        except _UNENCODABLE as error:
            raise self._encoding_error(error, entry) from error
        if encoded is None:
            raise self._too_large(entry)
        return encoded

    def _value(self, value: Json, entry: Entry) -> Result:
        encoded = self._encode(value, entry)
        validator = entry.output_validator
        if validator is not None and not validator.accepts(plain := _decode(encoded)):
            raise self._schema_error(plain, len(encoded), validator, entry)
        return Result(encoded, (), value if type(value) is str else None)

    def _encoding_error(self, error: Exception, entry: Entry) -> BadOutput:
        _log.exception("tool %s returned what cannot be written as JSON", entry.id)
        # Of these exceptions, only NotImplementedError is ours and never quotes a value.
        why = f": {error}" if self._explain and isinstance(error, NotImplementedError) else ""
        return BadOutput(f"the tool returned something that cannot be written as JSON{why}")

    def _schema_error(self, value: Json, size: int, validator: Validator, entry: Entry) -> BadOutput:
        problems = validator.problems(value, size)
        listed = "; ".join(f"{problem}{_actual_type(value, problem.path)}" for problem in problems)
        _log.error("tool %s broke its output schema: %s", entry.id, listed)
        why = f": {listed}" if self._explain else ""
        return BadOutput(f"the tool returned something other than its output schema promises{why}")

    def _check_size(self, text: str, entry: Entry) -> str:
        # Every character takes at least one byte: a text with too many characters need not be encoded.
        if len(text) > self._max_bytes or (not text.isascii() and _bytes(text) > self._max_bytes):
            raise self._too_large(entry)
        return text

    def _too_large(self, entry: Entry) -> BadOutput:
        _log.error("tool %s returned more than %d bytes", entry.id, self._max_bytes)
        return BadOutput(f"the tool returned more than {self._max_bytes} bytes; no more are passed on")


def _actual_type(value: Json, path: str) -> str:
    """Return the JSON type of the value at a path, as part of a message."""
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        match value:
            case dict() if name in value:
                value = value[name]
            case list() if name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            case _:
                return ""
    return f'; it is of type "{type_name(value)}"'


def _blocks(value: object) -> tuple[Content, ...]:
    """Return a content block, or a list of only content blocks, as a tuple; empty for anything else."""
    if _is_content(value):
        return (value,)
    if isinstance(value, list | tuple) and all(_is_content(part) for part in value):
        return tuple(value)
    return ()


def _has_valid_fields(block: object) -> bool:
    """Return whether every field has the type that dialects rely on, so that encoding a result cannot fail."""
    known = _FIELD_READERS.get(type(block))
    return known is not None and all(map(isinstance, known[0](block), known[1]))


def _size(block: Content) -> int:
    """Return the size of a block's payload in bytes."""
    if type(block) is Text:  # as nearly all are
        return _bytes(block.text)
    match block:
        case Image(carried) | Audio(carried) | Resource(content=carried):
            return _bytes(carried)
        case _:
            return 0


def _bytes(carried: str | bytes) -> int:
    if isinstance(carried, bytes) or carried.isascii():
        return len(carried)
    return len(carried.encode(errors="replace"))


def _is_content(value: object) -> TypeGuard[Content]:
    return isinstance(value, CONTENT_TYPES)
