"""Rules for schemas made of others: one of several, not this one, if this then that."""

from collections.abc import Iterator

from toolhall.contracts.narrowing.apart import apart
from toolhall.contracts.narrowing.case import Case, types_of
from toolhall.contracts.narrowing.document import Node, Part
from toolhall.contracts.narrowing.gap import Gap, kinds, serious, unproven
from toolhall.contracts.narrowing.rule import Comparing, Rule
from toolhall.model.json import Json


def _any_of(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    if case.chooses:  # each of its alternatives is looked at by itself
        yield unproven(node.at("anyOf"), "there are other alternatives")
        return
    parts = [node.part("anyOf", index) for index in range(len(argument))]
    if any(comparing.repeats(case, part) for part in parts):
        return
    tried: list[list[Gap]] = []
    for part in parts:
        found = comparing.branch(case, part)
        if not serious(found):
            yield from found
            return
        tried.append(found)
    yield from _nearest(comparing, case, parts, tried, node.at("anyOf"))


def _one_of(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    """One must fit, and no other one may."""
    if case.chooses:
        yield unproven(node.at("oneOf"), "there are other alternatives")
        return
    parts = [node.part("oneOf", index) for index in range(len(argument))]
    tried: list[list[Gap]] = []
    for part in parts:
        found = comparing.branch(case, part)
        if not serious(found):
            if not all(_never_both(comparing, case, part, other) for other in parts if other is not part):
                yield unproven(node.at("oneOf"), "a value may fit more than one of these")
            yield from found
            return
        tried.append(found)
    yield from _nearest(comparing, case, parts, tried, node.at("oneOf"))


def _never_both(comparing: Comparing, case: Case, part: Part, other: Part) -> bool:
    """Whether a value of this case, which fits the one, cannot fit the other."""
    opened = comparing.target.opened(other)
    if apart(comparing, (comparing.source, case.nodes), (comparing.target, opened)):
        return True
    return apart(comparing, (comparing.target, comparing.target.opened(part)), (comparing.target, opened))


def _nearest(comparing: Comparing, case: Case, parts: list[Part], tried: list[list[Gap]], path: str) -> Iterator[Gap]:
    """The gaps to the alternative that was most probably meant."""
    fitting = [
        gaps for part, gaps in zip(parts, tried, strict=True) if case.types & types_of(comparing.target.opened(part))
    ]
    if fitting:
        yield from min(fitting, key=len)
    else:
        yield Gap(path, kinds(case.types))


def _not(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    if argument in ({}, True):
        yield Gap(node.pointer, "any value")
        return
    opened = comparing.target.opened(node.part("not"))
    if not apart(comparing, (comparing.source, case.nodes), (comparing.target, opened)):
        yield unproven(node.at("not"), "some values are excluded")


def _conditional(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    """Where the condition holds `then` must be proven, and where it does not `else`."""
    del argument
    condition = comparing.target.opened(node.part("if"))
    if "then" in node.schema and not apart(comparing, (comparing.source, case.nodes), (comparing.target, condition)):
        yield from _conditionally(comparing, case, node, "then")
    if "else" in node.schema and serious(comparing.within(case, node.part("if"))):
        yield from _conditionally(comparing, case, node, "else")


def _conditionally(comparing: Comparing, case: Case, node: Node, key: str) -> Iterator[Gap]:
    """Nothing is taken from the condition itself, so a gap may be none."""
    for gap in comparing.within(case, node.part(key)):
        yield gap if gap.about == "undeclared" else unproven(gap.path, f"{gap.what} may be excluded under a condition")


def _broken(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing, case
    if argument is None:
        yield unproven(node.pointer, "this leads nowhere, or is no schema")


RULES: dict[str, Rule] = {
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _conditional,
    "$ref": _broken,
}
