"""Validator, a compiled JSON Schema that accepts quickly or lists every problem without quoting a value."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import jsonschema_rs
import msgspec

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.schema.cost import BadSchema, SchemaCost, measure_cost, supported_draft
from toolhall.schema.keywords import REFERENCE_KEYWORDS, subschemas
from toolhall.schema.references import ReferenceResolver

_OTHER_PROPERTIES = ("additionalProperties", "unevaluatedProperties")


class DeclaredMembers(msgspec.Struct, frozen=True):
    """Members by name and by pattern; `others`: it says of what kind all others are, so that they are asked for too."""

    names: frozenset[str]
    patterns: frozenset[str]
    typed_others: bool

    def closed_schema(self) -> JsonObject:
        """A schema that lets pass only what is named."""
        anything: JsonObject = {}
        return {
            "properties": dict.fromkeys(self.names, anything),
            "patternProperties": dict.fromkeys(self.patterns, anything),
            "additionalProperties": False,
        }


def declared_members(schema: JsonObject) -> DeclaredMembers:
    """Everything that the schema, or a part of it that judges the same object, names."""
    names: set[str] = set()
    patterns: set[str] = set()
    others = False
    for part in _schemas_of_same_object(schema):
        names.update(_member_names(part.get("properties")))
        patterns.update(_member_names(part.get("patternProperties")))
        # Nothing said, `true` and {} say nothing of what others would be.
        others = others or any(isinstance(part.get(key), dict) and part[key] for key in _OTHER_PROPERTIES)
    return DeclaredMembers(frozenset(names), frozenset(patterns), others)


def _schemas_of_same_object(root: JsonObject) -> list[JsonObject]:
    """The schema and all its parts that look at the very same value, each once."""
    references, found = ReferenceResolver(root), [root]
    seen = {id(root)}
    for schema in found:  # which grows meanwhile
        near: list[Json] = [
            child.schema
            for child in subschemas(schema, "")
            if child.slot is None and child.applies and child.pointer != "/not"
        ]
        for key in REFERENCE_KEYWORDS:
            path = references.resolve(schema[key]) if isinstance(schema.get(key), str) else None
            near.append(None if path is None else references.value_at(path))
        for part in near:
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                found.append(part)
    return found


def _member_names(member: Json) -> list[str]:
    return list(member) if isinstance(member, dict) else []


MAX_PROBLEMS = 20
MAX_REASON_LENGTH = 200
MAX_REPORT_BYTES = 6 * 1024  # bytes of all problems together, as they are written
MAX_CHOICES = 20  # more are counted, not listed
MAX_CHOICE_LENGTH = 60  # letters of one choice
MAX_CHOICES_LENGTH = 1_400  # letters of a reason that lists choices: all twenty, each as long as it may be
# All problems of a larger value would be collected before the first is seen; only the first is looked for then.
LIST_ALL_MAX_BYTES = 4 * 1024
LIST_ALL_MAX_CHECKS = 4_000  # each may fail: about as many problems as can be collected in 20 ms
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN_MESSAGES = {"False schema does not allow the value": "nothing may be given here; leave it out"}
_COMPILERS = {
    "2020-12": jsonschema_rs.Draft202012Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
}


class Validator:
    """Judges values by one schema; `accepts` is the fast question, `problems` the helpful one."""

    __slots__ = ("_cost", "_declared_only", "_validator", "accepts", "fast_size", "schema")

    def __init__(self, schema: JsonObject, *, known_good: bool = False) -> None:
        """Raises BadSchema; one that was found good before is measured and compiled when it is first needed."""
        self.schema = schema
        self._cost: SchemaCost | None = None if known_good else measure_cost(schema)
        self.fast_size = 0  # messages up to this size are known to be checked in no time; whoever found out says so
        self._validator: jsonschema_rs.Validator | None = None if known_good else _compile(schema)
        self._declared_only: Validator | None = None
        self.accepts: Callable[[Json], bool] = (
            self._compile_and_check if self._validator is None else self._validator.is_valid
        )

    @property
    def declared_only(self) -> "Validator":
        """Accepts only members that the schema names; itself, if it says of what kind all others are."""
        if self._declared_only is None:
            found = declared_members(self.schema)
            self._declared_only = self if found.typed_others else Validator(found.closed_schema(), known_good=True)
        return self._declared_only

    @property
    def cost(self) -> SchemaCost:
        """How much work judging a value can be."""
        if self._cost is None:
            self._cost = measure_cost(self.schema)
        return self._cost

    @property
    def _compiled(self) -> jsonschema_rs.Validator:
        if self._validator is None:
            self._validator = _compile(self.schema)
            self.accepts = self._validator.is_valid
        return self._validator

    def _compile_and_check(self, value: Json) -> bool:
        return self._compiled.is_valid(value)

    def problems(self, value: Json, size: int) -> list[Problem]:
        """What is wrong with a value of about `size` bytes; empty when it is accepted."""
        return limit_problems(self._errors(value, size))

    def _errors(self, value: Json, size: int) -> Iterator[Problem]:
        if (
            size <= LIST_ALL_MAX_BYTES
            and self.cost.growth == 1
            and self.cost.visits * count_values(value) <= LIST_ALL_MAX_CHECKS
        ):
            for error in self._compiled.iter_errors(value):
                yield from _problems(error)
            return
        try:
            self._compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield from _problems(error)


def limit_problems(problems: Iterable[Problem]) -> list[Problem]:
    """As many problems as one answer tells: at most MAX_PROBLEMS, and MAX_REPORT bytes of them, but at least one."""
    found: list[Problem] = []
    room = MAX_REPORT_BYTES
    for problem in islice(problems, MAX_PROBLEMS):
        room -= len(encode(str(problem)))
        if found and room < 0:
            break
        found.append(problem)
    return found


def count_values(value: Json) -> int:
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


def _refuse_to_fetch(uri: str) -> Json:
    """Nothing is ever fetched; jsonschema-rs would follow http and file references by default."""
    raise ValueError(f"references are not fetched: {uri}")


def _compile(schema: JsonObject) -> jsonschema_rs.Validator:
    compiler = _COMPILERS[supported_draft(schema)]
    try:
        return compiler(
            schema,
            retriever=_refuse_to_fetch,
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
        types = list(dict.fromkeys(kind for branch in branches for each in branch for kind in _expected_types(each)))
        yield _problem_at(error, f"the value is not of type {' or '.join(encode(kind).decode() for kind in types)}")
    else:
        yield _problem(error)


def _is_other_type(each: jsonschema_rs.ValidationError, whole: jsonschema_rs.ValidationError) -> bool:
    return each.instance_path == whole.instance_path and bool(_expected_types(each))


def _expected_types(error: jsonschema_rs.ValidationError) -> list[str]:
    return error.kind.types if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Type) else []


def _problem(error: jsonschema_rs.ValidationError) -> Problem:
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Enum):
        return _problem_at(error, describe_choices(error.kind.options), MAX_CHOICES_LENGTH)
    return _problem_at(error, _PLAIN_MESSAGES.get(error.message, error.message))


def _problem_at(error: jsonschema_rs.ValidationError, reason: str, limit: int = MAX_REASON_LENGTH) -> Problem:
    steps = [*error.instance_path, *_member_of(error.kind)]
    path = "".join(f"/{escape_pointer(str(step))}" for step in steps)
    return Problem(printable(path), printable(reason, limit))


def describe_choices(options: list[Json]) -> str:
    """What may be given where only some values may: all of them up to MAX_CHOICES, and how many there are of more."""
    written = [encode(option).decode() for option in options[:MAX_CHOICES]]
    listed = [text if len(text) <= MAX_CHOICE_LENGTH else f"{text[: MAX_CHOICE_LENGTH - 3]}..." for text in written]
    if len(options) > MAX_CHOICES:
        return f"the value is none of the {len(options)} choices, which begin with {', '.join(listed)}"
    *others, last = listed
    return f"the value is not one of {', '.join(others)} or {last}" if others else f"the value is not {last}"


def _member_of(kind: jsonschema_rs.ValidationErrorKind) -> list[str]:
    """The member that is missing or that should not be there, so that the problem points at what to change."""
    match kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            return [str(kind.property)]
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=[only]):
            return [only]
        case _:
            return []


def printable(text: str, limit: int = MAX_REASON_LENGTH) -> str:
    """Names that the caller sent may be long, or play tricks on a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text[:limit])
