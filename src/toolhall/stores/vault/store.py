"""Encrypted secrets as stored: SecretRow, DataKey, the VaultStore protocol, MemoryVaultStore and rules for names."""

import re
from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.secret import Secret
from toolhall.stores.common import Stale, check_storable

# A lone surrogate has no UTF-8, and PostgreSQL stores no NUL, so no engine accepts either.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]+\Z", max_length=512)]
_Timestamp: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]
KeyUse: TypeAlias = Literal["secrets", "records"]  # what a data key encrypts: rows of this store, or of others
MAX_SECRET_BYTES = 64 * 1024
_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_USER_PATTERN = re.compile(r"[^\x00\ud800-\udfff]{1,256}")


class DataKey(msgspec.Struct, frozen=True, kw_only=True):
    """A data key (DEK) of one tenant, encrypted by the key-encryption key `kek`."""

    id: _Text
    tenant: _Text
    use: KeyUse
    kek: _Text
    wrapped: bytes
    created_at: _Timestamp


class SecretRow(msgspec.Struct, frozen=True, kw_only=True):
    """One encrypted secret of the hall or of a user; names are unique per owner."""

    id: _Text
    name: _Text
    user: _Text | None = None
    sealed: bytes
    dek: _Text
    hint: _Text  # changes with the value; reveals nothing else
    by: _Text
    created_at: _Timestamp
    changed_at: _Timestamp


class VaultContents(msgspec.Struct, frozen=True):
    """A consistent snapshot of the whole vault."""

    keys: tuple[DataKey, ...] = ()
    rows: tuple[SecretRow, ...] = ()
    altered: tuple[
        SecretRow, ...
    ] = ()  # changed by another program: never used, and never replaced by the hall's secret


class VaultReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self) -> VaultContents:
        """Return all data keys and secrets, oldest first."""
        ...


class VaultStore(VaultReader, Protocol):
    """A change is atomic, and durable once its call has returned."""

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        """Replace the secret of this name and user, inserting its data key if that is new.

        Raises Stale if the data key is not stored: another process has rotated all keys meanwhile.
        """
        ...

    async def remove(self, name: str, user: str | None) -> bool:
        """Remove the secret, and its data key if that encrypts no other; False if there is none."""
        ...

    async def add_data_key(self, key: DataKey) -> None:
        """Insert a data key; raises Stale if its id is taken."""
        ...

    async def replace_data_keys(self, before: VaultContents, after: VaultContents) -> None:
        """Replace `before` by `after` in one transaction; raises Stale unless `before` is what is stored.

        Altered rows stay as they are, as evidence.
        """
        ...

    async def shred(self, tenant: str) -> bool:
        """Remove a tenant's data keys and secrets, which makes all they encrypted unreadable; False if none exist."""
        ...


def tenant_of(user: str | None) -> str:
    """Return the tenant whose data key encrypts what belongs to this user, or to the hall."""
    return "hall" if user is None else f"user:{user}"


def sorted_contents(
    keys: Iterable[DataKey], rows: Iterable[SecretRow], altered: Iterable[SecretRow] = ()
) -> VaultContents:
    """Sort as every store lists them."""
    return VaultContents(
        tuple(sorted(keys, key=lambda each: (each.created_at, each.id))),
        tuple(sorted(rows, key=lambda each: (each.created_at, each.id))),
        tuple(sorted(altered, key=lambda each: (each.created_at, each.id))),
    )


class MemoryVaultStore:
    """In-memory implementation; its content ends with the process."""

    def __init__(self) -> None:
        self._keys: dict[str, DataKey] = {}
        self._secrets: dict[tuple[str, str | None], SecretRow] = {}

    async def all(self) -> VaultContents:
        """Return all data keys and secrets, oldest first."""
        return self._contents()

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        """Replace the secret of this name and user, inserting its data key if that is new; raises Stale."""
        check_storable(row)
        if key is not None:
            self._check_new_key(key)
        if row.dek not in self._keys and (key is None or key.id != row.dek):
            raise Stale([row.name])
        if key is not None:
            self._keys[key.id] = key
        self._secrets[row.name, row.user] = row
        self._delete_unused_keys()

    async def remove(self, name: str, user: str | None) -> bool:
        """Remove the secret, and its data key if that encrypts no other; False if there is none."""
        found = self._secrets.pop((name, user), None) is not None
        self._delete_unused_keys()
        return found

    async def add_data_key(self, key: DataKey) -> None:
        """Insert a data key; raises Stale if its id is taken."""
        self._check_new_key(key)
        self._keys[key.id] = key

    async def replace_data_keys(self, before: VaultContents, after: VaultContents) -> None:
        """Replace `before` by `after` in one transaction; raises Stale unless `before` is what is stored."""
        for each in (*after.keys, *after.rows):
            check_storable(each)
        if before != self._contents():
            raise Stale(["vault"])
        self._keys = {key.id: key for key in after.keys}
        self._secrets = {(row.name, row.user): row for row in after.rows}

    async def shred(self, tenant: str) -> bool:
        """Remove a tenant's data keys and secrets, which makes all they encrypted unreadable; False if none exist."""
        before = self._contents()
        self._keys = {name: key for name, key in self._keys.items() if key.tenant != tenant}
        self._secrets = {owner: row for owner, row in self._secrets.items() if tenant_of(row.user) != tenant}
        return before != self._contents()

    def _contents(self) -> VaultContents:
        return sorted_contents(self._keys.values(), self._secrets.values())

    def _check_new_key(self, key: DataKey) -> None:
        check_storable(key)
        if key.id in self._keys:
            raise Stale([key.id])

    def _delete_unused_keys(self) -> None:
        """Delete data keys of secrets that encrypt none; the rows that keys for records encrypt are unknown here."""
        used = {row.dek for row in self._secrets.values()}
        self._keys = {name: key for name, key in self._keys.items() if key.use == "records" or name in used}


def validate_name(name: str) -> str:
    """Return the name; raises Malformed."""
    if not _NAME_PATTERN.fullmatch(name):
        raise Malformed(
            "a secret's name begins with a letter or underscore and has up to 128 letters, digits, dots, dashes and"
            " underscores, such as TWILIO_API_KEY"
        )
    return name


def validate_user(user: str | None) -> str | None:
    """Return the user's id; raises Malformed."""
    if user is not None and not _USER_PATTERN.fullmatch(user):
        raise Malformed("a user's id has 1 to 256 characters")
    return user


def encode_value(value: Secret) -> bytes:
    """Return the value as bytes; raises Malformed, whose message never contains the value."""
    try:
        plain = value.reveal().encode()
    except UnicodeEncodeError:
        raise Malformed("a secret's value is text; this one holds half a character") from None
    if len(plain) > MAX_SECRET_BYTES:
        raise Malformed(f"a secret's value has at most {MAX_SECRET_BYTES // 1024} KiB; keep files elsewhere")
    return plain
