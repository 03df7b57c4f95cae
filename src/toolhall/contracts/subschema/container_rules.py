"""Rules for the keywords of arrays and objects: items, members, sizes, required and dependent members."""

from collections.abc import Callable, Iterator

from toolhall.contracts.subschema.document import Constraints, MemberDeclarations, Nodes, NormalizedNode, SchemaPart
from toolhall.contracts.subschema.relations import is_equivalent
from toolhall.contracts.subschema.value_checker import ValueChecker
from toolhall.contracts.subschema.value_facts import (
    ComparisonContext,
    Incompatibility,
    KeywordRule,
    ValueFacts,
    allowed_types,
    breaks_promise,
    is_free_form,
    quote_value,
    unproven,
)
from toolhall.model.json import Json


def _prefix_items(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    for index in range(len(argument)):
        if facts.max_size("maxItems") <= index:
            return
        yield from comparison.compare_inner(facts.item(index), node.part("prefixItems", index))


def _items(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    """The items after those that have a schema of their own in the target."""
    del argument
    start, limit = len(node.schema.get("prefixItems", ())), facts.max_size("maxItems")
    for index in range(start, facts.prefix_count):
        if index < limit:
            yield from comparison.compare_inner(facts.item(index), node.part("items"))
    if max(start, facts.prefix_count) < limit:
        yield from comparison.compare_inner(facts.item(None), node.part("items"))


def _min_items(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if facts.min_size("minItems") < argument:
        yield Incompatibility(node.pointer_to("minItems"), f"lists of fewer than {quote_value(argument)} items")


def _max_items(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if facts.max_size("maxItems") > argument:
        yield Incompatibility(node.pointer_to("maxItems"), f"lists of more than {quote_value(argument)} items")


def _unique_items(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if argument and not any(facts.keyword_values("uniqueItems")) and facts.max_size("maxItems") > 1:
        yield Incompatibility(node.pointer_to("uniqueItems"), "lists that hold equal items")


def _contains(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    """`contains` with its bounds: implied by the source's own, or by the schema of all items."""
    del argument
    minimum, maximum = node.schema.get("minContains", 1), node.schema.get("maxContains")
    part = node.part("contains")
    if (
        maximum is not None
        and facts.max_size("maxItems") > maximum
        and not _source_limits_contains(comparison, facts, part, maximum)
    ):
        yield unproven(node.pointer_to("maxContains"), f"at most {quote_value(maximum)} items may be such")
    if minimum > 0 and not _source_ensures_contains(comparison, facts, part, minimum):
        yield unproven(node.pointer_to("contains"), f"at least {quote_value(minimum)} of the items must be such")


def _source_limits_contains(comparison: ComparisonContext, facts: ValueFacts, part: SchemaPart, limit: float) -> bool:
    return any(
        source_node.schema.get("maxContains", limit + 1) <= limit
        and is_equivalent(comparison, source_node.part("contains"), part)
        for source_node in facts.nodes
        if "contains" in source_node.schema
    )


def _source_ensures_contains(
    comparison: ComparisonContext, facts: ValueFacts, part: SchemaPart, minimum: float
) -> bool:
    for source_node in facts.nodes:
        if "contains" in source_node.schema and source_node.schema.get("minContains", 1) >= minimum:
            nodes = comparison.source.conjuncts(source_node.part("contains"))
            if not breaks_promise(comparison.compare_inner(Constraints(nodes, comparison.source.scope(nodes)), part)):
                return True
    if facts.min_size("minItems") < minimum:
        return False
    prefix_gaps = [comparison.compare_inner(facts.item(index), part) for index in range(facts.prefix_count)]
    return not any(map(breaks_promise, [*prefix_gaps, comparison.compare_inner(facts.item(None), part)]))


def _unevaluated_items(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    """Nothing is unevaluated if the target has `items`; otherwise only an equal keyword is known to be fine."""
    del comparison, facts
    if "items" not in node.schema and argument not in (True, {}):
        yield unproven(node.pointer_to("unevaluatedItems"), "which items it is about depends on the rest of the schema")


ARRAY_RULES: dict[str, KeywordRule] = {
    "prefixItems": _prefix_items,
    "items": _items,
    "minItems": _min_items,
    "maxItems": _max_items,
    "uniqueItems": _unique_items,
    "contains": _contains,
    "unevaluatedItems": _unevaluated_items,
}


def _properties(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    """Compare the members that the source declares; others were never promised."""
    if not comparison.free_form and facts.nested and is_free_form(facts.nodes, facts.declared):
        yield Incompatibility(node.pointer_to("properties"), "members that are not listed", "undeclared")
    for name in argument:
        if facts.declares(name):
            yield from comparison.compare_inner(facts.member(name), node.part("properties", name))


def _pattern_properties(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    for pattern in argument:
        part = node.part("patternProperties", pattern)
        for name in sorted(facts.declared.names):
            if comparison.checker.matches(pattern, name) is not False:
                yield from comparison.compare_inner(facts.member(name), part)
        for source_pattern in sorted(facts.declared.patterns):  # two patterns may match the same name
            yield from comparison.compare_inner(facts.members_matching(source_pattern), part)
        if facts.declared.has_rest_schema:
            yield from comparison.compare_inner(facts.other_members(), part)


def _required(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    for name in argument:
        if name not in facts.required:
            yield Incompatibility(node.pointer_to("required"), f"objects without {quote_value(name)}")


def _additional_properties(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del argument
    listed, patterns = node.schema.get("properties", {}), node.schema.get("patternProperties", {})

    def is_covered(name: str) -> bool:
        return name in listed or any(comparison.checker.matches(pattern, name) for pattern in patterns)

    yield from _other_members(comparison, facts, node, "additionalProperties", is_covered)


def _unevaluated_properties(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del argument
    nodes = comparison.target.node_conjuncts(node)
    unconditional = [
        each for each in nodes if each.pointer == node.pointer or "unevaluatedProperties" not in each.schema
    ]
    if any("additionalProperties" in each.schema for each in unconditional):
        return
    names = frozenset().union(*(each.schema.get("properties", ()) for each in unconditional))
    patterns = frozenset().union(*(each.schema.get("patternProperties", ()) for each in unconditional))

    def is_covered(name: str) -> bool:
        return name in names or any(comparison.checker.matches(pattern, name) for pattern in patterns)

    yield from _other_members(comparison, facts, node, "unevaluatedProperties", is_covered)


def _other_members(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, key: str, is_covered: Callable[[str], bool]
) -> Iterator[Incompatibility]:
    """Members without a schema in the target: forbidden, or constrained by one schema for all of them."""
    part = node.part(key)

    def compared(constraints: Constraints | None, gap: Incompatibility) -> Iterator[Incompatibility]:
        if constraints is not None:
            yield from [gap] if part.schema is False else comparison.compare_inner(constraints, part)

    for name in sorted(facts.declared.names):
        if not is_covered(name):
            yield from compared(
                facts.member(name),
                Incompatibility(_member_pointer(facts, name, part.pointer), _member_text(name), "refused"),
            )
    for pattern in sorted(facts.declared.patterns - node.schema.get("patternProperties", {}).keys()):
        what = f"members whose names match {quote_value(pattern)}"
        yield from compared(facts.members_matching(pattern), Incompatibility(part.pointer, what))
    if facts.declared.has_rest_schema:
        yield from compared(facts.other_members(), Incompatibility(part.pointer, "members that are not listed"))
    elif facts.is_open and comparison.target.conjuncts(part):
        free_form = facts.nested and is_free_form(facts.nodes, facts.declared)
        yield Incompatibility(part.pointer, "members that are not listed", "value" if free_form else "undeclared")


def _property_names(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del argument
    part = node.part("propertyNames")
    nodes = comparison.target.conjuncts(part)
    refused = [name for name in sorted(facts.declared.names) if comparison.checker.accepts(name, nodes) is not True]
    for name in refused:
        if facts.member(name) is not None:
            yield Incompatibility(_member_pointer(facts, name, part.pointer), _member_text(name), "refused")
    if (
        facts.declared.has_rest_schema
        or facts.declared.patterns
        or (facts.nested and is_free_form(facts.nodes, facts.declared))
    ):
        names = [
            each
            for source_node in facts.nodes
            if "propertyNames" in source_node.schema
            for each in _name_conjuncts(facts, source_node)
        ]
        name_nodes = (NormalizedNode({"type": "string"}, "", "names"), *names)
        yield from comparison.compare_inner(Constraints(name_nodes, comparison.source.scope(name_nodes)), part)


def _name_conjuncts(facts: ValueFacts, node: NormalizedNode) -> Nodes:
    return facts.document.conjuncts(node.part("propertyNames"))


def _min_properties(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    if max(facts.min_size("minProperties"), len(facts.required)) < argument:
        yield Incompatibility(
            node.pointer_to("minProperties"), f"objects of fewer than {quote_value(argument)} members"
        )


def _max_properties(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    listed = float("inf") if facts.declared.has_rest_schema or facts.declared.patterns else len(facts.declared.names)
    if min(facts.max_size("maxProperties"), listed) > argument:
        yield Incompatibility(node.pointer_to("maxProperties"), f"objects of more than {quote_value(argument)} members")


def _dependent_required(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    del comparison
    for name, dependents in argument.items():
        if not facts.declares(name) or facts.member(name) is None:
            continue
        known_required = facts.required.union(
            *(each.get(name, ()) for each in facts.keyword_values("dependentRequired"))
        )
        for other in dependents:
            if other not in known_required and other != name:
                what = f"objects with {quote_value(name)} and without {quote_value(other)}"
                yield Incompatibility(node.pointer_to("dependentRequired", name), what)


def _dependent_schemas(
    comparison: ComparisonContext, facts: ValueFacts, node: NormalizedNode, argument: Json
) -> Iterator[Incompatibility]:
    for name in argument:
        if not facts.declares(name) or facts.member(name) is None:
            continue
        added = [NormalizedNode({"required": [name]}, node.pointer, f"required {name}")]
        for source_node in facts.nodes:
            if name in source_node.schema.get("dependentSchemas", ()):
                added += facts.document.conjuncts(source_node.part("dependentSchemas", name))
        yield from comparison.compare_same(facts.with_nodes(added), node.part("dependentSchemas", name))


def dropped_members(
    checker: ValueChecker,
    facts: ValueFacts,
    source_members: MemberDeclarations,
    targets: Nodes,
    target_members: MemberDeclarations,
    *,
    free_form: bool,
) -> Iterator[Incompatibility]:
    """Members that the source declares and the target does not, though it may still accept them.

    With `free_form`, a target that accepts anything under any name declares all of them.
    """
    types = allowed_types(targets)
    if (
        "object" not in facts.types & types
        or not source_members.names
        or target_members.has_rest_schema
        or facts.values is not None
    ):
        return
    if is_free_form(targets, target_members) and (
        (free_form and facts.nested) or not any("type" in node.schema for node in targets)
    ):
        return
    if any(node.schema.get("additionalProperties") is False for node in targets):
        return  # reported by the rule of additionalProperties
    for name in sorted(source_members.names - target_members.names - facts.known_names):
        if (
            not any(checker.matches(pattern, name) for pattern in target_members.patterns)
            and facts.member(name) is not None
        ):
            yield Incompatibility(_member_pointer(facts, name, ""), _member_text(name), "member")


def _member_text(name: str) -> str:
    return f"the member {quote_value(name)}"


def _member_pointer(facts: ValueFacts, name: str, otherwise: str) -> str:
    """The pointer to a member's declaration in the source."""
    pointers = (
        node.pointer_to("properties", name) for node in facts.nodes if name in node.schema.get("properties", ())
    )
    return next(pointers, facts.nodes[0].pointer if facts.nodes else otherwise)


OBJECT_RULES: dict[str, KeywordRule] = {
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "required": _required,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "propertyNames": _property_names,
    "minProperties": _min_properties,
    "maxProperties": _max_properties,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
}
