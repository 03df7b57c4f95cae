"""Vault: sets, reads, rotates and shreds the secrets of a hall; RecordSealer encrypts records of other stores.

A vault does not open while something is stored that no available key decrypts: a hall must not seem to have no secrets.
Rotation is one transaction, and the old and the new key are both kept until it is done.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from toolhall.model.secret import Secret
from toolhall.stores.common import Stale, StoreFailed
from toolhall.stores.vault.envelope import DecryptionFailed, Envelope, UnknownKey, UnwrappedKey, data_key_id
from toolhall.stores.vault.key_sources import KeyEncryptionKeys, NoKey
from toolhall.stores.vault.store import (
    DataKey,
    KeyUse,
    MemoryVaultStore,
    SecretRow,
    VaultContents,
    VaultStore,
    encode_value,
    sorted_contents,
    tenant_of,
    validate_name,
    validate_user,
)

_log = logging.getLogger("toolhall.vault")


class CachedSecret:
    """One secret, sealed; opened only until then."""

    __slots__ = ("_key", "expires_at", "row", "secret")

    def __init__(self, row: SecretRow, key: UnwrappedKey) -> None:
        self.row = row
        self._key = key
        self.secret: Secret | None = None
        self.expires_at = 0.0

    def decrypt(self) -> bytes:
        """The value; raises Unopened."""
        return self._key.open(self.row.sealed, *_row_context(self.row))


class VaultCache:
    """Made anew from what is stored with every change; of `before` is taken what is the same still.

    What does not open is logged; it is held by nobody, and nothing is found in its place.
    """

    def __init__(self, stored: VaultContents, envelope: Envelope | None, previous: "VaultCache | None" = None) -> None:
        self.keys: dict[str, UnwrappedKey] = {}
        self.newest_keys: dict[tuple[str, KeyUse], UnwrappedKey] = {}  # of a tenant's keys, the newest
        self.secrets: dict[tuple[str, str | None], CachedSecret] = {}
        self._undecryptable = {(row.name, row.user) for row in stored.altered}
        keys, held = ({}, {}) if previous is None else (previous.keys, previous.secrets)
        if envelope is not None:
            for key in stored.keys:
                self._add_key(key, envelope, keys.get(key.id))
        for row in stored.rows:
            self._add_secret(row, held.get((row.name, row.user)))

    def find(self, name: str, user: str | None) -> CachedSecret | None:
        """The user's own, else the hall's; None if the user's own does not open."""
        own = self.secrets.get((name, user))
        return self.secrets.get((name, None)) if own is None and (name, user) not in self._undecryptable else own

    def evict(self, is_expired: Callable[[CachedSecret], bool]) -> bool:
        """Close what is ended; whether anything is open still."""
        open_now = [held for held in self.secrets.values() if held.secret is not None]
        for held in open_now:
            if is_expired(held):
                held.secret = None
        return any(held.secret is not None for held in open_now)

    def _add_key(self, key: DataKey, envelope: Envelope, before: UnwrappedKey | None) -> None:
        try:
            opened = before if before is not None and before.stored == key else envelope.unwrap(key)
            self.keys[key.id] = self.newest_keys[key.tenant, key.use] = opened
        except DecryptionFailed as error:
            _log.error("the data key %s of %s is left out: %s; restore a backup", key.id, key.tenant, error)

    def _add_secret(self, row: SecretRow, before: CachedSecret | None) -> None:
        if before is not None and before.row == row and row.dek in self.keys:
            self.secrets[row.name, row.user] = before  # with what was opened and worked out from it
            return
        try:
            self.secrets[row.name, row.user] = self._decryptable(row)
        except DecryptionFailed as error:
            self._undecryptable.add((row.name, row.user))
            _log.error(
                "the secret %s of %s is refused: %s; set it anew, or restore a backup",
                row.name,
                row.user or "the hall",
                error,
            )

    def _decryptable(self, row: SecretRow) -> CachedSecret:
        """Tried once: from then on it opens."""
        key = self.keys.get(row.dek)
        if key is None:
            raise UnknownKey("its data key is not there")
        held = CachedSecret(row, key)
        held.decrypt()
        return held


def encrypt_row(row: SecretRow, key: UnwrappedKey, plaintext: bytes) -> SecretRow:
    """The row with this value, which opens in this row only."""
    return msgspec.structs.replace(row, dek=key.stored.id, sealed=key.seal(plaintext, *_row_context(row)))


def _row_context(row: SecretRow) -> tuple[str, ...]:
    """Whose, what, which and where; the tenant and the version are the key's part."""
    return (row.user or "", "secret", row.name, row.id)


