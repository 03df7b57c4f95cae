"""What differs between two answers of a tool: JSON pointers, with what was there and what is there now."""

from collections.abc import Collection, Iterator
from itertools import islice

import msgspec

from toolhall.contracts.canonical import canonical
from toolhall.model.json import Json
from toolhall.model.patch import escape


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place; a side that has nothing there is absent."""

    path: str
    old: Json = msgspec.UNSET
    new: Json = msgspec.UNSET


def differences(old: Json, new: Json, hidden: Collection[str], most: int) -> list[Difference]:
    """The first of them; 1 and 1.0 are the same number, and what is hidden on either side is not compared."""
    return list(islice(_compared(old, new, "", hidden), most))


def _compared(old: Json, new: Json, path: str, hidden: Collection[str]) -> Iterator[Difference]:
    if path in hidden:
        return
    match old, new:
        case dict(), dict():
            for key in dict.fromkeys((*old, *new)):
                parts = old.get(key, msgspec.UNSET), new.get(key, msgspec.UNSET)
                yield from _compared(*parts, f"{path}/{escape(key)}", hidden)
        case list(), list():
            for index in range(max(len(old), len(new))):
                yield from _compared(_item(old, index), _item(new, index), f"{path}/{index}", hidden)
        case _ if _spelled(old) != _spelled(new):
            yield Difference(path, old, new)
        case _:
            return


def _item(items: list[Json], index: int) -> Json:
    return items[index] if index < len(items) else msgspec.UNSET


def _spelled(value: Json) -> bytes | None:
    return None if value is msgspec.UNSET else canonical(value)
