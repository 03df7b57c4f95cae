"""Limits on schemas, and the cost of one validation (measure_cost, SchemaCost), checked before a schema is compiled.

Theory of operation. A schema may come from a stranger (a registered definition, a tool server), and every argument of
every call is validated by it. A few hundred bytes of schema can make a validator fetch a URL, backtrack in a pattern,
recurse for ever, or check one value billions of times (`allOf` of references to `allOf` of references). A validation
that has started cannot be interrupted, so the limits hold when a schema is registered, where the author of a refused
schema gets all problems. What passes has a known cost: at run time `cost * size of the arguments` is a bound on the
work, by which `pipeline/validate.py` decides whether to validate in the event loop or in a process with a time limit.

1. Size: bytes, nesting and number of subschemas (`_structural_problems`). References stay inside the document, inner
   `$id` and `$schema` are refused because they would change what a reference means, patterns are short; the validator
   compiles them with a linear-time regular expression engine.
2. SubschemaGraph: the nodes are subschemas, the edges lead from a subschema to those that a validator applies next, and
   either stay on the same value (combinators, references) or go to a part of it (`properties`, `items`). A cycle of
   edges that stay on the same value would never end, and is refused.
3. `visits` is the number of checks that one value can meet, counted over the graph without expanding it: each node is
   counted once and its count is reused, so the measurement is linear although the count may be exponential. More than
   MAX_VISITS are refused.
4. `growth` is 1 if a recursive schema checks each part of a value once per level. It is larger if several branches
   check the same part again: the work is then multiplied at each level of the value, and the validator reports the
   first problem only.
"""

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import msgspec

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.keywords import DRAFTS, REFERENCE_KEYWORDS, Subschema, subschemas

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_SUBSCHEMAS = 2_000
MAX_VISITS = 50_000
MAX_PATTERN_LENGTH = 512
_MAX_CHAIN = 200
_PROPERTY_SLOTS = ("properties/", "additionalProperties", "unevaluatedProperties")
_ITEM_SLOTS = ("items", "additionalItems", "unevaluatedItems")


class SchemaCost(msgspec.Struct, frozen=True):
    """The cost of one validation: checks of one value, and the factor that each level of nesting multiplies them by."""

    visits: int
    growth: int


