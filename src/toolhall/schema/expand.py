"""How many subschemas one value meets: references and combinators unfolded, without unfolding them."""

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject
from toolhall.schema.walk import Child, children

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_LONGEST_CHAIN = 200
_MEMBERS = ("properties/", "additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "additionalItems", "unevaluatedItems")


class Expansion:
    """The schema as a graph of its subschemas; edges either stay on the value or go to a part of it."""

    def __init__(self, schema: JsonObject) -> None:
        self._pointers: dict[str, Json] = {}
        self._anchors: dict[str, str] = {}
        self._twice: list[str] = []
        self._edges: dict[str, list[Child]] = {}
        self._index(schema, "")
        self._counted: dict[str, int] = {}
        self._ways: dict[str, Counter[tuple[str, str]]] = {}
        self._looping = self._loop()
        self._recursive: set[str] = set()
        self.visits = 0 if self._looping else self._count("", set())
        self.growth = 1 if self._looping else self._growth()

    def problems(self) -> Iterator[Problem]:
        """References to nowhere, and loops that would never consume any of the value."""
        for pointer, schema in self._pointers.items():
            for key in _REFERENCES:
                if isinstance(schema, dict) and key in schema and self._target(schema[key]) is None:
                    yield Problem(f"{pointer}/{key}", "this reference leads nowhere; define it under $defs")
        for pointer in self._twice:
            yield Problem(pointer, "another subschema has this anchor too; give each its own")
        for pointer in self._looping:
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
                    self._twice += [f"{pointer}/{key}"] if self._anchors.get(schema[key], pointer) != pointer else []
                    self._anchors[schema[key]] = pointer
            found = list(children(schema, pointer))
            self._edges[pointer] = [child for child in found if child.applies]
            pending.extend((child.schema, child.pointer) for child in found)

    def _target(self, reference: Json) -> str | None:
        if not isinstance(reference, str):
            return None
        fragment = reference.removeprefix("#")
        pointer = fragment if fragment in self._pointers else self._anchors.get(fragment)
        return pointer if pointer in self._pointers else None

    def _next(self, pointer: str) -> Iterator[tuple[str, str | None]]:
        """Where validation goes from here: (pointer, slot), slot None while it stays on the same value."""
        schema = self._pointers[pointer]
        for child in self._edges[pointer]:
            yield child.pointer, child.slot
        for key in _REFERENCES:
            target = self._target(schema[key]) if isinstance(schema, dict) and key in schema else None
            if target is not None:
                yield target, None

    def _loop(self) -> list[str]:
        """A place that leads back to itself on the very same value, if there is one."""
        same = {pointer: [to for to, slot in self._next(pointer) if slot is None] for pointer in self._pointers}
        try:
            TopologicalSorter(same).prepare()
        except CycleError as error:
            return [min(error.args[1])]
        return []

    def _count(self, pointer: str, above: set[str]) -> int:
        """Checks made from here, each recursion counted once; memory makes this linear, not exponential."""
        if len(above) > _LONGEST_CHAIN:
            self._looping.append(pointer)
            return 0
        if pointer in above:
            self._recursive.add(pointer)
            return 1
        if pointer in self._counted:
            return self._counted[pointer]
        total = _weight(self._pointers[pointer])
        for target, _ in self._next(pointer):
            total += self._count(target, above | {pointer})
        self._counted[pointer] = total
        return total

    def _growth(self) -> int:
        """In a recursive schema, how often the same part of a value is judged again at each level (1: once)."""
        worst = 1
        for pointer in self._recursive:
            slots: Counter[str] = Counter()
            for (target, slot), times in self._parts(pointer).items():
                if self._reaches(target, pointer):
                    slots[slot] += times
            worst = max(worst, _overlap(slots, _MEMBERS, "patternProperties/"), _overlap(slots, _ITEMS, "contains"))
        return worst

    def _parts(self, pointer: str) -> Counter[tuple[str, str]]:
        """All ways to parts of the value, through every combinator and reference on the value itself."""
        if pointer not in self._ways:
            ways: Counter[tuple[str, str]] = Counter()
            for target, slot in self._next(pointer):
                ways.update(self._parts(target) if slot is None else {(target, slot): 1})
            self._ways[pointer] = ways
        return self._ways[pointer]

    def _reaches(self, start: str, goal: str) -> bool:
        pending, seen = [start], {start}
        while pending:
            here = pending.pop()
            if here == goal:
                return True
            for target, _ in self._next(here):
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


def _overlap(slots: Counter[str], apart: tuple[str, ...], beside: str) -> int:
    """How many can judge one and the same part: of those kept apart the worst, and all that stand beside them."""
    worst = max((times for slot, times in slots.items() if slot.startswith(apart)), default=0)
    return worst + sum(times for slot, times in slots.items() if slot.startswith(beside))
