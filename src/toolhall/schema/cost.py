"""Limits on schemas: size, depth, patterns, references and the cost of one validation (SchemaCost).

SubschemaGraph counts how many subschemas one value meets without expanding references and combinators, so the check
itself is linear. A schema that would fetch, backtrack, recurse forever or take too long raises BadSchema.
"""

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import msgspec

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.keywords import DRAFTS, REFERENCE_KEYWORDS, Subschema, subschemas

_MAX_CHAIN = 200
_PROPERTY_SLOTS = ("properties/", "additionalProperties", "unevaluatedProperties")
_ITEM_SLOTS = ("items", "additionalItems", "unevaluatedItems")


class SubschemaGraph:
    """The schema as a graph of its subschemas; edges either stay on the value or go to a part of it."""

    def __init__(self, schema: JsonObject) -> None:
        self._pointers: dict[str, Json] = {}
        self._anchors: dict[str, str] = {}
        self._duplicate_anchors: list[str] = []
        self._edges: dict[str, list[Subschema]] = {}
        self._index(schema, "")
        self._visit_counts: dict[str, int] = {}
        self._part_edges: dict[str, Counter[tuple[str, str]]] = {}
        self._loops = self._find_loop()
        self._recursive: set[str] = set()
        self.visits = 0 if self._loops else self._count_visits("", set())
        self.growth = 1 if self._loops else self._compute_growth()

    def problems(self) -> Iterator[Problem]:
        """References to nowhere, and loops that would never consume any of the value."""
        for pointer, schema in self._pointers.items():
            for key in REFERENCE_KEYWORDS:
                if isinstance(schema, dict) and key in schema and self._target(schema[key]) is None:
                    yield Problem(f"{pointer}/{key}", "this reference leads nowhere; define it under $defs")
        for pointer in self._duplicate_anchors:
            yield Problem(pointer, "another subschema has this anchor too; give each its own")
        for pointer in self._loops:
            reason = "these references lead back here without looking at a part of the value, or form too long a chain"
            yield Problem(pointer, reason)

    def _index(self, root: JsonObject, start: str) -> None:
        pending: list[tuple[Json, str]] = [(root, start)]
        while pending:
            schema, pointer = pending.pop()
            self._pointers[pointer] = schema
            if not isinstance(schema, dict):
                self._edges[pointer] = []
                continue
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(key), str):
                    # Of two, it would be anybody's guess which one a reference means.
                    self._duplicate_anchors += (
                        [f"{pointer}/{key}"] if self._anchors.get(schema[key], pointer) != pointer else []
                    )
                    self._anchors[schema[key]] = pointer
            found = list(subschemas(schema, pointer))
            self._edges[pointer] = [child for child in found if child.applies]
            pending.extend((child.schema, child.pointer) for child in found)

    def _target(self, reference: Json) -> str | None:
        if not isinstance(reference, str):
            return None
        fragment = reference.removeprefix("#")
        pointer = fragment if fragment in self._pointers else self._anchors.get(fragment)
        return pointer if pointer in self._pointers else None

    def _successors(self, pointer: str) -> Iterator[tuple[str, str | None]]:
        """Where validation goes from here: (pointer, slot), slot None while it stays on the same value."""
        schema = self._pointers[pointer]
        for child in self._edges[pointer]:
            yield child.pointer, child.slot
        for key in REFERENCE_KEYWORDS:
            target = self._target(schema[key]) if isinstance(schema, dict) and key in schema else None
            if target is not None:
                yield target, None

    def _find_loop(self) -> list[str]:
        """A place that leads back to itself on the very same value, if there is one."""
        same = {pointer: [to for to, slot in self._successors(pointer) if slot is None] for pointer in self._pointers}
        try:
            TopologicalSorter(same).prepare()
        except CycleError as error:
            return [min(error.args[1])]
        return []

    def _count_visits(self, pointer: str, above: set[str]) -> int:
        """Checks made from here, each recursion counted once; memory makes this linear, not exponential."""
        if len(above) > _MAX_CHAIN:
            self._loops.append(pointer)
            return 0
        if pointer in above:
            self._recursive.add(pointer)
            return 1
        if pointer in self._visit_counts:
            return self._visit_counts[pointer]
        total = _weight(self._pointers[pointer])
        for target, _ in self._successors(pointer):
            total += self._count_visits(target, above | {pointer})
        self._visit_counts[pointer] = total
        return total

    def _compute_growth(self) -> int:
        """In a recursive schema, how often the same part of a value is judged again at each level (1: once)."""
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
        """All ways to parts of the value, through every combinator and reference on the value itself."""
        if pointer not in self._part_edges:
            ways: Counter[tuple[str, str]] = Counter()
            for target, slot in self._successors(pointer):
                ways.update(self._edges_to_parts(target) if slot is None else {(target, slot): 1})
            self._part_edges[pointer] = ways
        return self._part_edges[pointer]

    def _reaches(self, start: str, goal: str) -> bool:
        pending, seen = [start], {start}
        while pending:
            here = pending.pop()
            if here == goal:
                return True
            for target, _ in self._successors(here):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return False


