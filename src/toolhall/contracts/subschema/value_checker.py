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

MAX_STEPS = 10_000  # about half a second of CPU
MAX_DEPTH = 40
MaybeBool = bool | None  # None: not known
_CONSTANT = frozenset({"const"})
_COMPILE_COST = 10  # steps to compile a pattern


class BudgetExhausted(Exception):
    """The comparison takes too many steps or nests too deeply."""


class ComparisonBudget:
    """The remaining steps of a comparison, and its current depth inside the value."""

    __slots__ = ("_left", "depth")

    def __init__(self) -> None:
        self._left = MAX_STEPS
        self.depth = 0

    def spend(self, steps: int = 1) -> None:
        """Take steps; raises BudgetExhausted if none are left or the comparison is too deep."""
        self._left -= steps
        if self._left < 0 or self.depth > MAX_DEPTH:
            raise BudgetExhausted


def hashable(value: Json) -> object:
    """A hashable form of a value, equal where JSON Schema's equality holds: true is not 1, but 1.0 is."""
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
    """Checks values against the schemas of one document; three-valued, because not everything is known."""

    def __init__(self, document: SchemaDocument, budget: ComparisonBudget) -> None:
        self.document = document
        self._budget = budget
        self._enums: dict[str, frozenset[object]] = {}
        self._constants: dict[str, Counter[object] | None] = {}
        self._patterns: dict[str, Validator | None] = {}

    def accepts(self, value: Json, nodes: Iterable[NormalizedNode]) -> MaybeBool:
        """Whether a value satisfies all nodes."""
        return _all(self.satisfies(value, node, key) for node in nodes for key in node.schema)

    def matches(self, pattern: str, text: str) -> MaybeBool:
        """Whether a text matches a pattern, by the validator's engine; None if it cannot use the pattern."""
        self._budget.spend()
        if pattern not in self._patterns:
            self._budget.spend(_COMPILE_COST)
            self._patterns[pattern] = _compiled(pattern)
        compiled = self._patterns[pattern]
        return None if compiled is None else compiled.accepts(text)

    def satisfies(self, value: Json, node: NormalizedNode, key: str) -> MaybeBool:
        """Whether a value satisfies one keyword."""
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
            case _:  # the contents of arrays and objects are not checked
                return None if kind in ("array", "object") or node.schema is INVALID_SCHEMA else True

    def _enum_values(self, node: NormalizedNode) -> frozenset[object]:
        values = self._enums.get(node.key)
        if values is None:
            self._budget.spend(len(node.schema["enum"]) // 10)
            values = self._enums[node.key] = frozenset(map(hashable, node.schema["enum"]))
        return values

    def _check_combinator(self, value: Json, node: NormalizedNode, key: str) -> MaybeBool:
        if key == "if":
            return self._conditional(value, node)
        if key == "not":
            return _not(self._check_part(value, node.part("not")))
        constants = self._constant_counts(node, key)
        if constants is not None:
            matches = constants[hashable(value)]
            return matches > 0 if key == "anyOf" else matches == 1
        verdicts = [self._check_part(value, node.part(key, index)) for index in range(len(node.schema[key]))]
        if key == "anyOf":
            return _not(_all(_not(verdict) for verdict in verdicts))
        return None if None in verdicts else verdicts.count(True) == 1

    def _constant_counts(self, node: NormalizedNode, key: str) -> Counter[object] | None:
        """How often each value occurs, if all alternatives are constants: the form of enums with titles."""
        cache_key = f"{node.key} {key}"
        if cache_key not in self._constants:
            parts = node.schema[key]
            all_constant = all(
                isinstance(part, dict) and VALIDATION_KEYWORDS & part.keys() == _CONSTANT for part in parts
            )
            self._constants[cache_key] = Counter(hashable(part["const"]) for part in parts) if all_constant else None
        return self._constants[cache_key]

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
    result: MaybeBool = True
    for verdict in verdicts:
        if verdict is False:
            return False
        result = result and verdict
    return result


def _not(verdict: MaybeBool) -> MaybeBool:
    return None if verdict is None else not verdict


def _is_multiple(value: float, of: float) -> MaybeBool:
    return value % of == 0 if isinstance(of, int) else None  # binary fractions are inexact


def _has_type(value: Json, stated: str | list[str]) -> bool:
    return any(kind == stated if isinstance(stated, str) else kind in stated for kind in json_types_of(value))


_SCALAR_CHECKS: dict[str, Callable[[Json, Json], MaybeBool]] = {
    "type": _has_type,
    "const": lambda value, only: hashable(value) == hashable(only),
    "minimum": lambda value, bound: bool(value >= bound),
    "maximum": lambda value, bound: bool(value <= bound),
    "exclusiveMinimum": lambda value, bound: bool(value > bound),
    "exclusiveMaximum": lambda value, bound: bool(value < bound),
    "multipleOf": _is_multiple,
    "minLength": lambda value, bound: len(value) >= bound,
    "maxLength": lambda value, bound: len(value) <= bound,
    "format": lambda value, name: None,  # noqa: ARG005 - formats are not checked
}
