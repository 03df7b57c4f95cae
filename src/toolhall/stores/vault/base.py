"""What is remembered of secrets, and the small protocol that every engine keeps; all values are sealed."""

from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

# Half a surrogate pair has no UTF-8, and PostgreSQL keeps no NUL; so no engine does.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]+\Z", max_length=512)]
_Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]
Use: TypeAlias = Literal["secrets", "records"]  # what a data key seals: rows of this store, or of others


class DataKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that seals what belongs to one tenant; it is itself sealed, by the key-encryption key `kek`."""

    id: _Text
    tenant: _Text
    use: Use
    kek: _Text
    wrapped: bytes
    created_at: _Moment


class SecretRow(msgspec.Struct, frozen=True, kw_only=True):
    """One secret, of the hall or of one user; there is one of a name for each."""

    id: _Text
    name: _Text
    user: _Text | None = None
    sealed: bytes
    dek: _Text
    hint: _Text  # another one when the value is another; says nothing else of it
    by: _Text
    created_at: _Moment
    changed_at: _Moment


class Contents(msgspec.Struct, frozen=True):
    """Everything, as it was at one moment."""

    keys: tuple[DataKey, ...] = ()
    rows: tuple[SecretRow, ...] = ()
    altered: tuple[SecretRow, ...] = ()  # not as they were stored: believed in nothing, yet nothing takes their place


class VaultReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self) -> Contents:
        """Every data key and every secret, what was made first first."""
        ...


class VaultStore(VaultReader, Protocol):
    """A change is there whole once its call has returned."""

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        """Keep it in place of the one of its name and user, with its data key if that is new; raises Stale.

        It is stale if its data key is not there: then somebody else changed all keys since.
        """
        ...

    async def remove(self, name: str, user: str | None) -> bool:
        """Forget it, and a data key that seals no other secret with it; False if there is none."""
        ...

    async def add_data_key(self, key: DataKey) -> None:
        """Keep a new data key; raises Stale if its id is taken."""
        ...

    async def replace_data_keys(self, before: Contents, after: Contents) -> None:
        """Put one in place of the other, whole or not at all; raises Stale unless `before` is what is there.

        What was altered stays as it is, as evidence.
        """
        ...

    async def shred(self, tenant: str) -> bool:
        """Forget a tenant's data keys and secrets: what they sealed opens never again; False if there are none."""
        ...


def tenant_of(user: str | None) -> str:
    """Whose data key seals what belongs to this user, or to the hall."""
    return "hall" if user is None else f"user:{user}"


def contents(keys: Iterable[DataKey], rows: Iterable[SecretRow], altered: Iterable[SecretRow] = ()) -> Contents:
    """As every store lists them."""
    return Contents(
        tuple(sorted(keys, key=lambda each: (each.created_at, each.id))),
        tuple(sorted(rows, key=lambda each: (each.created_at, each.id))),
        tuple(sorted(altered, key=lambda each: (each.created_at, each.id))),
    )
