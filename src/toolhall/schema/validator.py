"""A schema compiled once, that says yes quickly or lists every problem without repeating a value."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import jsonschema_rs

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.bounds import BadSchema, Bounds, draft_of, measure
from toolhall.schema.named import named
from toolhall.schema.walk import escape

MAX_PROBLEMS = 20
MAX_REASON = 200
MAX_REPORT = 6 * 1024  # bytes of all problems together, as they are written
MAX_CHOICES = 20  # more are counted, not listed
MAX_CHOICE = 60  # letters of one choice
MAX_LISTED = 1_400  # letters of a reason that lists choices: all twenty, each as long as it may be
# All problems of a larger value would be collected before the first is seen; only the first is looked for then.
LIST_ALL_BELOW = 4 * 1024
LIST_ALL_CHECKS = 4_000  # each may fail: about as many problems as can be collected in 20 ms

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAINER = {"False schema does not allow the value": "nothing may be given here; leave it out"}

_COMPILERS = {
    "2020-12": jsonschema_rs.Draft202012Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
}


class Validator:
    """Judges values by one schema; `accepts` is the fast question, `problems` the helpful one."""

    __slots__ = ("_bounds", "_closed", "_made", "accepts", "light", "schema")

    def __init__(self, schema: JsonObject, *, known_good: bool = False) -> None:
        """Raises BadSchema; one that was found good before is measured and compiled when it is first needed."""
        self.schema = schema
        self._bounds: Bounds | None = None if known_good else measure(schema)
        self.light = 0  # messages up to this size are known to be checked in no time; whoever found out says so
        self._made: jsonschema_rs.Validator | None = None if known_good else _compile(schema)
        self._closed: Validator | None = None
        self.accepts: Callable[[Json], bool] = self._first if self._made is None else self._made.is_valid

    @property
    def closed(self) -> "Validator":
        """Accepts only members that the schema names; itself, if it says of what kind all others are."""
        if self._closed is None:
            found = named(self.schema)
            self._closed = self if found.others else Validator(found.closed(), known_good=True)
        return self._closed

    @property
    def bounds(self) -> Bounds:
        """How much work judging a value can be."""
        if self._bounds is None:
            self._bounds = measure(self.schema)
        return self._bounds

    @property
    def _compiled(self) -> jsonschema_rs.Validator:
        if self._made is None:
            self._made = _compile(self.schema)
            self.accepts = self._made.is_valid
        return self._made

    def _first(self, value: Json) -> bool:
        return self._compiled.is_valid(value)

    def problems(self, value: Json, size: int) -> list[Problem]:
        """What is wrong with a value of about `size` bytes; empty when it is accepted."""
        return bounded(self._errors(value, size))

    def _errors(self, value: Json, size: int) -> Iterator[Problem]:
        if size <= LIST_ALL_BELOW and self.bounds.growth == 1 and self.bounds.visits * parts(value) <= LIST_ALL_CHECKS:
            for error in self._compiled.iter_errors(value):
                yield from _problems(error)
            return
        try:
            self._compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield from _problems(error)


def bounded(problems: Iterable[Problem]) -> list[Problem]:
    """As many problems as one answer tells: at most MAX_PROBLEMS, and MAX_REPORT bytes of them, but at least one."""
    found: list[Problem] = []
    room = MAX_REPORT
    for problem in islice(problems, MAX_PROBLEMS):
        room -= len(encode(str(problem)))
        if found and room < 0:
            break
        found.append(problem)
    return found


def parts(value: Json) -> int:
    """How many values there are in a value, itself included."""
    count, pending = 0, [value]
    while pending:
        part = pending.pop()
        count += 1
        if isinstance(part, dict):
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return count


def _deny(uri: str) -> Json:
    """Nothing is ever fetched; jsonschema-rs would follow http and file references by default."""
    raise ValueError(f"references are not fetched: {uri}")


def _compile(schema: JsonObject) -> jsonschema_rs.Validator:
    compiler = _COMPILERS[draft_of(schema)]
    try:
        return compiler(
            schema,
            retriever=_deny,
            mask="the value",
            validate_formats=False,
            # The linear engine: no backtracking, no back references, no look-around.
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except jsonschema_rs.ValidationError as error:
        problem = _problem(error)
        if problem.reason.endswith('is not a "regex"'):
            reason = "this pattern cannot be used: write it short, without look-around and back references"
            problem = Problem(problem.path, reason)
        raise BadSchema([problem]) from None
    except ValueError as error:
        raise BadSchema([Problem("", str(error).splitlines()[0])]) from None


def _problems(error: jsonschema_rs.ValidationError) -> Iterator[Problem]:
    """One problem; of alternatives, those of the only one that is meant, or one that names what each wants."""
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.AnyOf() | jsonschema_rs.ValidationErrorKind.OneOfNotValid():
            branches = error.kind.context
        case _:
            yield _problem(error)
            return
    # A branch for another type than the value has is not the one that was meant: `None` beside a model, for example.
    meant = [branch for branch in branches if not any(_is_other_type(each, error) for each in branch)]
    if len(meant) == 1:
        for each in meant[0]:
            yield from _problems(each)
    elif not meant and all(branches):
        types = list(dict.fromkeys(kind for branch in branches for each in branch for kind in _types(each)))
        yield _at(error, f"the value is not of type {' or '.join(encode(kind).decode() for kind in types)}")
    else:
        yield _problem(error)


def _is_other_type(each: jsonschema_rs.ValidationError, whole: jsonschema_rs.ValidationError) -> bool:
    return each.instance_path == whole.instance_path and bool(_types(each))


def _types(error: jsonschema_rs.ValidationError) -> list[str]:
    return error.kind.types if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Type) else []


def _problem(error: jsonschema_rs.ValidationError) -> Problem:
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Enum):
        return _at(error, choices(error.kind.options), MAX_LISTED)
    return _at(error, _PLAINER.get(error.message, error.message))


def _at(error: jsonschema_rs.ValidationError, reason: str, most: int = MAX_REASON) -> Problem:
    steps = [*error.instance_path, *_member(error.kind)]
    path = "".join(f"/{escape(str(step))}" for step in steps)
    return Problem(shown(path), shown(reason, most))


def choices(options: list[Json]) -> str:
    """What may be given where only some values may: all of them up to MAX_CHOICES, and how many there are of more."""
    written = [encode(option).decode() for option in options[:MAX_CHOICES]]
    listed = [text if len(text) <= MAX_CHOICE else f"{text[: MAX_CHOICE - 3]}..." for text in written]
    if len(options) > MAX_CHOICES:
        return f"the value is none of the {len(options)} choices, which begin with {', '.join(listed)}"
    *others, last = listed
    return f"the value is not one of {', '.join(others)} or {last}" if others else f"the value is not {last}"


def _member(kind: jsonschema_rs.ValidationErrorKind) -> list[str]:
    """The member that is missing or that should not be there, so that the problem points at what to change."""
    match kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            return [str(kind.property)]
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=[only]):
            return [only]
        case _:
            return []


def shown(text: str, most: int = MAX_REASON) -> str:
    """Names that the caller sent may be long, or play tricks on a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text[:most])
