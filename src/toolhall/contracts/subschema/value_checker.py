"""Checks single values against a schema without compiling it (ValueChecker), within a ComparisonBudget of steps."""

from collections import Counter
from collections.abc import Callable, Iterable

from toolhall.contracts.subschema.document import (
    INVALID_SCHEMA,
    VALIDATION_KEYWORDS,
    NormalizedNode,
    SchemaDocument,
    SchemaPart,
)
from toolhall.model.json import Json
from toolhall.schema.cost import BadSchema
from toolhall.schema.keywords import KEYWORD_TYPE
from toolhall.schema.merge import json_types_of
from toolhall.schema.validator import Validator

MAX_STEPS = 10_000  # about half a second
MAX_DEPTH = 40


class BudgetExhausted(Exception):
    """There was too much to compare."""


class ComparisonBudget:
    """Steps that are left, and how deep inside the value the comparison is."""

    __slots__ = ("_left", "depth")

    def __init__(self) -> None:
        self._left = MAX_STEPS
        self.depth = 0

    def spend(self, steps: int = 1) -> None:
        """Take some steps, or give up."""
        self._left -= steps
        if self._left < 0 or self.depth > MAX_DEPTH:
            raise BudgetExhausted


MaybeBool = bool | None  # None: not known
_CONSTANT = frozenset({"const"})
_COMPILE_COST = 10  # steps that it costs


def hashable(value: Json) -> object:
    """A value that can be looked up: equal for what JSON Schema calls equal, where true is not 1 but 1.0 is."""
    match value:
        case bool():
            return ("true",) if value else ("false",)
        case list():
            return ("list", *map(hashable, value))
        case dict():
            return ("object", frozenset((key, hashable(part)) for key, part in value.items()))
        case _:
            return value


class ValueChecker:
    """Judges values by the schemas of one document."""

    def __init__(self, document: SchemaDocument, budget: ComparisonBudget) -> None:
        self.document = document
        self._budget = budget
        self._enums: dict[str, frozenset[object]] = {}
        self._constants: dict[str, Counter[object] | None] = {}
        self._patterns: dict[str, Validator | None] = {}

    def accepts(self, value: Json, nodes: Iterable[NormalizedNode]) -> MaybeBool:
        """Whether a value fits all of them."""
        return _all(self.satisfies(value, node, key) for node in nodes for key in node.schema)

    def matches(self, pattern: str, text: str) -> MaybeBool:
        """Whether a text matches, as the validator sees it; None for a pattern that it cannot use."""
        self._budget.spend()
        if pattern not in self._patterns:
            self._budget.spend(_COMPILE_COST)
            self._patterns[pattern] = _compiled(pattern)
        compiled = self._patterns[pattern]
        return None if compiled is None else compiled.accepts(text)

    def satisfies(self, value: Json, node: NormalizedNode, key: str) -> MaybeBool:
        """Whether a value fits one keyword."""
        kind = KEYWORD_TYPE.get(key)
        if kind is not None and kind not in json_types_of(value):
            return True
        argument = node.schema[key]
        if key in _SCALAR_CHECKS:
            return _SCALAR_CHECKS[key](value, argument)
        match key:
            case "pattern":
                return self.matches(argument, value)
            case "enum":
                return hashable(value) in self._enum_values(node)
            case "anyOf" | "oneOf" | "not" | "if":
                return self._check_combinator(value, node, key)
            case _:  # inside of lists and objects nothing is judged
                return None if kind in ("array", "object") or node.schema is INVALID_SCHEMA else True

    def _enum_values(self, node: NormalizedNode) -> frozenset[object]:
        found = self._enums.get(node.key)
        if found is None:
            self._budget.spend(len(node.schema["enum"]) // 10)
            found = self._enums[node.key] = frozenset(map(hashable, node.schema["enum"]))
        return found

    def _check_combinator(self, value: Json, node: NormalizedNode, key: str) -> MaybeBool:
        if key == "if":
            return self._conditional(value, node)
        if key == "not":
            return _not(self._check_part(value, node.part("not")))
        titled = self._constant_counts(node, key)
        if titled is not None:
            fitting = titled[hashable(value)]
            return fitting > 0 if key == "anyOf" else fitting == 1
        verdicts = [self._check_part(value, node.part(key, index)) for index in range(len(node.schema[key]))]
        if key == "anyOf":
            return _not(_all(_not(each) for each in verdicts))
        return None if None in verdicts else verdicts.count(True) == 1

    def _constant_counts(self, node: NormalizedNode, key: str) -> Counter[object] | None:
        """How many alternatives are which value, where each is one: values that have titles are listed like this."""
        place = f"{node.key} {key}"
        if place not in self._constants:
            parts = node.schema[key]
            constant = all(isinstance(part, dict) and VALIDATION_KEYWORDS & part.keys() == _CONSTANT for part in parts)
            self._constants[place] = Counter(hashable(part["const"]) for part in parts) if constant else None
        return self._constants[place]

    def _conditional(self, value: Json, node: NormalizedNode) -> MaybeBool:
        condition = self._check_part(value, node.part("if"))
        if condition is None:
            return None
        key = "then" if condition else "else"
        return self._check_part(value, node.part(key)) if key in node.schema else True

    def _check_part(self, value: Json, part: SchemaPart) -> MaybeBool:
        self._budget.spend()
        return self.accepts(value, self.document.conjuncts(part))


def _compiled(pattern: str) -> Validator | None:
    try:
        return Validator({"pattern": pattern})
    except BadSchema:
        return None


def _all(verdicts: Iterable[MaybeBool]) -> MaybeBool:
    known: MaybeBool = True
    for each in verdicts:
        if each is False:
            return False
        known = known and each
    return known


def _not(verdict: MaybeBool) -> MaybeBool:
    return None if verdict is None else not verdict


def _is_multiple(value: float, of: float) -> MaybeBool:
    return value % of == 0 if isinstance(of, int) else None  # fractions of two are not what they look like


def _has_type(value: Json, stated: str | list[str]) -> bool:
    return any(kind == stated if isinstance(stated, str) else kind in stated for kind in json_types_of(value))


_SCALAR_CHECKS: dict[str, Callable[[Json, Json], MaybeBool]] = {
    "type": _has_type,
    "const": lambda value, only: hashable(value) == hashable(only),
    "minimum": lambda value, least: bool(value >= least),
    "maximum": lambda value, most: bool(value <= most),
    "exclusiveMinimum": lambda value, least: bool(value > least),
    "exclusiveMaximum": lambda value, most: bool(value < most),
    "multipleOf": _is_multiple,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "format": lambda value, name: None,  # noqa: ARG005 - nobody knows
}
