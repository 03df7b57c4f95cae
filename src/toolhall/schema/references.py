"""ReferenceResolver resolves `$ref`, `$dynamicRef` and anchors inside one schema document.

It never reads anything outside the document.
"""

from urllib.parse import unquote

import msgspec

from toolhall.model.json import Json, JsonObject, unescape_pointer
from toolhall.schema.keywords import subschemas

PointerParts = tuple[str, ...]
MISSING = msgspec.UNSET


class ReferenceResolver:
    """Resolves references against one root document."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._anchors: dict[str, PointerParts] | None = None

    def resolve(self, reference: str) -> PointerParts | None:
        """The path to the referenced subschema; None if the target is outside the document or does not exist."""
        document, _, fragment = reference.partition("#")
        if document and document != self._root.get("$id"):
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._resolve_anchor(fragment)
        path = _pointer_parts(fragment)
        return path if isinstance(self.value_at(path), dict | bool) else None

    def value_at(self, path: PointerParts) -> Json:
        """The value at a path, or MISSING."""
        value: Json = self._root
        for part in path:
            value = child_at(value, part)
            if value is MISSING:
                break
        return value

    def _resolve_anchor(self, name: str) -> PointerParts | None:
        if self._anchors is None:
            self._anchors = dict(_find_anchors(self._root))
        return self._anchors.get(name)


def child_at(value: Json, part: str) -> Json:
    """A member of an object or an item of a list, or MISSING."""
    if isinstance(value, dict):
        return value.get(part, MISSING)
    if isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return MISSING


def _find_anchors(root: JsonObject) -> list[tuple[str, PointerParts]]:
    anchors: list[tuple[str, PointerParts]] = []
    pending: list[tuple[Json, str]] = [(root, "")]
    while pending:
        schema, pointer = pending.pop()
        if not isinstance(schema, dict):
            continue
        path = _pointer_parts(pointer)
        names = [schema.get("$anchor"), schema.get("$dynamicAnchor"), _draft7_anchor(schema.get("$id"))]
        anchors.extend((name, path) for name in names if isinstance(name, str))
        pending.extend((child.schema, child.pointer) for child in subschemas(schema, pointer))
    return anchors


def _draft7_anchor(identifier: Json) -> str | None:
    """Draft-07 has no keyword for anchors: an `$id` that starts with '#' is one."""
    return identifier[1:] if isinstance(identifier, str) and identifier.startswith("#") else None


def _pointer_parts(pointer: str) -> PointerParts:
    return tuple(map(unescape_pointer, pointer.split("/")[1:]))
