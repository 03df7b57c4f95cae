"""Vault: sets, reads, rotates and shreds the secrets of a hall; RecordSealer encrypts records of other stores.

Theory of operation (see envelope for the ciphers). The store holds encrypted rows and wrapped data keys. VaultCache
unwraps all data keys and tests that every secret decrypts, but keeps no plaintext: `get` decrypts a secret when it is
used and drops it CACHE_SECONDS later. A user's secret that does not decrypt is refused; the hall's secret of that name
never takes its place. A vault does not open while something is stored that no available key decrypts, because a hall
must not seem to have no secrets.

Several processes may share the store. Every change reads the store first and is retried if another process was faster
(Stale). Rotation is one transaction. With a new key-encryption key it takes three steps: store the new key before the
old one, rotate until no data key is wrapped by the old one, and only then drop the old one; whenever that is
interrupted, everything decrypts. A process that stores a data key meanwhile checks afterwards whether the
key-encryption key has changed, and wraps it again (_after_store).
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from toolhall.concurrency import shielded_exclusive
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
_GIVE_UP_HELP = (
    "; if it is lost for good, 'toolhall secret remove --lost', with this hall's --data, removes what it encrypted"
)
_TICK_SECONDS = 0.001
CACHE_SECONDS = 60.0
KEY_LIFETIME_SECONDS = 365 * 86_400.0  # a data key encrypts for a year, and decrypts for ever
_MAX_ATTEMPTS = 10
_T = TypeVar("_T")


class CachedSecret:
    """One secret, decrypted for a limited time only."""

    __slots__ = ("_key", "expires_at", "row", "secret")

    def __init__(self, row: SecretRow, key: UnwrappedKey) -> None:
        self.row = row
        self._key = key
        self.secret: Secret | None = None
        self.expires_at = 0.0

    def decrypt(self) -> bytes:
        """Decrypt the value; raises DecryptionFailed."""
        return self._key.open(self.row.sealed, *_row_context(self.row))


class VaultCache:
    """Unwrapped data keys and decryptable secrets; rebuilt with every change, reusing unchanged parts of `previous`.

    A secret that does not decrypt is logged and refused; no other secret is found in its place.
    """

    def __init__(self, stored: VaultContents, envelope: Envelope | None, previous: "VaultCache | None" = None) -> None:
        self.keys: dict[str, UnwrappedKey] = {}
        self.newest_keys: dict[tuple[str, KeyUse], UnwrappedKey] = {}  # the newest key of each tenant and use
        self.secrets: dict[tuple[str, str | None], CachedSecret] = {}
        self._undecryptable = {(row.name, row.user) for row in stored.altered}
        keys, cached = ({}, {}) if previous is None else (previous.keys, previous.secrets)
        if envelope is not None:
            for key in stored.keys:
                self._add_key(key, envelope, keys.get(key.id))
        for row in stored.rows:
            self._add_secret(row, cached.get((row.name, row.user)))

    def find(self, name: str, user: str | None) -> CachedSecret | None:
        """Return the user's secret, else the hall's; None if the user's own cannot be decrypted."""
        own = self.secrets.get((name, user))
        return self.secrets.get((name, None)) if own is None and (name, user) not in self._undecryptable else own

    def evict(self, is_expired: Callable[[CachedSecret], bool]) -> bool:
        """Drop decrypted values that have expired; return True if any other is left."""
        decrypted = [each for each in self.secrets.values() if each.secret is not None]
        for each in decrypted:
            if is_expired(each):
                each.secret = None
        return any(each.secret is not None for each in decrypted)

    def _add_key(self, key: DataKey, envelope: Envelope, before: UnwrappedKey | None) -> None:
        try:
            unwrapped = before if before is not None and before.stored == key else envelope.unwrap(key)
            self.keys[key.id] = self.newest_keys[key.tenant, key.use] = unwrapped
        except DecryptionFailed as error:
            _log.error("the data key %s of %s is left out: %s; restore a backup", key.id, key.tenant, error)

    def _add_secret(self, row: SecretRow, before: CachedSecret | None) -> None:
        if before is not None and before.row == row and row.dek in self.keys:
            self.secrets[row.name, row.user] = before  # with its decrypted value and derived search forms
            return
        try:
            self.secrets[row.name, row.user] = self._decryptable(row)
        except DecryptionFailed as error:
            self._undecryptable.add((row.name, row.user))
            _log.error(
                "the secret %s of %s is refused: %s; set it again, or restore a backup",
                row.name,
                row.user or "the hall",
                error,
            )

    def _decryptable(self, row: SecretRow) -> CachedSecret:
        """Return the cached secret after decrypting it once as a test."""
        key = self.keys.get(row.dek)
        if key is None:
            raise UnknownKey("its data key is missing")
        cached = CachedSecret(row, key)
        cached.decrypt()
        return cached


