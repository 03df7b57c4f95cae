"""Sealed secrets in memory: for halls without a data folder, and the oracle that every other engine must equal."""

from toolhall.stores.base import Stale
from toolhall.stores.storable import refuse_unstorable_row
from toolhall.stores.vault.base import Contents, DataKey, SecretRow, contents, tenant_of


class MemoryVault:
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        self._keys: dict[str, DataKey] = {}
        self._rows: dict[tuple[str, str | None], SecretRow] = {}

    async def all(self) -> Contents:
        """Every data key and every secret, what was made first first."""
        return self._contents()

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        """Keep it in place of the one of its name and user, with its data key if that is new; raises Stale."""
        refuse_unstorable_row(row)
        if key is not None:
            self._refuse_taken(key)
        if row.dek not in self._keys and (key is None or key.id != row.dek):
            raise Stale([row.name])
        if key is not None:
            self._keys[key.id] = key
        self._rows[row.name, row.user] = row
        self._tidy()

    async def remove(self, name: str, user: str | None) -> bool:
        """Forget it, and a data key that seals no other secret with it; False if there is none."""
        found = self._rows.pop((name, user), None) is not None
        self._tidy()
        return found

    async def add_data_key(self, key: DataKey) -> None:
        """Keep a new data key; raises Stale if its id is taken."""
        self._refuse_taken(key)
        self._keys[key.id] = key

    async def replace_data_keys(self, before: Contents, after: Contents) -> None:
        """Put one in place of the other, whole or not at all; raises Stale unless `before` is what is there."""
        for each in (*after.keys, *after.rows):
            refuse_unstorable_row(each)
        if before != self._contents():
            raise Stale(["vault"])
        self._keys = {key.id: key for key in after.keys}
        self._rows = {(row.name, row.user): row for row in after.rows}

    async def shred(self, tenant: str) -> bool:
        """Forget a tenant's data keys and secrets: what they sealed opens never again; False if there are none."""
        before = self._contents()
        self._keys = {name: key for name, key in self._keys.items() if key.tenant != tenant}
        self._rows = {place: row for place, row in self._rows.items() if tenant_of(row.user) != tenant}
        return before != self._contents()

    def _contents(self) -> Contents:
        return contents(self._keys.values(), self._rows.values())

    def _refuse_taken(self, key: DataKey) -> None:
        refuse_unstorable_row(key)
        if key.id in self._keys:
            raise Stale([key.id])

    def _tidy(self) -> None:
        """Forget the keys of secrets that seal none; one for records of others may seal what is not known here."""
        used = {row.dek for row in self._rows.values()}
        self._keys = {name: key for name, key in self._keys.items() if key.use == "records" or name in used}
