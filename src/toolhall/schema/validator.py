"""Validator, a compiled JSON Schema that accepts quickly, or lists every problem without quoting a value.

Theory of operation. `accepts` is one call into jsonschema-rs and decides almost every call; `problems` is the slow path
for a refused value. Validation runs untrusted schemas on untrusted values inside the event loop, so everything that can
take long is bounded beforehand: `cost.measure_cost` limits the schema when it is registered, patterns are compiled with
a linear-time engine, formats are not checked and references are never fetched. jsonschema-rs collects all problems
before it returns the first, so all are listed only for small values and cheap schemas (LIST_ALL_MAX_BYTES,
LIST_ALL_MAX_CHECKS); otherwise only the first is looked for. Messages are bounded (MAX_PROBLEMS, MAX_REPORT_BYTES,
MAX_REASON_LENGTH) and never contain the value, which may be a secret: jsonschema-rs masks it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import jsonschema_rs
import msgspec

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.schema.cost import BadSchema, SchemaCost, measure_cost, supported_draft
from toolhall.schema.keywords import REFERENCE_KEYWORDS, ReferenceResolver, subschemas

MAX_PROBLEMS = 20
MAX_REASON_LENGTH = 200
MAX_REPORT_BYTES = 6 * 1024  # of all problems together, as JSON
MAX_CHOICES = 20  # more are counted, not listed
MAX_CHOICE_LENGTH = 60  # characters of one choice
MAX_CHOICES_LENGTH = 1_400  # characters of a reason that lists choices: 20 of the maximum length
# Up to these limits all problems are listed, else only the first: jsonschema-rs collects all before it returns any.
LIST_ALL_MAX_BYTES = 4 * 1024
LIST_ALL_MAX_CHECKS = 4_000  # about as many problems as can be collected in 20 ms
_OTHER_PROPERTIES = ("additionalProperties", "unevaluatedProperties")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN_MESSAGES = {"False schema does not allow the value": "no value is allowed here; leave it out"}
_COMPILERS = {
    "2020-12": jsonschema_rs.Draft202012Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
}


class Validator:
    """Validates values against one schema: `accepts` is the fast check, `problems` explains a refusal."""

    __slots__ = ("_cost", "_declared_only", "_validator", "accepts", "fast_size", "schema")

    def __init__(self, schema: JsonObject, *, known_good: bool = False) -> None:
        """Measure and compile the schema; raises BadSchema. A `known_good` schema is compiled on first use."""
        self.schema = schema
        self._cost: SchemaCost | None = None if known_good else measure_cost(schema)
        self.fast_size = 0  # arguments up to this size are validated in the event loop; set by pipeline/validate.py
        self._validator: jsonschema_rs.Validator | None = None if known_good else _compile(schema)
        self._declared_only: Validator | None = None
        self.accepts: Callable[[Json], bool] = (
            self._compile_and_check if self._validator is None else self._validator.is_valid
        )

    @property
    def declared_only(self) -> "Validator":
        """A validator that accepts declared members only; itself, if the schema has a type for all others."""
        if self._declared_only is None:
            members = declared_members(self.schema)
            self._declared_only = self if members.typed_others else Validator(members.closed_schema(), known_good=True)
        return self._declared_only

    @property
    def cost(self) -> SchemaCost:
        """The cost of one validation, measured on first use."""
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
        """The problems of a value of about `size` bytes; empty if it is accepted."""
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
    """The first problems: at most MAX_PROBLEMS, and MAX_REPORT_BYTES together, but at least one."""
    limited: list[Problem] = []
    remaining = MAX_REPORT_BYTES
    for problem in islice(problems, MAX_PROBLEMS):
        remaining -= len(encode(str(problem)))
        if limited and remaining < 0:
            break
        limited.append(problem)
    return limited


def count_values(value: Json) -> int:
    """The number of values in a value, itself included."""
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
    """Refuse every fetch; by default jsonschema-rs follows http and file references."""
    raise ValueError(f"references are not fetched: {uri}")


def _compile(schema: JsonObject) -> jsonschema_rs.Validator:
    compiler = _COMPILERS[supported_draft(schema)]
    try:
        return compiler(
            schema,
            retriever=_refuse_to_fetch,
            mask="the value",
            validate_formats=False,
            # The linear-time engine: no backtracking, no back references, no look-around.
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
    """The problems of one error; for alternatives those of the only fitting branch, or the types of all branches."""
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.AnyOf() | jsonschema_rs.ValidationErrorKind.OneOfNotValid():
            branches = error.kind.context
        case _:
            yield _problem(error)
            return
    # A branch for another type than the value's was not intended: `None` beside a model, for example.
    intended = [branch for branch in branches if not any(_is_other_type(each, error) for each in branch)]
    if len(intended) == 1:
        for each in intended[0]:
            yield from _problems(each)
    elif not intended and all(branches):
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
    """A reason that lists the allowed values: all up to MAX_CHOICES, else the first of them and their number."""
    encoded = [encode(option).decode() for option in options[:MAX_CHOICES]]
    listed = [text if len(text) <= MAX_CHOICE_LENGTH else f"{text[: MAX_CHOICE_LENGTH - 3]}..." for text in encoded]
    if len(options) > MAX_CHOICES:
        return f"the value is none of the {len(options)} choices, which begin with {', '.join(listed)}"
    *others, last = listed
    return f"the value is not one of {', '.join(others)} or {last}" if others else f"the value is not {last}"


def _member_of(kind: jsonschema_rs.ValidationErrorKind) -> list[str]:
    """The missing or unexpected member, so that the path of the problem points at what to change."""
    match kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            return [str(kind.property)]
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=[name]):
            return [name]
        case _:
            return []


def printable(text: str, limit: int = MAX_REASON_LENGTH) -> str:
    """The text shortened and without control characters: it may contain names that the caller sent."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text[:limit])