def encrypt_row(row: SecretRow, key: UnwrappedKey, plaintext: bytes) -> SecretRow:
    """Return the row with the encrypted value, which can be decrypted in this row only."""
    return msgspec.structs.replace(row, dek=key.stored.id, sealed=key.seal(plaintext, *_row_context(row)))


def _row_context(row: SecretRow) -> tuple[str, ...]:
    """Return the authenticated context: user, kind, name and id; the key adds tenant, use and version."""
    return (row.user or "", "secret", row.name, row.id)


class RecordSealer:
    """Encrypts records of other stores for one tenant; `context` is authenticated."""

    def __init__(self, tenant: str, cache: Callable[[], VaultCache], refresh: Callable[[], Awaitable[None]]) -> None:
        self._tenant = tenant
        self._cache = cache
        self._refresh = refresh

    def seal(self, plaintext: bytes, *context: str) -> bytes:
        """Encrypt with the tenant's newest key; raises StoreFailed if that was shredded meanwhile."""
        key = self._cache().newest_keys.get((self._tenant, "records"))
        if key is None:
            raise StoreFailed("the keys of this tenant were shredded just now; try again")
        return key.seal(plaintext, *context)

    def open(self, sealed: bytes, *context: str) -> bytes:
        """Decrypt what was encrypted for this context; raises DecryptionFailed."""
        key = self._cache().keys.get(data_key_id(sealed))
        if key is None or (key.stored.tenant, key.stored.use) != (self._tenant, "records"):
            raise UnknownKey("the key that encrypted it is not available")
        return key.open(sealed, *context)

    async def open_with_refresh(self, sealed: bytes, *context: str) -> bytes:
        """Decrypt as `open`, reloading the vault if another process has just created the key."""
        try:
            return self.open(sealed, *context)
        except UnknownKey:
            await self._refresh()
            return self.open(sealed, *context)


def envelope_of(keks: KeyEncryptionKeys | NoKey) -> Envelope | None:
    """Return the envelope; None without a key."""
    return Envelope(keks.keys) if isinstance(keks, KeyEncryptionKeys) else None


def has_orphans(stored: VaultContents, keks: KeyEncryptionKeys | NoKey, use: KeyUse | None = None) -> bool:
    """True if something is stored that no available key decrypts; of one use, or of any."""
    kept = without_orphans(stored, keks).keys
    lost = any(key not in kept and use in (None, key.use) for key in stored.keys)
    return lost or (isinstance(keks, NoKey) and bool(stored.rows))


def check_no_orphans(stored: VaultContents, keks: KeyEncryptionKeys | NoKey) -> None:
    """Raise StoreFailed, with the fix, if something is stored that no available key decrypts."""
    if not has_orphans(stored, keks):
        return
    what = "secrets" if stored.rows else "linked accounts or long calls"
    if isinstance(keks, NoKey):
        raise StoreFailed(
            f"{what} are stored here, but the key that decrypts them is missing: restore it; {keks.fix}{_GIVE_UP_HELP}"
        )
    missing = sorted({key.kek for key in stored.keys} - {key.kek for key in without_orphans(stored, keks).keys})
    raise StoreFailed(
        f"{what} are stored here that another vault key encrypted ({', '.join(missing)}): restore that key, behind the"
        f" current one; both decrypt then, and 'toolhall secret rotate' makes the old one superfluous{_GIVE_UP_HELP}"
    )


def without_orphans(stored: VaultContents, keks: KeyEncryptionKeys | NoKey) -> VaultContents:
    """Return the contents without what no available key decrypts."""
    envelope = envelope_of(keks)
    keys = tuple(key for key in stored.keys if envelope is not None and envelope.can_unwrap(key))
    ids = {key.id for key in keys}
    return VaultContents(keys, tuple(row for row in stored.rows if row.dek in ids))


