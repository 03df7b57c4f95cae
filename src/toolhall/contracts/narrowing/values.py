"""Rules for plain values: types, choices, bounds, texts."""

from collections.abc import Iterator

from toolhall.contracts.narrowing.case import Case, types_of
from toolhall.contracts.narrowing.document import Node
from toolhall.contracts.narrowing.gap import Gap, kinds, shown, unproven
from toolhall.contracts.narrowing.rule import Comparing, Rule
from toolhall.model.json import Json

# Whoever writes the first writes the second too (RFC 3986, 3987, 6531, 5890; OpenAPI's formats of numbers).
_WIDER = {
    "uri": {"uri-reference", "iri", "iri-reference"},
    "uri-reference": {"iri-reference"},
    "iri": {"iri-reference"},
    "email": {"idn-email"},
    "hostname": {"idn-hostname"},
    "int32": {"int64", "float", "double"},
    "float": {"double"},
}


def _type(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing, argument
    missing = case.types - types_of([node])
    if missing:
        yield Gap(node.at("type"), kinds(missing))


def _choices(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing, argument  # a case with few values is judged by them
    yield Gap(node.at("enum" if "enum" in node.schema else "const"), f"{kinds(case.types)} that are not listed")


def _minimum(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if case.lower[0] < argument:
        yield Gap(node.at("minimum"), f"numbers below {shown(argument)}")


def _exclusive_minimum(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if case.lower < (argument, True) and not case.lower[0] > argument:
        yield Gap(node.at("exclusiveMinimum"), f"numbers that are not above {shown(argument)}")


def _maximum(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if case.upper[0] > argument:
        yield Gap(node.at("maximum"), f"numbers above {shown(argument)}")


def _exclusive_maximum(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    bound, strict = case.upper
    if bound > argument or (bound == argument and not strict):
        yield Gap(node.at("exclusiveMaximum"), f"numbers that are not below {shown(argument)}")


def _multiple_of(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    stated = [*case.all_of("multipleOf"), *([] if "number" in case.types else [1])]
    if any(each == argument or _whole_times(each, argument) for each in stated):
        return
    yield Gap(node.at("multipleOf"), f"numbers that are no multiple of {shown(argument)}")


def _whole_times(number: float, of: float) -> bool:
    return isinstance(number, int) and isinstance(of, int) and number % of == 0


def _size(key: str, what: str) -> Rule:
    """The rule of a size: `min...` wants more, `max...` less."""

    def rule(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
        del comparing
        if key.startswith("min") and case.least(key) < argument:
            yield Gap(node.at(key), what.format(f"fewer than {shown(argument)}"))
        if key.startswith("max") and case.most(key) > argument:
            yield Gap(node.at(key), what.format(f"more than {shown(argument)}"))

    return rule


def _pattern(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    stated = list(case.all_of("pattern"))
    if argument in stated:
        return
    if stated:
        yield unproven(node.at("pattern"), f"the pattern is another one, {shown(argument)}")
    else:
        yield Gap(node.at("pattern"), f"texts that do not match {shown(argument)}")


def _format(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if not any(argument == each or argument in _WIDER.get(each, ()) for each in case.all_of("format")):
        yield Gap(node.at("format"), f"texts that are no {shown(argument)}")


def _written(key: str, what: str) -> Rule:
    """The rule of how a text holds something else: it must stay as it was."""

    def rule(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
        del comparing
        if argument not in case.all_of(key):
            yield Gap(node.at(key), f"texts that are not {what} {shown(argument)}")

    return rule


RULES: dict[str, Rule] = {
    "type": _type,
    "enum": _choices,
    "const": _choices,
    "minimum": _minimum,
    "exclusiveMinimum": _exclusive_minimum,
    "maximum": _maximum,
    "exclusiveMaximum": _exclusive_maximum,
    "multipleOf": _multiple_of,
    "minLength": _size("minLength", "texts of {} characters"),
    "maxLength": _size("maxLength", "texts of {} characters"),
    "pattern": _pattern,
    "format": _format,
    "contentEncoding": _written("contentEncoding", "encoded as"),
    "contentMediaType": _written("contentMediaType", "of the kind"),
}