class BadSchema(ValueError):
    """A schema that cannot be registered; carries every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in problems))


def measure_cost(schema: JsonObject) -> SchemaCost:
    """Check every limit; the cost of the schema, or BadSchema with all problems."""
    supported_draft(schema)
    try:
        size = len(encode(schema))
    except RecursionError:
        raise BadSchema([Problem("", f"the schema is nested more than {MAX_DEPTH} levels deep")]) from None
    except (TypeError, ValueError) as error:
        raise BadSchema([Problem("", f"the schema is not JSON: {error}")]) from None
    if size > MAX_BYTES:
        raise BadSchema([Problem("", f"the schema has {size} bytes; at most {MAX_BYTES} are allowed")])
    problems = list(_structural_problems(schema))
    if problems:
        raise BadSchema(problems)
    graph = SubschemaGraph(schema)
    problems = list(graph.problems())
    if problems:
        raise BadSchema(problems)
    if graph.visits > MAX_VISITS:
        reason = f"one value would be checked more than {MAX_VISITS} times; simplify allOf, anyOf and $ref"
        raise BadSchema([Problem("", reason)])
    return SchemaCost(graph.visits, graph.growth)


def supported_draft(schema: JsonObject) -> str:
    """The JSON Schema draft of a schema, 2020-12 by default; BadSchema for an unknown dialect."""
    declared = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = DRAFTS.get(declared.rstrip("#")) if isinstance(declared, str) else None
    if draft is None:
        known = ", ".join(DRAFTS)
        raise BadSchema([Problem("/$schema", f"this JSON Schema dialect is not supported; use one of {known}")])
    return draft


def _structural_problems(schema: JsonObject) -> Iterator[Problem]:
    """Problems of depth, number of subschemas, references that leave the document, and patterns."""
    pending: list[tuple[Json, str, int]] = [(schema, "", 1)]
    seen = 0
    while pending:
        part, pointer, depth = pending.pop()
        seen += 1
        if seen > MAX_SUBSCHEMAS:
            yield Problem(pointer, f"the schema has more than {MAX_SUBSCHEMAS} subschemas")
            return
        if depth > MAX_DEPTH:
            yield Problem(pointer, f"the schema is nested more than {MAX_DEPTH} levels deep")
            return
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            yield Problem(pointer, "a schema is an object, true or false")
            continue
        yield from _keyword_problems(part, pointer)
        pending.extend((child.schema, child.pointer, depth + 1) for child in subschemas(part, pointer))


def _keyword_problems(schema: JsonObject, pointer: str) -> Iterator[Problem]:
    for key in REFERENCE_KEYWORDS:
        target = schema.get(key, "#")
        if not isinstance(target, str) or not target.startswith("#"):
            yield Problem(f"{pointer}/{key}", "only references inside the document ('#...') are followed; inline it")
    if pointer and "$id" in schema:
        yield Problem(f"{pointer}/$id", "an inner $id moves the base of references; remove it")
    if pointer and "$schema" in schema:
        yield Problem(f"{pointer}/$schema", "only the root may name its dialect; remove it")
    patterns = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    if isinstance(schema.get("patternProperties"), dict):
        patterns.extend(schema["patternProperties"])
    if any(len(pattern) > MAX_PATTERN_LENGTH for pattern in patterns):
        yield Problem(pointer, f"a pattern has more than {MAX_PATTERN_LENGTH} characters; shorten it")


class SubschemaGraph:
    """The graph of a schema's subschemas; an edge stays on the value or goes to a part of it.

    Subschemas are named by their pointers. `visits` and `growth` are those of SchemaCost.
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schemas: dict[str, Json] = {}
        self._anchors: dict[str, str] = {}
        self._duplicate_anchors: list[str] = []
        self._children: dict[str, list[Subschema]] = {}
        self._index(schema)
        self._visit_counts: dict[str, int] = {}
        self._part_edges: dict[str, Counter[tuple[str, str]]] = {}
        self._loops = self._find_loop()
        self._recursive: set[str] = set()
        self.visits = 0 if self._loops else self._count_visits("", set())
        self.growth = 1 if self._loops else self._compute_growth()

    def problems(self) -> Iterator[Problem]:
        """References without a target, duplicate anchors, and loops that never go to a part of the value."""
        for pointer, schema in self._schemas.items():
            for key in REFERENCE_KEYWORDS:
                if isinstance(schema, dict) and key in schema and self._target(schema[key]) is None:
                    yield Problem(f"{pointer}/{key}", "this reference leads nowhere; define it under $defs")
        for pointer in self._duplicate_anchors:
            yield Problem(pointer, "another subschema has this anchor too; give each its own")
        for pointer in self._loops:
            reason = "these references lead back here without looking at a part of the value, or form too long a chain"
            yield Problem(pointer, reason)

    def _index(self, root: JsonObject) -> None:
        pending: list[tuple[Json, str]] = [(root, "")]
        while pending:
            schema, pointer = pending.pop()
            self._schemas[pointer] = schema
            if not isinstance(schema, dict):
                self._children[pointer] = []
                continue
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(key), str):
                    if self._anchors.get(schema[key], pointer) != pointer:  # a reference to it would be ambiguous
                        self._duplicate_anchors.append(f"{pointer}/{key}")
                    self._anchors[schema[key]] = pointer
            children = list(subschemas(schema, pointer))
            self._children[pointer] = [child for child in children if child.applies]
            pending.extend((child.schema, child.pointer) for child in children)

    def _target(self, reference: Json) -> str | None:
        if not isinstance(reference, str):
            return None
        fragment = reference.removeprefix("#")
        pointer = fragment if fragment in self._schemas else self._anchors.get(fragment)
        return pointer if pointer in self._schemas else None

    def _successors(self, pointer: str) -> Iterator[tuple[str, str | None]]:
        """The edges from a subschema as (pointer, slot); slot is None for edges that stay on the same value."""
        schema = self._schemas[pointer]
        for child in self._children[pointer]:
            yield child.pointer, child.slot
        for key in REFERENCE_KEYWORDS:
            target = self._target(schema[key]) if isinstance(schema, dict) and key in schema else None
            if target is not None:
                yield target, None

    def _find_loop(self) -> list[str]:
        """A pointer on a cycle that stays on the same value, if there is one."""
        same = {pointer: [to for to, slot in self._successors(pointer) if slot is None] for pointer in self._schemas}
        try:
            TopologicalSorter(same).prepare()
        except CycleError as error:
            return [min(error.args[1])]
        return []

    def _count_visits(self, pointer: str, ancestors: set[str]) -> int:
        """Checks made from here, each recursion counted once; cached counts make this linear, not exponential."""
        if len(ancestors) > _MAX_CHAIN:
            self._loops.append(pointer)
            return 0
        if pointer in ancestors:
            self._recursive.add(pointer)
            return 1
        if pointer in self._visit_counts:
            return self._visit_counts[pointer]
        total = _weight(self._schemas[pointer])
        for target, _ in self._successors(pointer):
            total += self._count_visits(target, ancestors | {pointer})
        self._visit_counts[pointer] = total
        return total

    def _compute_growth(self) -> int:
        """How often a recursive schema checks the same part of a value at each level (1: once)."""
        worst = 1
        for pointer in self._recursive:
            slots: Counter[str] = Counter()
            for (target, slot), times in self._edges_to_parts(pointer).items():
                if self._reaches(target, pointer):
                    slots[slot] += times
            worst = max(
                worst, _overlap(slots, _PROPERTY_SLOTS, "patternProperties/"), _overlap(slots, _ITEM_SLOTS, "contains")
            )
        return worst

    def _edges_to_parts(self, pointer: str) -> Counter[tuple[str, str]]:
        """All edges to parts of the value, through every combinator and reference on the value itself."""
        if pointer not in self._part_edges:
            edges: Counter[tuple[str, str]] = Counter()
            for target, slot in self._successors(pointer):
                edges.update(self._edges_to_parts(target) if slot is None else {(target, slot): 1})
            self._part_edges[pointer] = edges
        return self._part_edges[pointer]

    def _reaches(self, start: str, goal: str) -> bool:
        pending, seen = [start], {start}
        while pending:
            pointer = pending.pop()
            if pointer == goal:
                return True
            for target, _ in self._successors(pointer):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return False


def _weight(schema: Json) -> int:
    """The checks that one subschema makes itself; objects and lists in an enum are compared one by one."""
    if not isinstance(schema, dict):
        return 1
    required, choices = schema.get("required"), schema.get("enum")
    weight = 1 + (len(required) if isinstance(required, list) else 0)
    if isinstance(choices, list) and any(isinstance(choice, dict | list) for choice in choices):
        weight += len(choices)
    return weight


def _overlap(slots: Counter[str], exclusive: tuple[str, ...], overlapping: str) -> int:
    """How many edges can apply to the same part: the most of one exclusive slot, plus all overlapping ones."""
    worst = max((times for slot, times in slots.items() if slot.startswith(exclusive)), default=0)
    return worst + sum(times for slot, times in slots.items() if slot.startswith(overlapping))