class DeclaredMembers(msgspec.Struct, frozen=True):
    """The members of an object that a schema declares, by name and by pattern.

    `typed_others`: the schema has a type for all other members, so they count as declared too.
    """

    names: frozenset[str]
    patterns: frozenset[str]
    typed_others: bool

    def closed_schema(self) -> JsonObject:
        """A schema that accepts declared members only."""
        anything: JsonObject = {}
        return {
            "properties": dict.fromkeys(self.names, anything),
            "patternProperties": dict.fromkeys(self.patterns, anything),
            "additionalProperties": False,
        }


def declared_members(schema: JsonObject) -> DeclaredMembers:
    """The members that the schema, or a subschema that applies to the same object, declares."""
    names: set[str] = set()
    patterns: set[str] = set()
    typed_others = False
    for part in _schemas_of_same_object(schema):
        names.update(_member_names(part.get("properties")))
        patterns.update(_member_names(part.get("patternProperties")))
        # A missing keyword, `true` and {} give no type to other members.
        typed_others = typed_others or any(isinstance(part.get(key), dict) and part[key] for key in _OTHER_PROPERTIES)
    return DeclaredMembers(frozenset(names), frozenset(patterns), typed_others)


def _schemas_of_same_object(root: JsonObject) -> list[JsonObject]:
    """The schema and all subschemas that apply to the same value, each once."""
    references, schemas = ReferenceResolver(root), [root]
    seen = {id(root)}
    for schema in schemas:  # the list grows during the loop
        same: list[Json] = [
            child.schema
            for child in subschemas(schema, "")
            if child.slot is None and child.applies and child.pointer != "/not"
        ]
        for key in REFERENCE_KEYWORDS:
            path = references.resolve(schema[key]) if isinstance(schema.get(key), str) else None
            same.append(None if path is None else references.value_at(path))
        for part in same:
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                schemas.append(part)
    return schemas


def _member_names(member: Json) -> list[str]:
    return list(member) if isinstance(member, dict) else []
