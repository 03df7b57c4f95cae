"""What is stored after the keys of a vault were changed."""

from toolhall.stores.vault.base import Contents, contents, tenant_of
from toolhall.stores.vault.envelope import Envelope
from toolhall.stores.vault.shelf import Shelf, sealed_row

_TICK = 0.001


def rotated(stored: Contents, shelf: Shelf, envelope: Envelope, now: float) -> Contents:
    """Every secret sealed anew with new data keys, and all keys wrapped with the envelope's first one.

    Keys for records of others stay, since those records are not known here; but what is sealed from now on is sealed
    with new ones. A key that does not open is good for nothing, and goes.
    """
    tenants = {tenant_of(held.row.user) for held in shelf.held.values()}
    new = {tenant: envelope.new_key(tenant, "secrets", now) for tenant in tenants}
    resealed = {
        place: sealed_row(held.row, new[tenant_of(held.row.user)], held.plain()) for place, held in shelf.held.items()
    }
    old = [envelope.rewrap(key) for key in shelf.keys.values() if key.kept.use == "records"]
    # The newest key seals, also if the clock was set back.
    later = max([now, *(key.kept.created_at + _TICK for key in old)])
    more = [envelope.new_key(tenant, "records", later) for tenant in {key.kept.tenant for key in old}]
    keys = [key.kept for key in (*new.values(), *old, *more)]
    return contents(keys, [resealed.get((row.name, row.user), row) for row in stored.rows])
