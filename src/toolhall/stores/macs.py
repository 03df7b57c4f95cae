"""A code over every row that decides who may do what: whoever can write to the file cannot make one."""

import hmac
from collections.abc import Mapping
from typing import Any

import msgspec

from toolhall.stores.derived import ROW_MACS, derived

COLUMN = "mac"
_MOST_ORDERS = 1_000


class Macs:
    """HMAC-SHA-256 with a key that is not in the file; a row's own place is part of what is signed."""

    def __init__(self, root: bytes) -> None:
        self._key = derived(root, ROW_MACS)
        self._orders: dict[tuple[str, ...], tuple[str, ...]] = {}  # the rows of a table come by the thousand

    def of(self, table: str, row: Mapping[str, Any]) -> bytes:
        """The code of a row, by the names of its columns; whatever code it holds itself is left out."""
        names = tuple(row)
        order = self._orders.get(names) or self._ordered(names)
        values = [row[name] for name in order]
        # A whole number is stored as it is or with a point, as its column wants it.
        plain = [int(value) if value.__class__ is float and value.is_integer() else value for value in values]
        return hmac.digest(self._key, msgspec.msgpack.encode((str(table), order, plain)), "sha256")

    def signed(self, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row with its code, ready to be stored."""
        return {**row, COLUMN: self.of(table, row)}

    def hold(self, table: str, row: Mapping[str, Any]) -> bool:
        """Whether this row is as one of our own stored it."""
        return hmac.compare_digest(self.of(table, row), row[COLUMN] or b"")

    def _ordered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._orders) >= _MOST_ORDERS:
            self._orders.clear()
        order = self._orders[names] = tuple(sorted(str(name) for name in names if name != COLUMN))
        return order
