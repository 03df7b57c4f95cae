"""Rules for lists: their items, how many, and which must be among them."""

from collections.abc import Iterator

from toolhall.contracts.narrowing.alike import alike
from toolhall.contracts.narrowing.case import Case
from toolhall.contracts.narrowing.document import Given, Node, Part
from toolhall.contracts.narrowing.gap import Gap, serious, shown, unproven
from toolhall.contracts.narrowing.rule import Comparing, Rule
from toolhall.model.json import Json


def _first_items(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    for index in range(len(argument)):
        if case.most("maxItems") <= index:
            return
        yield from comparing.value(case.item(index), node.part("prefixItems", index))


def _items(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    """The items behind those that have a schema of their own in the target."""
    del argument
    start, most = len(node.schema.get("prefixItems", ())), case.most("maxItems")
    for index in range(start, case.first_items):
        if index < most:
            yield from comparing.value(case.item(index), node.part("items"))
    if max(start, case.first_items) < most:
        yield from comparing.value(case.item(None), node.part("items"))


def _fewest_items(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if case.least("minItems") < argument:
        yield Gap(node.at("minItems"), f"lists of fewer than {shown(argument)} items")


def _most_items(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if case.most("maxItems") > argument:
        yield Gap(node.at("maxItems"), f"lists of more than {shown(argument)} items")


def _unique_items(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if argument and not any(case.all_of("uniqueItems")) and case.most("maxItems") > 1:
        yield Gap(node.at("uniqueItems"), "lists that hold equal items")


def _contains(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    """`contains` with its two bounds: as in the source, or proven by all items."""
    del argument
    least, most = node.schema.get("minContains", 1), node.schema.get("maxContains")
    part = node.part("contains")
    if most is not None and case.most("maxItems") > most and not _as_rare(comparing, case, part, most):
        yield unproven(node.at("maxContains"), f"at most {shown(most)} items may be such")
    if least > 0 and not _as_frequent(comparing, case, part, least):
        yield unproven(node.at("contains"), f"at least {shown(least)} of the items must be such")


def _as_rare(comparing: Comparing, case: Case, part: Part, most: float) -> bool:
    return any(
        mine.schema.get("maxContains", most + 1) <= most and alike(comparing, mine.part("contains"), part)
        for mine in case.nodes
        if "contains" in mine.schema
    )


def _as_frequent(comparing: Comparing, case: Case, part: Part, least: float) -> bool:
    for mine in case.nodes:
        if "contains" in mine.schema and mine.schema.get("minContains", 1) >= least:
            opened = comparing.source.opened(mine.part("contains"))
            if not serious(comparing.value(Given(opened, comparing.source.scope(opened)), part)):
                return True
    if case.least("minItems") < least:
        return False
    firsts = [comparing.value(case.item(index), part) for index in range(case.first_items)]
    return not any(map(serious, [*firsts, comparing.value(case.item(None), part)]))


def _unevaluated(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    """Where the target has a schema for every item, none is left; else only the same words are known to be fine."""
    del comparing, case
    if "items" not in node.schema and argument not in (True, {}):
        yield unproven(node.at("unevaluatedItems"), "which items it is about depends on the rest of the schema")


RULES: dict[str, Rule] = {
    "prefixItems": _first_items,
    "items": _items,
    "minItems": _fewest_items,
    "maxItems": _most_items,
    "uniqueItems": _unique_items,
    "contains": _contains,
    "unevaluatedItems": _unevaluated,
}