class RecordSealer:
    """For one tenant; `bound` says what a record is, and it opens for exactly that only."""

    def __init__(self, tenant: str, cache: Callable[[], VaultCache], refresh: Callable[[], Awaitable[None]]) -> None:
        self._tenant = tenant
        self._cache = cache
        self._refresh = refresh

    def seal(self, plaintext: bytes, *context: str) -> bytes:
        """Sealed with the tenant's newest key; raises StoreFailed if that was shredded since."""
        key = self._cache().newest_keys.get((self._tenant, "records"))
        if key is None:
            raise StoreFailed("the keys of its owner were shredded just now; try again")
        return key.seal(plaintext, *context)

    def open(self, sealed: bytes, *context: str) -> bytes:
        """What was sealed for exactly this; raises Unopened."""
        key = self._cache().keys.get(data_key_id(sealed))
        if key is None or (key.stored.tenant, key.stored.use) != (self._tenant, "records"):
            raise UnknownKey("the key that sealed it is not here")
        return key.open(sealed, *context)

    async def open_with_refresh(self, sealed: bytes, *context: str) -> bytes:
        """The same, also for what another process sealed with a key that it has just made."""
        try:
            return self.open(sealed, *context)
        except UnknownKey:
            await self._refresh()
            return self.open(sealed, *context)


_GIVE_UP_HELP = (
    "; if it is lost for good, 'toolhall secret remove --lost', with this hall's --data, forgets what it sealed"
)


def envelope_of(keks: KeyEncryptionKeys | NoKey) -> Envelope | None:
    """None where there is no key."""
    return Envelope(keks.keys) if isinstance(keks, KeyEncryptionKeys) else None


def has_orphans(stored: VaultContents, keks: KeyEncryptionKeys | NoKey) -> bool:
    """Whether something is stored that no key here opens."""
    return without_orphans(stored, keks).keys != stored.keys or (isinstance(keks, NoKey) and bool(stored.rows))


def check_no_orphans(stored: VaultContents, keks: KeyEncryptionKeys | NoKey) -> None:
    """Raise StoreFailed, with the fix, if something is stored that no key here opens."""
    if not has_orphans(stored, keks):
        return
    if isinstance(keks, NoKey):
        raise StoreFailed(
            f"secrets are kept here, and the key that opens them is not: put it back; {keks.fix}{_GIVE_UP_HELP}"
        )
    missing = sorted({key.kek for key in stored.keys} - {key.kek for key in without_orphans(stored, keks).keys})
    raise StoreFailed(
        f"secrets are kept here that another vault key sealed ({', '.join(missing)}): put that one back, behind the one"
        f" that is there now; both open then, and 'toolhall secret rotate' makes the old one needless{_GIVE_UP_HELP}"
    )


def without_orphans(stored: VaultContents, keks: KeyEncryptionKeys | NoKey) -> VaultContents:
    """What is left when all is given up that no key here opens."""
    envelope = envelope_of(keks)
    keys = tuple(key for key in stored.keys if envelope is not None and envelope.can_unwrap(key))
    ids = {key.id for key in keys}
    return VaultContents(keys, tuple(row for row in stored.rows if row.dek in ids))


_TICK_SECONDS = 0.001


def rotated_contents(stored: VaultContents, cache: VaultCache, envelope: Envelope, now: float) -> VaultContents:
    """Every secret sealed anew with new data keys, and all keys wrapped with the envelope's first one.

    Keys for records of others stay, since those records are not known here; but what is sealed from now on is sealed
    with new ones. A key that does not open is good for nothing, and goes.
    """
    tenants = {tenant_of(held.row.user) for held in cache.secrets.values()}
    new = {tenant: envelope.new_key(tenant, "secrets", now) for tenant in tenants}
    resealed = {
        place: encrypt_row(held.row, new[tenant_of(held.row.user)], held.decrypt())
        for place, held in cache.secrets.items()
    }
    old = [envelope.rewrap(key) for key in cache.keys.values() if key.stored.use == "records"]
    # The newest key seals, also if the clock was set back.
    later = max([now, *(key.stored.created_at + _TICK_SECONDS for key in old)])
    more = [envelope.new_key(tenant, "records", later) for tenant in {key.stored.tenant for key in old}]
    keys = [key.stored for key in (*new.values(), *old, *more)]
    return sorted_contents(keys, [resealed.get((row.name, row.user), row) for row in stored.rows])


