"""Compares two JSON Schemas: what one of them accepts and the other one does not."""

from toolhall.contracts.narrowing.comparison import Comparison
from toolhall.contracts.narrowing.document import Document
from toolhall.contracts.narrowing.gap import Gap
from toolhall.model.json import Json


class Pair:
    """An old schema and a new one."""

    def __init__(self, old: Json, new: Json) -> None:
        self._old = Document(old)
        self._new = Document(new)

    def narrowed(self, *, maps: bool = True) -> list[Gap]:
        """Every way in which the new one may refuse what the old one accepted.

        Only members count that the old one speaks of: what was never declared was never promised. One that the new one
        does not speak of is a gap, even where it would be accepted; with `maps`, a free-form object speaks of all.
        """
        return Comparison(self._old, self._new, maps=maps).gaps()

    def widened(self) -> list[Gap]:
        """Every way in which the new one may accept more than the old one did: the same, seen from the other side."""
        return Comparison(self._new, self._old, maps=False).gaps()


def narrowed(old: Json, new: Json) -> list[Gap]:
    """Every way in which `new` may refuse what `old` accepted, of what was promised."""
    return Pair(old, new).narrowed()


def widened(old: Json, new: Json) -> list[Gap]:
    """Every way in which `new` may accept what `old` did not."""
    return Pair(old, new).widened()
