"""The secrets of a hall: held sealed, opened in a moment for a call, and readable by nobody who lacks the key."""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from toolhall.model.secret import Secret
from toolhall.stores.base import Stale, StoreFailed
from toolhall.stores.vault.base import Contents, SecretRow, Use, VaultStore, tenant_of
from toolhall.stores.vault.envelope import Envelope, OpenKey
from toolhall.stores.vault.keys import Keks, NoKey
from toolhall.stores.vault.lost import envelope_of, lost, refuse_lost, without_lost
from toolhall.stores.vault.memory import MemoryVault
from toolhall.stores.vault.rotation import rotated
from toolhall.stores.vault.sealer import Sealer
from toolhall.stores.vault.shelf import Held, Shelf, sealed_row
from toolhall.stores.vault.words import checked_name, checked_user, checked_value

KEEP_SECONDS = 60.0
KEY_SECONDS = 365 * 86_400.0  # a data key seals for a year, and opens for ever
_TRIES = 10
_T = TypeVar("_T")


class SecretInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What may be told of a secret."""

    name: str
    user: str | None
    hint: str
    by: str
    created_at: float
    changed_at: float
    usable: bool = True  # False: it does not open, since another program changed it


class Vault:
    """The only one of a process that opens secrets; a change is remembered first, then it counts at once."""

    def __init__(self, keks: Keks | NoKey, clock: Callable[[], float] = time.time) -> None:
        self._keks = keks
        self._clock = clock
        self._store: VaultStore = MemoryVault()
        self._contents = Contents()
        self._shelf = Shelf(self._contents, None)
        self._changing = asyncio.Lock()
        self._alarm: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # in which the alarm rings

    async def open(self, store: VaultStore) -> None:
        """Bring back what there is; raises StoreFailed where secrets are and the key that opens them is not."""
        self._store = store
        await self.refresh()

    def close(self) -> None:
        """Forget what was opened."""
        self._shelf.forget(lambda _: True)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def get(self, name: str, user: str | None = None) -> Secret | None:
        """The user's own, else the hall's; the same object for a while, with whatever was worked out from it."""
        held = self._shelf.find(name, user)
        if held is None:
            return None
        if held.secret is not None and self._clock() < held.until:
            return held.secret
        return self._opened(held)

    async def list(self) -> tuple[SecretInfo, ...]:
        """What there is, what was made first first, then what was altered; never a value."""
        return tuple(self._info(row) for row in (*self._contents.rows, *self._contents.altered))

    async def set(self, name: str, value: Secret, user: str | None, by: str) -> None:
        """Keep it in place of the one of this name; raises Malformed, or StoreFailed."""
        wanted = (checked_name(name), checked_value(value), checked_user(user))
        await self._alone(self._repeated(lambda: self._set(*wanted, by)))

    async def remove(self, name: str, user: str | None = None) -> bool:
        """Forget it; False if there is none."""
        return await self._alone(self._remove(name, user))

    async def shred(self, tenant: str) -> bool:
        """Forget a tenant's secrets and keys: whatever was sealed for it, also in backups of rows, is gone."""
        return await self._alone(self._shred(tenant))

    async def refresh(self) -> None:
        """Take over what other processes changed; raises StoreFailed."""
        await self._alone(self._read_again())

    async def rotate(self, new: str | None = None) -> int:
        """Seal everything anew under the first key, or under this new one, which then is the only one.

        It is one transaction. A new key is kept beside the old one before and until it is done, so that whenever this
        is interrupted, everything opens. Returns how many secrets there are.
        """
        return await self._alone(self._rotate(new))

    async def forget_lost(self, store: VaultStore) -> int:
        """Forget whatever no key here opens, since its key is lost for good; returns how many secrets that were."""
        before = await store.all()
        after = without_lost(before, self._keks)
        await store.replace_data_keys(before, after)
        return len(before.rows) - len(after.rows)

    async def sealer(self, tenant: str) -> Sealer:
        """What seals the records of others for this tenant; raises StoreFailed."""
        if self._due(self._shelf.sealing.get((tenant, "records"))):
            await self._alone(self._repeated(lambda: self._add_key(tenant)))
        return Sealer(tenant, lambda: self._shelf, self.refresh)

    def _opened(self, held: Held) -> Secret:
        held.secret = Secret(held.plain().decode())
        held.until = self._clock() + KEEP_SECONDS
        self._forget_later()
        return held.secret

    def _forget_later(self) -> None:
        """Nothing stays open for longer, whether somebody asks again or not."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop nothing runs later; the next one who asks opens it anew
        if self._alarm is None or self._loop is not loop:
            self._loop, self._alarm = loop, loop.call_later(KEEP_SECONDS, self._forget)

    def _forget(self) -> None:
        now = self._clock()
        self._alarm = None
        if self._shelf.forget(lambda held: held.until <= now):
            self._forget_later()

    def _info(self, row: SecretRow) -> SecretInfo:
        usable = (row.name, row.user) in self._shelf.held
        return SecretInfo(
            name=row.name,
            user=row.user,
            hint=row.hint,
            by=row.by,
            created_at=row.created_at,
            changed_at=row.changed_at,
            usable=usable,
        )

    async def _alone(self, change: Coroutine[Any, Any, _T]) -> _T:
        """One change at a time; it is finished even if nobody waits for it any more."""

        async def run() -> _T:
            async with self._changing:
                return await change

        return await asyncio.shield(asyncio.ensure_future(run()))

    async def _repeated(self, change: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Again, if another process was faster; a change begins with reading what is there."""
        for _ in range(_TRIES):
            try:
                return await change()
            except Stale:
                continue
        raise StoreFailed("other processes change the vault all the time; try again later")

    async def _read_again(self) -> None:
        stored = await self._store.all()
        if stored == self._contents:
            return
        if lost(stored, self._keks):  # another process may have made the key, or put a new one first
            self._keks = await asyncio.to_thread(self._keks.again)
            refuse_lost(stored, self._keks)
        self._shelf = Shelf(stored, envelope_of(self._keks), self._shelf)
        self._contents = stored

    async def _set(self, name: str, plain: bytes, user: str | None, by: str) -> None:
        await self._read_again()
        key, is_new = await self._sealing(tenant_of(user), "secrets")
        now = self._clock()
        before = next((row for row in self._contents.rows if (row.name, row.user) == (name, user)), None)
        row = SecretRow(
            id=secrets.token_hex(8),
            name=name,
            user=user,
            sealed=b"",
            dek=key.kept.id,
            hint=key.hint(plain, name),
            by=by,
            created_at=before.created_at if before else now,
            changed_at=now,
        )
        await self._store.put(sealed_row(row, key, plain), key.kept if is_new else None)
        await self._stored(key if is_new else None)

    async def _remove(self, name: str, user: str | None) -> bool:
        found = await self._store.remove(name, user)
        await self._read_again()
        return found

    async def _shred(self, tenant: str) -> bool:
        found = await self._store.shred(tenant)
        await self._read_again()
        return found

    async def _add_key(self, tenant: str) -> None:
        await self._read_again()
        key, is_new = await self._sealing(tenant, "records")
        if is_new:
            await self._store.add_data_key(key.kept)
            await self._stored(key)

    async def _stored(self, new: OpenKey | None) -> None:
        """Go on with what is stored now, perhaps with a new data key in it.

        Another process may have begun to use another vault key just before, and be about to drop the one that wraps
        this data key. Whichever comes second sees what the other one did: here, or in `_rotate`.
        """
        if new is not None and (await self._kept_keks()).first != new.kept.kek:
            await self._repeated(lambda: self._rewrap(new))
        await self._read_again()

    async def _rewrap(self, new: OpenKey) -> None:
        before = await self._store.all()
        again = Envelope((await self._kept_keks()).keys).rewrap(new).kept
        keys = tuple(again if key == new.kept else key for key in before.keys)
        await self._store.replace_data_keys(before, Contents(keys, before.rows))

    async def _rotate(self, new: str | None) -> int:
        keks = await self._kept_keks()
        if new is None:
            await self._repeated(self._reseal)
            return len(self._contents.rows)
        self._keks = both = await asyncio.to_thread(keks.before_these, new)
        await self._repeated(self._reseal)
        while any(key.kek != both.first for key in self._contents.keys):  # another process stored one meanwhile
            await self._repeated(self._reseal)
        self._keks = await asyncio.to_thread(both.only_first)
        return len(self._contents.rows)

    async def _reseal(self) -> None:
        await self._read_again()
        after = rotated(self._contents, self._shelf, Envelope((await self._kept_keks()).keys), self._clock())
        await self._store.replace_data_keys(self._contents, after)
        await self._read_again()

    async def _sealing(self, tenant: str, use: Use) -> tuple[OpenKey, bool]:
        """The key that seals now, and whether it is new, so that it must be stored too."""
        key = self._shelf.sealing.get((tenant, use))
        if key is not None and not self._due(key):
            return key, False
        keks = await self._kept_keks()
        return Envelope(keks.keys).new_key(tenant, use, self._clock()), True

    def _due(self, key: OpenKey | None) -> bool:
        return key is None or key.kept.created_at + KEY_SECONDS <= self._clock()

    async def _kept_keks(self) -> Keks:
        """The keys as they are kept now, made if there never were any and that is allowed; raises StoreFailed."""
        found = await asyncio.to_thread(self._keks.again)
        if isinstance(found, NoKey):
            if isinstance(self._keks, Keks):
                raise StoreFailed("the vault's key is gone from where it was kept; put it back, then try again")
            found = await asyncio.to_thread(found.made)
        self._keks = found
        return found
