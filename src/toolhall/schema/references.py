"""Finds what a reference inside a schema document refers to."""

from urllib.parse import unquote

from toolhall.model.json import Json, JsonObject
from toolhall.schema.place import MISSING, Path, look
from toolhall.schema.walk import children

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
DEFINITIONS = ("$defs", "definitions")


class References:
    """The document that references are resolved in; nothing outside of it is ever looked at."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._anchors: dict[str, Path] | None = None

    def find(self, reference: str) -> Path | None:
        """The path to what a reference means; None where it leads outside, or nowhere."""
        whole, _, fragment = reference.partition("#")
        if whole and whole != self._root.get("$id"):
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchor(fragment)
        path = tuple(part.replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:])
        return path if isinstance(self.at(path), dict | bool) else None

    def at(self, path: Path) -> Json:
        """What stands at a path, else MISSING."""
        found: Json = self._root
        for part in path:
            found = look(found, part)
            if found is MISSING:
                break
        return found

    def _anchor(self, name: str) -> Path | None:
        if self._anchors is None:
            self._anchors = dict(_anchors(self._root))
        return self._anchors.get(name)


def _anchors(root: JsonObject) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    pending: list[tuple[Json, str]] = [(root, "")]
    while pending:
        schema, pointer = pending.pop()
        if not isinstance(schema, dict):
            continue
        path = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
        # Draft-07 has no keyword of its own for a plain name: it is an $id that starts with '#'.
        named = [schema.get("$anchor"), schema.get("$dynamicAnchor"), _plain_name(schema.get("$id"))]
        found.extend((name, path) for name in named if isinstance(name, str))
        pending.extend((child.schema, child.pointer) for child in children(schema, pointer))
    return found


def _plain_name(identifier: Json) -> str | None:
    return identifier[1:] if isinstance(identifier, str) and identifier.startswith("#") else None
