"""What is sealed with a key that is not here: a hall does not start with it, rather than seem to have no secrets."""

from toolhall.stores.base import StoreFailed
from toolhall.stores.vault.base import Contents
from toolhall.stores.vault.envelope import Envelope
from toolhall.stores.vault.keys import Keks, NoKey

_GIVE_UP = "; if it is lost for good, 'toolhall secret remove --lost', with this hall's --data, forgets what it sealed"


def envelope_of(keks: Keks | NoKey) -> Envelope | None:
    """None where there is no key."""
    return Envelope(keks.keys) if isinstance(keks, Keks) else None


def lost(stored: Contents, keks: Keks | NoKey) -> bool:
    """Whether something is stored that no key here opens."""
    return without_lost(stored, keks).keys != stored.keys or (isinstance(keks, NoKey) and bool(stored.rows))


def refuse_lost(stored: Contents, keks: Keks | NoKey) -> None:
    """Raise StoreFailed, with the fix, if something is stored that no key here opens."""
    if not lost(stored, keks):
        return
    if isinstance(keks, NoKey):
        raise StoreFailed(
            f"secrets are kept here, and the key that opens them is not: put it back; {keks.fix}{_GIVE_UP}"
        )
    missing = sorted({key.kek for key in stored.keys} - {key.kek for key in without_lost(stored, keks).keys})
    raise StoreFailed(
        f"secrets are kept here that another vault key sealed ({', '.join(missing)}): put that one back, behind the one"
        f" that is there now; both open then, and 'toolhall secret rotate' makes the old one needless{_GIVE_UP}"
    )


def without_lost(stored: Contents, keks: Keks | NoKey) -> Contents:
    """What is left when all is given up that no key here opens."""
    envelope = envelope_of(keks)
    keys = tuple(key for key in stored.keys if envelope is not None and envelope.knows(key))
    ids = {key.id for key in keys}
    return Contents(keys, tuple(row for row in stored.rows if row.dek in ids))
