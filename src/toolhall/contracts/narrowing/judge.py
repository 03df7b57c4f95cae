"""Judges single values by a schema, as far as that can be done without compiling it."""

from collections import Counter
from collections.abc import Callable, Iterable

from toolhall.contracts.narrowing.budget import Budget
from toolhall.contracts.narrowing.document import BROKEN, JUDGING, Document, Node, Part
from toolhall.model.json import Json
from toolhall.schema.bounds import BadSchema
from toolhall.schema.keywords import TYPE_OF
from toolhall.schema.merge import kinds_of
from toolhall.schema.validator import Validator

Verdict = bool | None  # None: not known
_CONSTANT = frozenset({"const"})
_COMPILING = 10  # steps that it costs


def frozen(value: Json) -> object:
    """A value that can be looked up: equal for what JSON Schema calls equal, where true is not 1 but 1.0 is."""
    match value:
        case bool():
            return ("true",) if value else ("false",)
        case list():
            return ("list", *map(frozen, value))
        case dict():
            return ("object", frozenset((key, frozen(part)) for key, part in value.items()))
        case _:
            return value


class Judge:
    """Judges values by the schemas of one document."""

    def __init__(self, document: Document, budget: Budget) -> None:
        self.document = document
        self._budget = budget
        self._choices: dict[str, frozenset[object]] = {}
        self._constants: dict[str, Counter[object] | None] = {}
        self._patterns: dict[str, Validator | None] = {}

    def accepts(self, value: Json, nodes: Iterable[Node]) -> Verdict:
        """Whether a value fits all of them."""
        return _all(self.fits(value, node, key) for node in nodes for key in node.schema)

    def matches(self, pattern: str, text: str) -> Verdict:
        """Whether a text matches, as the validator sees it; None for a pattern that it cannot use."""
        self._budget.spend()
        if pattern not in self._patterns:
            self._budget.spend(_COMPILING)
            self._patterns[pattern] = _compiled(pattern)
        compiled = self._patterns[pattern]
        return None if compiled is None else compiled.accepts(text)

    def fits(self, value: Json, node: Node, key: str) -> Verdict:
        """Whether a value fits one keyword."""
        kind = TYPE_OF.get(key)
        if kind is not None and kind not in kinds_of(value):
            return True
        argument = node.schema[key]
        if key in _SCALAR:
            return _SCALAR[key](value, argument)
        match key:
            case "pattern":
                return self.matches(argument, value)
            case "enum":
                return frozen(value) in self._among(node)
            case "anyOf" | "oneOf" | "not" | "if":
                return self._combined(value, node, key)
            case _:  # inside of lists and objects nothing is judged
                return None if kind in ("array", "object") or node.schema is BROKEN else True

    def _among(self, node: Node) -> frozenset[object]:
        found = self._choices.get(node.key)
        if found is None:
            self._budget.spend(len(node.schema["enum"]) // 10)
            found = self._choices[node.key] = frozenset(map(frozen, node.schema["enum"]))
        return found

    def _combined(self, value: Json, node: Node, key: str) -> Verdict:
        if key == "if":
            return self._conditional(value, node)
        if key == "not":
            return _not(self._within(value, node.part("not")))
        titled = self._titled(node, key)
        if titled is not None:
            fitting = titled[frozen(value)]
            return fitting > 0 if key == "anyOf" else fitting == 1
        verdicts = [self._within(value, node.part(key, index)) for index in range(len(node.schema[key]))]
        if key == "anyOf":
            return _not(_all(_not(each) for each in verdicts))
        return None if None in verdicts else verdicts.count(True) == 1

    def _titled(self, node: Node, key: str) -> Counter[object] | None:
        """How many alternatives are which value, where each is one: values that have titles are listed like this."""
        place = f"{node.key} {key}"
        if place not in self._constants:
            parts = node.schema[key]
            constant = all(isinstance(part, dict) and JUDGING & part.keys() == _CONSTANT for part in parts)
            self._constants[place] = Counter(frozen(part["const"]) for part in parts) if constant else None
        return self._constants[place]

    def _conditional(self, value: Json, node: Node) -> Verdict:
        condition = self._within(value, node.part("if"))
        if condition is None:
            return None
        key = "then" if condition else "else"
        return self._within(value, node.part(key)) if key in node.schema else True

    def _within(self, value: Json, part: Part) -> Verdict:
        self._budget.spend()
        return self.accepts(value, self.document.opened(part))


def _compiled(pattern: str) -> Validator | None:
    try:
        return Validator({"pattern": pattern})
    except BadSchema:
        return None


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    known: Verdict = True
    for each in verdicts:
        if each is False:
            return False
        known = known and each
    return known


def _not(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict


def _is_multiple(value: float, of: float) -> Verdict:
    return value % of == 0 if isinstance(of, int) else None  # fractions of two are not what they look like


def _has_type(value: Json, stated: str | list[str]) -> bool:
    return any(kind == stated if isinstance(stated, str) else kind in stated for kind in kinds_of(value))


_SCALAR: dict[str, Callable[[Json, Json], Verdict]] = {
    "type": _has_type,
    "const": lambda value, only: frozen(value) == frozen(only),
    "minimum": lambda value, least: bool(value >= least),
    "maximum": lambda value, most: bool(value <= most),
    "exclusiveMinimum": lambda value, least: bool(value > least),
    "exclusiveMaximum": lambda value, most: bool(value < most),
    "multipleOf": _is_multiple,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "format": lambda value, name: None,  # noqa: ARG005 - nobody knows
}