def rotated_contents(stored: VaultContents, cache: VaultCache, envelope: Envelope, now: float) -> VaultContents:
    """Return every secret encrypted again with new data keys, and all keys wrapped by the first key-encryption key.

    Keys for records of other stores stay, because those records are unknown here, but new records get new keys. A key
    that does not decrypt is dropped.
    """
    tenants = {tenant_of(each.row.user) for each in cache.secrets.values()}
    new = {tenant: envelope.new_key(tenant, "secrets", now) for tenant in tenants}
    encrypted = {
        owner: encrypt_row(each.row, new[tenant_of(each.row.user)], each.decrypt())
        for owner, each in cache.secrets.items()
    }
    old = [envelope.rewrap(key) for key in cache.keys.values() if key.stored.use == "records"]
    # The newest key encrypts, also if the clock was set back.
    later = max([now, *(key.stored.created_at + _TICK_SECONDS for key in old)])
    more = [envelope.new_key(tenant, "records", later) for tenant in {key.stored.tenant for key in old}]
    keys = [key.stored for key in (*new.values(), *old, *more)]
    return sorted_contents(keys, [encrypted.get((row.name, row.user), row) for row in stored.rows])


class SecretInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The public facts of a secret."""

    name: str
    user: str | None
    hint: str
    by: str
    created_at: float
    changed_at: float
    usable: bool = True  # False: another program changed it, so it does not decrypt


class Vault:
    """The secrets of a hall; nothing else in a process decrypts them. A change is stored before it takes effect."""

    def __init__(self, keks: KeyEncryptionKeys | NoKey, clock: Callable[[], float] = time.time) -> None:
        self._keks = keks
        self._clock = clock
        self._store: VaultStore = MemoryVaultStore()
        self._contents = VaultContents()
        self._cache = VaultCache(self._contents, None)
        self._needs_records = True
        self._write_lock = asyncio.Lock()
        self._eviction_timer: asyncio.TimerHandle | None = None
        self._timer_loop: asyncio.AbstractEventLoop | None = None  # the loop of the eviction timer
        self.on_change: Callable[[], None] = _ignore  # called with each change, also of another process

    async def open(self, store: VaultStore, *, needs_records: bool = True) -> None:
        """Load the stored secrets; raises StoreFailed if their key is missing.

        Without `needs_records` it also opens where keys of records only are missing: those records do not open.
        """
        self._store = store
        self._needs_records = needs_records
        await self.refresh()

    @property
    def missing_key(self) -> str | None:
        """Why nothing can be encrypted here, with the fix; None if it can."""
        return self._keks.fix if isinstance(self._keks, NoKey) and not self._keks.can_create else None

    def close(self) -> None:
        """Drop decrypted values."""
        self._cache.evict(lambda _: True)
        if self._eviction_timer is not None:
            self._eviction_timer.cancel()
            self._eviction_timer = None

    def get(self, name: str, user: str | None = None) -> Secret | None:
        """Return the user's secret, else the hall's; the same object for CACHE_SECONDS, with its search forms."""
        cached = self._cache.find(name, user)
        if cached is None:
            return None
        if cached.secret is not None and self._clock() < cached.expires_at:
            return cached.secret
        return self._decrypt(cached)

    async def list(self) -> tuple[SecretInfo, ...]:
        """Describe all secrets, oldest first, then altered ones; never a value."""
        return tuple(self._info(row) for row in (*self._contents.rows, *self._contents.altered))

    async def set(self, name: str, value: Secret, user: str | None, by: str) -> None:
        """Set or replace a secret; raises Malformed or StoreFailed."""
        checked = (validate_name(name), encode_value(value), validate_user(user))
        await self._exclusive(self._retry_stale(lambda: self._set(*checked, by)))

    async def remove(self, name: str, user: str | None = None) -> bool:
        """Remove it; False if there is none."""
        return await self._exclusive(self._remove(name, user))

    async def shred(self, tenant: str) -> bool:
        """Remove a tenant's secrets and keys, which makes all it encrypted unreadable, also in backups of rows."""
        return await self._exclusive(self._shred(tenant))

    async def refresh(self) -> None:
        """Reload what other processes changed; raises StoreFailed."""
        await self._exclusive(self._reload())

    async def rotate(self, new: str | None = None) -> int:
        """Encrypt everything again under the first key, or under this new one, which then is the only one.

        It is one transaction. A new key is stored beside the old one until it is done, so that everything decrypts
        whenever this is interrupted. Returns the number of secrets.
        """
        return await self._exclusive(self._rotate(new))

    async def remove_orphans(self, store: VaultStore) -> int:
        """Remove what no available key decrypts, because its key is lost; return the number of removed secrets."""
        before = await store.all()
        after = without_orphans(before, self._keks)
        await store.replace_data_keys(before, after)
        return len(before.rows) - len(after.rows)

    async def sealer(self, tenant: str) -> RecordSealer:
        """Return the sealer for records of this tenant, creating or renewing its data key; raises StoreFailed."""
        if self._is_key_due(self._cache.newest_keys.get((tenant, "records"))):
            await self._exclusive(self._retry_stale(lambda: self._add_key(tenant)))
        return self.opener(tenant)

    def opener(self, tenant: str) -> RecordSealer:
        """Return what decrypts records of this tenant; it makes no key, so it may not be able to encrypt."""
        return RecordSealer(tenant, lambda: self._cache, self.refresh)

    def _decrypt(self, cached: CachedSecret) -> Secret:
        cached.secret = Secret(cached.decrypt().decode())
        cached.expires_at = self._clock() + CACHE_SECONDS
        self._schedule_eviction()
        return cached.secret

    def _schedule_eviction(self) -> None:
        """Schedule the removal of decrypted values, so that none stays longer than CACHE_SECONDS after its use."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop there is no timer; `get` checks expires_at
        if self._eviction_timer is None or self._timer_loop is not loop:
            self._timer_loop, self._eviction_timer = loop, loop.call_later(CACHE_SECONDS, self._evict_expired)

    def _evict_expired(self) -> None:
        now = self._clock()
        self._eviction_timer = None
        if self._cache.evict(lambda cached: cached.expires_at <= now):
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
        """Run one change at a time, to its end even if the caller is cancelled."""

        return await shielded_exclusive(self._write_lock, change)

    async def _retry_stale(self, change: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Retry a change while another process was faster; every change begins by reading the store."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                return await change()
            except Stale:
                continue
        raise StoreFailed("other processes keep changing the vault; try again later")

    async def _reload(self) -> None:
        stored = await self._store.all()
        if stored == self._contents:
            return
        if has_orphans(stored, self._keks):  # another process may have created a key or rotated
            self._keks = await asyncio.to_thread(self._keks.reload)
            if self._needs_records or has_orphans(stored, self._keks, "secrets"):
                check_no_orphans(stored, self._keks)
            elif has_orphans(stored, self._keks):
                _log.warning("long calls are stored here that do not open, because their key is missing: they fail")
        self._cache = VaultCache(stored, envelope_of(self._keks), self._cache)
        self._contents = stored
        self.on_change()

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
        """Reload after a write, and wrap a new data key again if the key-encryption key has changed meanwhile.

        Another process may be rotating and about to drop the key-encryption key that wraps this data key. Whichever
        comes second sees what the other did: here, or in `_rotate`.
        """
        if new is not None and (await self._load_keks()).primary_id != new.stored.kek:
            await self._retry_stale(lambda: self._rewrap(new))
        await self._reload()

    async def _rewrap(self, new: UnwrappedKey) -> None:
        before = await self._store.all()
        rewrapped = Envelope((await self._load_keks()).keys).rewrap(new).stored
        keys = tuple(rewrapped if key == new.stored else key for key in before.keys)
        await self._store.replace_data_keys(before, VaultContents(keys, before.rows))

    async def _rotate(self, new: str | None) -> int:
        keks = await self._load_keks()
        if new is None:
            await self._retry_stale(self._reencrypt)
            return len(self._contents.rows)
        self._keks = both = await asyncio.to_thread(keks.prepend, new)
        await self._retry_stale(self._reencrypt)
        while any(
            key.kek != both.primary_id for key in self._contents.keys
        ):  # another process stored an old one meanwhile
            await self._retry_stale(self._reencrypt)
        self._keks = await asyncio.to_thread(both.keep_primary)
        return len(self._contents.rows)

    async def _reencrypt(self) -> None:
        await self._reload()
        after = rotated_contents(self._contents, self._cache, Envelope((await self._load_keks()).keys), self._clock())
        await self._store.replace_data_keys(self._contents, after)
        await self._reload()

    async def _current_key(self, tenant: str, use: KeyUse) -> tuple[UnwrappedKey, bool]:
        """Return the tenant's current key, and True if it is new and must be stored too."""
        key = self._cache.newest_keys.get((tenant, use))
        if key is not None and not self._is_key_due(key):
            return key, False
        keks = await self._load_keks()
        return Envelope(keks.keys).new_key(tenant, use, self._clock()), True

    def _is_key_due(self, key: UnwrappedKey | None) -> bool:
        return key is None or key.stored.created_at + KEY_LIFETIME_SECONDS <= self._clock()

    async def _load_keks(self) -> KeyEncryptionKeys:
        """Reload the key-encryption keys, creating one if there never was any and it is allowed; raises StoreFailed."""
        found = await asyncio.to_thread(self._keks.reload)
        if isinstance(found, NoKey):
            if isinstance(self._keks, KeyEncryptionKeys):
                raise StoreFailed("the vault's key is gone from its source; restore it, then try again")
            found = await asyncio.to_thread(found.create)
        self._keks = found
        return found


def _ignore() -> None:
    """Take a change that nobody waits for."""