def _weight(schema: Json) -> int:
    """The checks that one subschema makes by itself; objects and lists in an enum are compared one by one."""
    if not isinstance(schema, dict):
        return 1
    required, choices = schema.get("required"), schema.get("enum")
    weight = 1 + (len(required) if isinstance(required, list) else 0)
    if isinstance(choices, list) and any(isinstance(choice, dict | list) for choice in choices):
        weight += len(choices)
    return weight


def _overlap(slots: Counter[str], exclusive: tuple[str, ...], overlapping: str) -> int:
    """How many can judge one and the same part: of those kept apart the worst, and all that stand beside them."""
    worst = max((times for slot, times in slots.items() if slot.startswith(exclusive)), default=0)
    return worst + sum(times for slot, times in slots.items() if slot.startswith(overlapping))


MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_SUBSCHEMAS = 2_000
MAX_VISITS = 50_000
MAX_PATTERN_LENGTH = 512


class SchemaCost(msgspec.Struct, frozen=True):
    """What one validation can cost: checks made on one value, and by how much each level multiplies them."""

    visits: int
    growth: int


class BadSchema(ValueError):
    """A schema that may not be registered; carries every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in problems))


def supported_draft(schema: JsonObject) -> str:
    """The JSON Schema draft that a schema is written in; 2020-12 unless it says otherwise."""
    declared = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = DRAFTS.get(declared.rstrip("#")) if isinstance(declared, str) else None
    if draft is None:
        known = ", ".join(DRAFTS)
        raise BadSchema([Problem("/$schema", f"this JSON Schema dialect is not supported; use one of {known}")])
    return draft


def measure_cost(schema: JsonObject) -> SchemaCost:
    """Check every limit; the cost of the schema, or BadSchema with all that is wrong."""
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
    expansion = SubschemaGraph(schema)
    problems = list(expansion.problems())
    if problems:
        raise BadSchema(problems)
    if expansion.visits > MAX_VISITS:
        reason = f"one value would be checked more than {MAX_VISITS} times; simplify allOf, anyOf and $ref"
        raise BadSchema([Problem("", reason)])
    return SchemaCost(expansion.visits, expansion.growth)


def _structural_problems(schema: JsonObject) -> Iterator[Problem]:
    """Depth, number of subschemas, references that leave the document, patterns."""
    pending: list[tuple[Json, str, int]] = [(schema, "", 1)]
    seen = 0
    while pending:
        found, pointer, depth = pending.pop()
        seen += 1
        if seen > MAX_SUBSCHEMAS:
            yield Problem(pointer, f"the schema has more than {MAX_SUBSCHEMAS} subschemas")
            return
        if depth > MAX_DEPTH:
            yield Problem(pointer, f"the schema is nested more than {MAX_DEPTH} levels deep")
            return
        if isinstance(found, bool):
            continue
        if not isinstance(found, dict):
            yield Problem(pointer, "a schema is an object, true or false")
            continue
        yield from _keyword_problems(found, pointer)
        pending.extend((child.schema, child.pointer, depth + 1) for child in subschemas(found, pointer))


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
