"""Finds the fields that a schema itself marks as secret: `writeOnly` and `format: password` (SecretFields)."""

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.schema.keywords import REFERENCE_KEYWORDS, subschemas

_MEMBER_PREFIX = "properties/"


class SecretFields(msgspec.Struct, frozen=True):
    """Members that are secret wherever they stand, or the whole value; rather too much than too little."""

    members: frozenset[str] = frozenset()
    whole: bool = False


NO_SECRET_FIELDS = SecretFields()


def secret_fields_of(schema: JsonObject | None) -> SecretFields:
    """What to hide in values of this schema, whichever of its branches a value takes."""
    graph = _SubschemaGraph(schema or {})
    secret = graph.secret_pointers()
    members = {
        slot.removeprefix(_MEMBER_PREFIX) for _, to, slot in graph.edges if to in secret and _is_member_slot(slot)
    }
    return SecretFields(frozenset(members), "" in secret) if secret else NO_SECRET_FIELDS


def _is_member_slot(slot: str) -> bool:
    return slot.startswith(_MEMBER_PREFIX)


class _SubschemaGraph:
    """Every subschema by its pointer, and which lead to which: by a slot of the value, or ("") on the value itself."""

    def __init__(self, root: JsonObject) -> None:
        self._schemas: dict[str, Json] = {}
        self._anchors: dict[str, str] = {}
        self.edges: list[tuple[str, str, str]] = []
        pending: list[tuple[Json, str]] = [(root, "")]
        while pending:
            schema, pointer = pending.pop()
            self._schemas[pointer] = schema
            if isinstance(schema, dict):
                self._index_anchors(schema, pointer)
                for child in subschemas(schema, pointer):
                    pending.append((child.schema, child.pointer))
                    if child.applies:
                        self.edges.append((pointer, child.pointer, child.slot or ""))
        for pointer, schema in self._schemas.items():
            self._add_references(schema, pointer)

    def secret_pointers(self) -> set[str]:
        """Subschemas whose values are secret, and those that hold such a value in a list or under any name."""
        holders: dict[str, list[str]] = {}
        for holder, to, slot in self.edges:
            if not _is_member_slot(slot):
                holders.setdefault(to, []).append(holder)
        pending = [pointer for pointer, schema in self._schemas.items() if _is_marked(schema)]
        found: set[str] = set()
        while pending:
            pointer = pending.pop()
            if pointer not in found:
                found.add(pointer)
                pending.extend(holders.get(pointer, ()))
        return found

    def _index_anchors(self, schema: JsonObject, pointer: str) -> None:
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self._anchors[schema[key]] = pointer

    def _add_references(self, schema: Json, pointer: str) -> None:
        for key in REFERENCE_KEYWORDS:
            target = schema.get(key) if isinstance(schema, dict) else None
            if isinstance(target, str):
                fragment = target.removeprefix("#")
                self.edges.append((pointer, self._anchors.get(fragment, fragment), ""))


def _is_marked(schema: Json) -> bool:
    return isinstance(schema, dict) and (schema.get("writeOnly") is True or schema.get("format") == "password")
