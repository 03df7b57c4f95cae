"""Where a part of a schema came from, so that what is lost of it can be pointed at."""

import msgspec

from toolhall.model.json import Json
from toolhall.schema.walk import escape

Path = tuple[str, ...]
MISSING = msgspec.UNSET


class Place(msgspec.Struct, frozen=True, gc=False):
    """The pointers at which a part may be found (several once parts were merged), and the references that led here."""

    paths: tuple[Path, ...] = ((),)
    above: frozenset[Path] = frozenset({()})
    depth: int = 0

    def at(self, *parts: str) -> "Place":
        """The place of a part of this part."""
        paths = self.paths
        if len(paths) == 1:
            return Place((paths[0] + parts,), self.above, self.depth + 1)
        return Place(tuple(path + parts for path in paths), self.above, self.depth + 1)

    def followed(self, target: Path) -> "Place":
        """The place of what a reference here refers to."""
        return Place((target, *self.paths), self.above | {target}, self.depth + 1)

    def joined(self, other: "Place") -> "Place":
        """The place of a part made of this one and another one."""
        return Place(self.paths + other.paths, self.above | other.above, max(self.depth, other.depth))

    def pointer(self, root: Json, *parts: str) -> str:
        """The pointer to a part of this part, or to the nearest thing around it that is in the source."""
        best: Path | None = None
        for path in self.paths:
            wanted = path + parts
            found = _nearest(root, wanted)
            if len(found) == len(wanted):
                best = found
                break
            best = best or found
        return "".join([f"/{escape(part)}" for part in best or ()])


def look(found: Json, part: str) -> Json:
    """A member of an object or an item of a list, else MISSING."""
    if isinstance(found, dict):
        return found.get(part, MISSING)
    if isinstance(found, list) and part.isascii() and part.isdigit() and int(part) < len(found):
        return found[int(part)]
    return MISSING


def _nearest(root: Json, path: Path) -> Path:
    for length, part in enumerate(path):
        root = look(root, part)
        if root is MISSING:
            return path[:length]
    return path
