"""How many subschemas one value meets: references and combinators unfolded, without unfolding them."""

from collections import Counter
from collections.abc import Iterator

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject
from toolhall.schema.walk import Child, children

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_LONGEST_CHAIN = 200


class Expansion:
    """The schema as a graph of its subschemas; edges either stay on the value or go to a part of it."""

    def __init__(self, schema: JsonObject) -> None:
        self._pointers: dict[str, Json] = {}
        self._anchors: dict[str, str] = {}
        self._edges: dict[str, list[Child]] = {}
        self._index(schema, "")
        self._counted: dict[str, int] = {}
        self._looping: list[str] = []
        self._recursive: set[str] = set()
        self.visits = self._count("", set(), set())
        self.growth = self._growth()

    def problems(self) -> Iterator[Problem]:
        """References to nowhere, and loops that would never consume any of the value."""
        for pointer, schema in self._pointers.items():
            for key in _REFERENCES:
                if isinstance(schema, dict) and key in schema and self._target(schema[key]) is None:
                    yield Problem(f"{pointer}/{key}", "this reference leads nowhere; define it under $defs")
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

    def _count(self, pointer: str, same: set[str], above: set[str]) -> int:
        """Subschemas visited from here, each recursion counted once; memory makes this linear, not exponential."""
        if pointer in same or len(above) > _LONGEST_CHAIN:
            self._looping.append(pointer)
            return 0
        if pointer in above:
            self._recursive.add(pointer)
            return 1
        if pointer in self._counted:
            return self._counted[pointer]
        total = 1
        for target, slot in self._next(pointer):
            total += self._count(target, set() if slot else same | {pointer}, above | {pointer})
        self._counted[pointer] = total
        return total

    def _growth(self) -> int:
        """In a recursive schema, how often the same part of a value is judged again at each level (1: once)."""
        worst = 1
        for pointer in self._recursive:
            slots = Counter(slot for target, slot in self._parts(pointer) if self._reaches(target, pointer))
            worst = max([worst, *slots.values()])
        return worst

    def _parts(self, pointer: str) -> Iterator[tuple[str, str]]:
        """All edges to parts of the value, after every combinator and reference on the value itself."""
        pending, seen = [pointer], {pointer}
        while pending:
            for target, slot in self._next(pending.pop()):
                if slot is not None:
                    yield target, slot
                elif target not in seen:
                    seen.add(target)
                    pending.append(target)

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
