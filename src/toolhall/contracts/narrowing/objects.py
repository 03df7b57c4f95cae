"""Rules for objects: which members they have, which they need, and what others may be."""

from collections.abc import Callable, Iterator

from toolhall.contracts.narrowing.case import Case, is_map, types_of
from toolhall.contracts.narrowing.document import Declared, Given, Node, Nodes
from toolhall.contracts.narrowing.gap import Gap, shown
from toolhall.contracts.narrowing.judge import Judge
from toolhall.contracts.narrowing.rule import Comparing, Rule
from toolhall.model.json import Json


def _properties(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    """Members that the source does not speak of were never promised, so they may be what the target likes."""
    if not comparing.maps and case.nested and is_map(case.nodes, case.declared):
        yield Gap(node.at("properties"), "members that are not listed", "undeclared")
    for name in argument:
        if case.declares(name):
            yield from comparing.value(case.member(name), node.part("properties", name))


def _pattern_properties(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    for pattern in argument:
        part = node.part("patternProperties", pattern)
        for name in sorted(case.declared.names):
            if comparing.judge.matches(pattern, name) is not False:
                yield from comparing.value(case.member(name), part)
        for mine in sorted(case.declared.patterns):  # two patterns may match the same name
            yield from comparing.value(case.members_like(mine), part)
        if case.declared.mapped:
            yield from comparing.value(case.other_members(), part)


def _required(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    for name in argument:
        if name not in case.required:
            yield Gap(node.at("required"), f"objects without {shown(name)}")


def _additional(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del argument
    listed, patterns = node.schema.get("properties", {}), node.schema.get("patternProperties", {})

    def covered(name: str) -> bool:
        return name in listed or any(comparing.judge.matches(pattern, name) for pattern in patterns)

    yield from _others(comparing, case, node, "additionalProperties", covered)


def _unevaluated(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del argument
    opened = comparing.target.conjoined(node)
    always = [each for each in opened if each.pointer == node.pointer or "unevaluatedProperties" not in each.schema]
    if any("additionalProperties" in each.schema for each in always):
        return
    names = frozenset().union(*(each.schema.get("properties", ()) for each in always))
    patterns = frozenset().union(*(each.schema.get("patternProperties", ()) for each in always))

    def covered(name: str) -> bool:
        return name in names or any(comparing.judge.matches(pattern, name) for pattern in patterns)

    yield from _others(comparing, case, node, "unevaluatedProperties", covered)


def _others(comparing: Comparing, case: Case, node: Node, key: str, covered: Callable[[str], bool]) -> Iterator[Gap]:
    """Members that the target has no schema for: it forbids them, or has one for all of them."""
    part = node.part(key)

    def compared(given: Given | None, gap: Gap) -> Iterator[Gap]:
        if given is not None:
            yield from [gap] if part.schema is False else comparing.value(given, part)

    for name in sorted(case.declared.names):
        if not covered(name):
            yield from compared(case.member(name), Gap(_place(case, name, part.pointer), _called(name), "refused"))
    for pattern in sorted(case.declared.patterns - node.schema.get("patternProperties", {}).keys()):
        what = f"members whose names match {shown(pattern)}"
        yield from compared(case.members_like(pattern), Gap(part.pointer, what))
    if case.declared.mapped:
        yield from compared(case.other_members(), Gap(part.pointer, "members that are not listed"))
    elif case.is_open and comparing.target.opened(part):
        anything = case.nested and is_map(case.nodes, case.declared)
        yield Gap(part.pointer, "members that are not listed", "value" if anything else "undeclared")


def _property_names(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del argument
    part = node.part("propertyNames")
    opened = comparing.target.opened(part)
    refused = [name for name in sorted(case.declared.names) if comparing.judge.accepts(name, opened) is not True]
    for name in refused:
        if case.member(name) is not None:
            yield Gap(_place(case, name, part.pointer), _called(name), "refused")
    if case.declared.mapped or case.declared.patterns or (case.nested and is_map(case.nodes, case.declared)):
        names = [each for mine in case.nodes if "propertyNames" in mine.schema for each in _opened_names(case, mine)]
        nodes = (Node({"type": "string"}, "", "names"), *names)
        yield from comparing.value(Given(nodes, comparing.source.scope(nodes)), part)


def _opened_names(case: Case, node: Node) -> Nodes:
    return case.document.opened(node.part("propertyNames"))


def _fewest_members(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    if max(case.least("minProperties"), len(case.required)) < argument:
        yield Gap(node.at("minProperties"), f"objects of fewer than {shown(argument)} members")


def _most_members(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    listed = float("inf") if case.declared.mapped or case.declared.patterns else len(case.declared.names)
    if min(case.most("maxProperties"), listed) > argument:
        yield Gap(node.at("maxProperties"), f"objects of more than {shown(argument)} members")


def _dependent_required(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    del comparing
    for name, needed in argument.items():
        if not case.declares(name) or case.member(name) is None:
            continue
        given = case.required.union(*(each.get(name, ()) for each in case.all_of("dependentRequired")))
        for other in needed:
            if other not in given and other != name:
                what = f"objects with {shown(name)} and without {shown(other)}"
                yield Gap(node.at("dependentRequired", name), what)


def _dependent_schemas(comparing: Comparing, case: Case, node: Node, argument: Json) -> Iterator[Gap]:
    for name in argument:
        if not case.declares(name) or case.member(name) is None:
            continue
        there = [Node({"required": [name]}, node.pointer, f"required {name}")]
        for mine in case.nodes:
            if name in mine.schema.get("dependentSchemas", ()):
                there += case.document.opened(mine.part("dependentSchemas", name))
        yield from comparing.within(case.also(there), node.part("dependentSchemas", name))


def dropped(judge: Judge, case: Case, mine: Declared, targets: Nodes, theirs: Declared, *, maps: bool) -> Iterator[Gap]:
    """Members that the source speaks of and the target does not, though it may still accept them.

    With `maps`, a target that takes anything under any name speaks of all of them.
    """
    types = types_of(targets)
    if "object" not in case.types & types or not mine.names or theirs.mapped or case.values is not None:
        return
    if is_map(targets, theirs) and ((maps and case.nested) or not any("type" in node.schema for node in targets)):
        return
    if any(node.schema.get("additionalProperties") is False for node in targets):
        return  # a gap already
    for name in sorted(mine.names - theirs.names - case.known):
        if not any(judge.matches(pattern, name) for pattern in theirs.patterns) and case.member(name) is not None:
            yield Gap(_place(case, name, ""), _called(name), "member")


def _called(name: str) -> str:
    return f"the member {shown(name)}"


def _place(case: Case, name: str, otherwise: str) -> str:
    """Where the source speaks of a member."""
    places = (node.at("properties", name) for node in case.nodes if name in node.schema.get("properties", ()))
    return next(places, case.nodes[0].pointer if case.nodes else otherwise)


RULES: dict[str, Rule] = {
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "required": _required,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated,
    "propertyNames": _property_names,
    "minProperties": _fewest_members,
    "maxProperties": _most_members,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
}