CACHE_SECONDS = 60.0
KEY_LIFETIME_SECONDS = 365 * 86_400.0  # a data key seals for a year, and opens for ever
_MAX_ATTEMPTS = 10
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

    def __init__(self, keks: KeyEncryptionKeys | NoKey, clock: Callable[[], float] = time.time) -> None:
        self._keks = keks
        self._clock = clock
        self._store: VaultStore = MemoryVaultStore()
        self._contents = VaultContents()
        self._cache = VaultCache(self._contents, None)
        self._write_lock = asyncio.Lock()
        self._eviction_timer: asyncio.TimerHandle | None = None
        self._timer_loop: asyncio.AbstractEventLoop | None = None  # in which the alarm rings

    async def open(self, store: VaultStore) -> None:
        """Bring back what there is; raises StoreFailed where secrets are and the key that opens them is not."""
        self._store = store
        await self.refresh()

    def close(self) -> None:
        """Forget what was opened."""
        self._cache.evict(lambda _: True)
        if self._eviction_timer is not None:
            self._eviction_timer.cancel()
            self._eviction_timer = None

    def get(self, name: str, user: str | None = None) -> Secret | None:
        """The user's own, else the hall's; the same object for a while, with whatever was worked out from it."""
        held = self._cache.find(name, user)
        if held is None:
            return None
        if held.secret is not None and self._clock() < held.expires_at:
            return held.secret
        return self._decrypt(held)

    async def list(self) -> tuple[SecretInfo, ...]:
        """What there is, what was made first first, then what was altered; never a value."""
        return tuple(self._info(row) for row in (*self._contents.rows, *self._contents.altered))

    async def set(self, name: str, value: Secret, user: str | None, by: str) -> None:
        """Keep it in place of the one of this name; raises Malformed, or StoreFailed."""
        wanted = (validate_name(name), encode_value(value), validate_user(user))
        await self._exclusive(self._retry_stale(lambda: self._set(*wanted, by)))

    async def remove(self, name: str, user: str | None = None) -> bool:
        """Forget it; False if there is none."""
        return await self._exclusive(self._remove(name, user))

    async def shred(self, tenant: str) -> bool:
        """Forget a tenant's secrets and keys: whatever was sealed for it, also in backups of rows, is gone."""
        return await self._exclusive(self._shred(tenant))

    async def refresh(self) -> None:
        """Take over what other processes changed; raises StoreFailed."""
        await self._exclusive(self._reload())

    async def rotate(self, new: str | None = None) -> int:
        """Seal everything anew under the first key, or under this new one, which then is the only one.

        It is one transaction. A new key is kept beside the old one before and until it is done, so that whenever this
        is interrupted, everything opens. Returns how many secrets there are.
        """
        return await self._exclusive(self._rotate(new))

    async def remove_orphans(self, store: VaultStore) -> int:
        """Forget whatever no key here opens, since its key is lost for good; returns how many secrets that were."""
        before = await store.all()
        after = without_orphans(before, self._keks)
        await store.replace_data_keys(before, after)
        return len(before.rows) - len(after.rows)

    async def sealer(self, tenant: str) -> RecordSealer:
        """What seals the records of others for this tenant; raises StoreFailed."""
        if self._is_key_due(self._cache.newest_keys.get((tenant, "records"))):
            await self._exclusive(self._retry_stale(lambda: self._add_key(tenant)))
        return RecordSealer(tenant, lambda: self._cache, self.refresh)

    def _decrypt(self, held: CachedSecret) -> Secret:
        held.secret = Secret(held.decrypt().decode())
        held.expires_at = self._clock() + CACHE_SECONDS
        self._schedule_eviction()
        return held.secret

    def _schedule_eviction(self) -> None:
        """Nothing stays open for longer, whether somebody asks again or not."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop nothing runs later; the next one who asks opens it anew
        if self._eviction_timer is None or self._timer_loop is not loop:
            self._timer_loop, self._eviction_timer = loop, loop.call_later(CACHE_SECONDS, self._evict_expired)

    def _evict_expired(self) -> None:
        now = self._clock()
        self._eviction_timer = None
        if self._cache.evict(lambda held: held.expires_at <= now):
            self._schedule_eviction()

    def _info(self, row: SecretRow) -> SecretInfo:
        usable = (row.name, row.user) in self._cache.secrets
        return SecretInfo(
            name=row.name,
            user=row.user,
            hint=row.hint,
            by=row.by,
            created_at=row.created_at,
            changed_at=row.changed_at,
            usable=usable,
        )

    async def _exclusive(self, change: Coroutine[Any, Any, _T]) -> _T:
        """One change at a time; it is finished even if nobody waits for it any more."""

        async def run() -> _T:
            async with self._write_lock:
                return await change

        return await asyncio.shield(asyncio.ensure_future(run()))

    async def _retry_stale(self, change: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Again, if another process was faster; a change begins with reading what is there."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                return await change()
            except Stale:
                continue
        raise StoreFailed("other processes change the vault all the time; try again later")

    async def _reload(self) -> None:
        stored = await self._store.all()
        if stored == self._contents:
            return
        if has_orphans(stored, self._keks):  # another process may have made the key, or put a new one first
            self._keks = await asyncio.to_thread(self._keks.reload)
            check_no_orphans(stored, self._keks)
        self._cache = VaultCache(stored, envelope_of(self._keks), self._cache)
        self._contents = stored

    async def _set(self, name: str, plaintext: bytes, user: str | None, by: str) -> None:
        await self._reload()
        key, is_new = await self._current_key(tenant_of(user), "secrets")
        now = self._clock()
        before = next((row for row in self._contents.rows if (row.name, row.user) == (name, user)), None)
        row = SecretRow(
            id=secrets.token_hex(8),
            name=name,
            user=user,
            sealed=b"",
            dek=key.stored.id,
            hint=key.hint(plaintext, name),
            by=by,
            created_at=before.created_at if before else now,
            changed_at=now,
        )
        await self._store.put(encrypt_row(row, key, plaintext), key.stored if is_new else None)
        await self._after_store(key if is_new else None)

    async def _remove(self, name: str, user: str | None) -> bool:
        found = await self._store.remove(name, user)
        await self._reload()
        return found

    async def _shred(self, tenant: str) -> bool:
        found = await self._store.shred(tenant)
        await self._reload()
        return found

    async def _add_key(self, tenant: str) -> None:
        await self._reload()
        key, is_new = await self._current_key(tenant, "records")
        if is_new:
            await self._store.add_data_key(key.stored)
            await self._after_store(key)

    async def _after_store(self, new: UnwrappedKey | None) -> None:
        """Go on with what is stored now, perhaps with a new data key in it.

        Another process may have begun to use another vault key just before, and be about to drop the one that wraps
        this data key. Whichever comes second sees what the other one did: here, or in `_rotate`.
        """
        if new is not None and (await self._load_keks()).primary_id != new.stored.kek:
            await self._retry_stale(lambda: self._rewrap(new))
        await self._reload()

    async def _rewrap(self, new: UnwrappedKey) -> None:
        before = await self._store.all()
        again = Envelope((await self._load_keks()).keys).rewrap(new).stored
        keys = tuple(again if key == new.stored else key for key in before.keys)
        await self._store.replace_data_keys(before, VaultContents(keys, before.rows))

    async def _rotate(self, new: str | None) -> int:
        keks = await self._load_keks()
        if new is None:
            await self._retry_stale(self._reencrypt)
            return len(self._contents.rows)
        self._keks = both = await asyncio.to_thread(keks.prepend, new)
        await self._retry_stale(self._reencrypt)
        while any(key.kek != both.primary_id for key in self._contents.keys):  # another process stored one meanwhile
            await self._retry_stale(self._reencrypt)
        self._keks = await asyncio.to_thread(both.keep_primary)
        return len(self._contents.rows)

    async def _reencrypt(self) -> None:
        await self._reload()
        after = rotated_contents(self._contents, self._cache, Envelope((await self._load_keks()).keys), self._clock())
        await self._store.replace_data_keys(self._contents, after)
        await self._reload()

    async def _current_key(self, tenant: str, use: KeyUse) -> tuple[UnwrappedKey, bool]:
        """The key that seals now, and whether it is new, so that it must be stored too."""
        key = self._cache.newest_keys.get((tenant, use))
        if key is not None and not self._is_key_due(key):
            return key, False
        keks = await self._load_keks()
        return Envelope(keks.keys).new_key(tenant, use, self._clock()), True

    def _is_key_due(self, key: UnwrappedKey | None) -> bool:
        return key is None or key.stored.created_at + KEY_LIFETIME_SECONDS <= self._clock()

    async def _load_keks(self) -> KeyEncryptionKeys:
        """The keys as they are kept now, made if there never were any and that is allowed; raises StoreFailed."""
        found = await asyncio.to_thread(self._keks.reload)
        if isinstance(found, NoKey):
            if isinstance(self._keks, KeyEncryptionKeys):
                raise StoreFailed("the vault's key is gone from where it was kept; put it back, then try again")
            found = await asyncio.to_thread(found.create)
        self._keks = found
        return found
