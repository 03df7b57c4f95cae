"""Finds the fields that a schema itself marks as secret: `writeOnly` and `format: password` (SecretFields)."""

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.schema.keywords import REFERENCE_KEYWORDS, subschemas

_MEMBER_PREFIX = "properties/"


class SecretFields(msgspec.Struct, frozen=True):
    """Names of members that are secret at any depth, or the whole value; errs on the side of redacting too much."""

    members: frozenset[str] = frozenset()
    whole: bool = False


NO_SECRET_FIELDS = SecretFields()


def secret_fields_of(schema: JsonObject | None) -> SecretFields:
    """The secret fields of values of this schema, over all of its branches."""
    graph = _SubschemaGraph(schema or {})
    secret = graph.secret_pointers()
    members = {
        slot.removeprefix(_MEMBER_PREFIX) for _, to, slot in graph.edges if to in secret and _is_member_slot(slot)
    }
    return SecretFields(frozenset(members), "" in secret) if secret else NO_SECRET_FIELDS


def _is_member_slot(slot: str) -> bool:
    return slot.startswith(_MEMBER_PREFIX)


class _SubschemaGraph:
    """All subschemas by pointer, and edges between them: by a slot of the value, or ("") on the value itself."""

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
        """Subschemas that are marked secret, and those that contain one in a list or under an undeclared name."""
        holders: dict[str, list[str]] = {}
        for holder, to, slot in self.edges:
            if not _is_member_slot(slot):
                holders.setdefault(to, []).append(holder)
        pending = [pointer for pointer, schema in self._schemas.items() if _is_marked(schema)]
        secret: set[str] = set()
        while pending:
            pointer = pending.pop()
            if pointer not in secret:
                secret.add(pointer)
                pending.extend(holders.get(pointer, ()))
        return secret

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
