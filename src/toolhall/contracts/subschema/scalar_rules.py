"""Rules for the keywords of scalar values (types, enums, bounds, strings) and for combinators (anyOf, not, if)."""

from collections.abc import Iterator

from toolhall.contracts.subschema.document import NormalizedNode, SchemaPart
from toolhall.contracts.subschema.relations import is_disjoint
from toolhall.contracts.subschema.value_facts import (
    ComparisonContext,
    Incompatibility,
    KeywordRule,
    ValueFacts,
    allowed_types,
    breaks_promise,
    describe_types,
    quote_value,
    unproven,
)
from toolhall.model.json import Json

# Every text of the first format is one of the others too (RFC 3986, 3987, 6531, 5890; OpenAPI's number formats).
_WIDER_FORMATS = {
    "uri": {"uri-reference", "iri", "iri-reference"},
    "uri-reference": {"iri-reference"},
    "iri": {"iri-reference"},
    "email": {"idn-email"},
    "hostname": {"idn-hostname"},
    "int32": {"int64", "float", "double"},
    "float": {"double"},
}


def _type(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison, argument
    missing = facts.types - allowed_types([node])
    if missing:
        yield Incompatibility(node.pointer_to("type"), describe_types(missing))


def _enum(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison, argument  # the comparison itself checks finitely many values
    yield Incompatibility(
        node.pointer_to("enum" if "enum" in node.schema else "const"),
        f"{describe_types(facts.types)} that are not listed",
    )


def _minimum(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if facts.lower_bound[0] < argument:
        yield Incompatibility(node.pointer_to("minimum"), f"numbers below {quote_value(argument)}")


def _exclusive_minimum(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if facts.lower_bound < (argument, True) and not facts.lower_bound[0] > argument:
        yield Incompatibility(
            node.pointer_to("exclusiveMinimum"), f"numbers that are not above {quote_value(argument)}"
        )


def _maximum(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if facts.upper_bound[0] > argument:
        yield Incompatibility(node.pointer_to("maximum"), f"numbers above {quote_value(argument)}")


def _exclusive_maximum(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    bound, strict = facts.upper_bound
    if bound > argument or (bound == argument and not strict):
        yield Incompatibility(
            node.pointer_to("exclusiveMaximum"), f"numbers that are not below {quote_value(argument)}"
        )


def _multiple_of(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    stated = [*facts.keyword_values("multipleOf"), *([] if "number" in facts.types else [1])]
    if any(each == argument or _is_whole_multiple(each, argument) for each in stated):
        return
    yield Incompatibility(node.pointer_to("multipleOf"), f"numbers that are no multiple of {quote_value(argument)}")


def _is_whole_multiple(number: float, of: float) -> bool:
    return isinstance(number, int) and isinstance(of, int) and number % of == 0


def _size_rule(key: str, what: str) -> KeywordRule:
    """The rule of a size keyword, `min...` or `max...`."""

    def rule(
        comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
    ) -> Iterator[Incompatibility]:
        del comparison
        if key.startswith("min") and facts.min_size(key) < argument:
            yield Incompatibility(node.pointer_to(key), what.format(f"fewer than {quote_value(argument)}"))
        if key.startswith("max") and facts.max_size(key) > argument:
            yield Incompatibility(node.pointer_to(key), what.format(f"more than {quote_value(argument)}"))

    return rule


def _pattern(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    stated = list(facts.keyword_values("pattern"))
    if argument in stated:
        return
    if stated:
        yield unproven(node.pointer_to("pattern"), f"it is not known whether all texts match {quote_value(argument)}")
    else:
        yield Incompatibility(node.pointer_to("pattern"), f"texts that do not match {quote_value(argument)}")


def _format(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if not any(argument == each or argument in _WIDER_FORMATS.get(each, ()) for each in facts.keyword_values("format")):
        yield Incompatibility(node.pointer_to("format"), f"texts that are no {quote_value(argument)}")


def _content_rule(key: str, what: str) -> KeywordRule:
    """The rule of an encoding or media type, which must stay equal."""

    def rule(
        comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
    ) -> Iterator[Incompatibility]:
        del comparison
        if argument not in facts.keyword_values(key):
            yield Incompatibility(node.pointer_to(key), f"texts that are not {what} {quote_value(argument)}")

    return rule


SCALAR_RULES: dict[str, KeywordRule] = {
    "type": _type,
    "enum": _enum,
    "const": _enum,
    "minimum": _minimum,
    "exclusiveMinimum": _exclusive_minimum,
    "maximum": _maximum,
    "exclusiveMaximum": _exclusive_maximum,
    "multipleOf": _multiple_of,
    "minLength": _size_rule("minLength", "texts of {} characters"),
    "maxLength": _size_rule("maxLength", "texts of {} characters"),
    "pattern": _pattern,
    "format": _format,
    "contentEncoding": _content_rule("contentEncoding", "encoded as"),
    "contentMediaType": _content_rule("contentMediaType", "of the kind"),
}


def _any_of(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    if facts.has_alternatives:  # not proven here, so that each alternative of the source is compared by itself
        yield unproven(node.pointer_to("anyOf"), "there are other alternatives")
        return
    parts = [node.part("anyOf", index) for index in range(len(argument))]
    if any(comparison.is_repeated(facts, part) for part in parts):
        return
    tried: list[list[Incompatibility]] = []
    for part in parts:
        gaps = comparison.compare_branch(facts, part)
        if not breaks_promise(gaps):
            yield from gaps
            return
        tried.append(gaps)
    yield from _closest_alternative(comparison, facts, parts, tried, node.pointer_to("anyOf"))


def _one_of(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    """Exactly one alternative must accept the value."""
    if facts.has_alternatives:
        yield unproven(node.pointer_to("oneOf"), "there are other alternatives")
        return
    parts = [node.part("oneOf", index) for index in range(len(argument))]
    tried: list[list[Incompatibility]] = []
    for part in parts:
        gaps = comparison.compare_branch(facts, part)
        if not breaks_promise(gaps):
            if not all(_mutually_exclusive(comparison, facts, part, other) for other in parts if other is not part):
                yield unproven(node.pointer_to("oneOf"), "a value may fit more than one of these")
            yield from gaps
            return
        tried.append(gaps)
    yield from _closest_alternative(comparison, facts, parts, tried, node.pointer_to("oneOf"))


def _mutually_exclusive(comparison: ComparisonContext, facts: ValueFacts, part: SchemaPart, other: SchemaPart) -> bool:
    """True if a value that satisfies `part` cannot satisfy `other`."""
    other_nodes = comparison.target.conjuncts(other)
    if is_disjoint(comparison, (comparison.source, facts.nodes), (comparison.target, other_nodes)):
        return True
    return is_disjoint(
        comparison, (comparison.target, comparison.target.conjuncts(part)), (comparison.target, other_nodes)
    )


def _closest_alternative(
    comparison: ComparisonContext,
    facts: ValueFacts,
    parts: list[SchemaPart],
    tried: list[list[Incompatibility]],
    path: str,
) -> Iterator[Incompatibility]:
    """The incompatibilities with the alternative that was most probably meant."""
    same_type = [
        gaps
        for part, gaps in zip(parts, tried, strict=True)
        if facts.types & allowed_types(comparison.target.conjuncts(part))
    ]
    if same_type:
        yield from min(same_type, key=len)
    else:
        yield Incompatibility(path, describe_types(facts.types))


def _not(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    if argument in ({}, True):
        yield Incompatibility(node.pointer, "any value")
        return
    excluded = comparison.target.conjuncts(node.part("not"))
    if not is_disjoint(comparison, (comparison.source, facts.nodes), (comparison.target, excluded)):
        yield unproven(node.pointer_to("not"), "some values are excluded")


def _conditional(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    """`then` must hold where the condition may hold, and `else` where it may not."""
    del argument
    condition = comparison.target.conjuncts(node.part("if"))
    if "then" in node.schema and not is_disjoint(
        comparison, (comparison.source, facts.nodes), (comparison.target, condition)
    ):
        yield from _under_condition(comparison, facts, node, "then")
    if "else" in node.schema and breaks_promise(comparison.compare_same(facts, node.part("if"))):
        yield from _under_condition(comparison, facts, node, "else")


def _under_condition(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, key: str
) -> Iterator[Incompatibility]:
    """Incompatibilities under a condition; not proven, because the condition itself adds no facts."""
    for gap in comparison.compare_same(facts, node.part(key)):
        yield gap if gap.about == "undeclared" else unproven(gap.path, f"{gap.what} may be excluded under a condition")


def _invalid_reference(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison, facts
    if argument is None:
        yield unproven(node.pointer, "this reference cannot be resolved, or this is no schema")


COMBINATOR_RULES: dict[str, KeywordRule] = {
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _conditional,
    "$ref": _invalid_reference,
}
