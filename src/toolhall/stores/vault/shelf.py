"""What a vault holds in memory: unwrapped data keys, sealed secrets, and for a while those that were opened."""

import logging
from collections.abc import Callable

import msgspec

from toolhall.model.secret import Secret
from toolhall.stores.vault.base import Contents, DataKey, SecretRow, Use
from toolhall.stores.vault.envelope import Envelope, OpenKey, UnknownKey, Unopened

_log = logging.getLogger("toolhall.vault")


class Held:
    """One secret, sealed; opened only until then."""

    __slots__ = ("_key", "row", "secret", "until")

    def __init__(self, row: SecretRow, key: OpenKey) -> None:
        self.row = row
        self._key = key
        self.secret: Secret | None = None
        self.until = 0.0

    def plain(self) -> bytes:
        """The value; raises Unopened."""
        return self._key.open(self.row.sealed, *_bound(self.row))


class Shelf:
    """Made anew from what is stored with every change; of `before` is taken what is the same still.

    What does not open is logged; it is held by nobody, and nothing is found in its place.
    """

    def __init__(self, stored: Contents, envelope: Envelope | None, before: "Shelf | None" = None) -> None:
        self.keys: dict[str, OpenKey] = {}
        self.sealing: dict[tuple[str, Use], OpenKey] = {}  # of a tenant's keys, the newest
        self.held: dict[tuple[str, str | None], Held] = {}
        self._spoiled = {(row.name, row.user) for row in stored.altered}
        keys, held = ({}, {}) if before is None else (before.keys, before.held)
        if envelope is not None:
            for key in stored.keys:
                self._take(key, envelope, keys.get(key.id))
        for row in stored.rows:
            self._hold(row, held.get((row.name, row.user)))

    def find(self, name: str, user: str | None) -> Held | None:
        """The user's own, else the hall's; None if the user's own does not open."""
        own = self.held.get((name, user))
        return self.held.get((name, None)) if own is None and (name, user) not in self._spoiled else own

    def forget(self, ended: Callable[[Held], bool]) -> bool:
        """Close what is ended; whether anything is open still."""
        open_now = [held for held in self.held.values() if held.secret is not None]
        for held in open_now:
            if ended(held):
                held.secret = None
        return any(held.secret is not None for held in open_now)

    def _take(self, key: DataKey, envelope: Envelope, before: OpenKey | None) -> None:
        try:
            opened = before if before is not None and before.kept == key else envelope.unwrap(key)
            self.keys[key.id] = self.sealing[key.tenant, key.use] = opened
        except Unopened as error:
            _log.error("the data key %s of %s is left out: %s; restore a backup", key.id, key.tenant, error)

    def _hold(self, row: SecretRow, before: Held | None) -> None:
        if before is not None and before.row == row and row.dek in self.keys:
            self.held[row.name, row.user] = before  # with what was opened and worked out from it
            return
        try:
            self.held[row.name, row.user] = self._opening(row)
        except Unopened as error:
            self._spoiled.add((row.name, row.user))
            _log.error(
                "the secret %s of %s is refused: %s; set it anew, or restore a backup",
                row.name,
                row.user or "the hall",
                error,
            )

    def _opening(self, row: SecretRow) -> Held:
        """Tried once: from then on it opens."""
        key = self.keys.get(row.dek)
        if key is None:
            raise UnknownKey("its data key is not there")
        held = Held(row, key)
        held.plain()
        return held


def sealed_row(row: SecretRow, key: OpenKey, plain: bytes) -> SecretRow:
    """The row with this value, which opens in this row only."""
    return msgspec.structs.replace(row, dek=key.kept.id, sealed=key.seal(plain, *_bound(row)))


def _bound(row: SecretRow) -> tuple[str, ...]:
    """Whose, what, which and where; the tenant and the version are the key's part."""
    return (row.user or "", "secret", row.name, row.id)
