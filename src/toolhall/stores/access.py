"""API keys and grants: records, store protocols and in-memory stores, the `tk_…` token format, and the KeyRing.

A store keeps an HMAC of each secret, never the secret. KeyRing holds all keys in memory, compares in constant time
and collects the times of last use, which its owner writes to the store now and then.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import string
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Annotated, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.json import Json
from toolhall.model.secret import Secret
from toolhall.stores.common import Stale, check_storable
from toolhall.stores.crypto import API_KEYS_PURPOSE, derive_key

_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=256)]
_Timestamp: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID_LENGTH = 12
_SECRET_BYTES = 32
_CHECK_LENGTH = 6
_TOKEN_PATTERN = re.compile(r"(tk_([0-9A-Za-z]{12})_([0-9A-Za-z_-]{43}))_([0-9A-Za-z]{6})", re.ASCII)
MAX_CACHED_TOKENS = 10_000
USE_FLUSH_SECONDS = 60.0
_NEVER = float("inf")
_log = logging.getLogger("toolhall.keys")


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One API key: its owner, its scopes and an HMAC of its secret; the secret itself is not stored."""

    id: _Text
    name: _Text  # the caller's id; several keys of one name are one caller
    owner: _Text | None = None  # the responsible person; defaults to the name
    shared: bool = False  # several programs hold it, so it is weaker proof of identity
    scopes: tuple[_Text, ...] = ()
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    created_at: _Timestamp
    expires_at: _Timestamp | None = None
    last_used_at: _Timestamp | None = None
    revoked_at: _Timestamp | None = None
    by: _Text


class ApiKeyReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, also revoked and expired ones, oldest first."""
        ...


class ApiKeyStore(ApiKeyReader, Protocol):
    """A change is durable once its call has returned."""

    async def add(self, key: ApiKey) -> None:
        """Insert it; raises Stale if its id is taken."""
        ...

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """Revoke the key and return it; None if there is none. A revoked key keeps its time of revocation."""
        ...

    async def record_uses(self, times: Mapping[str, float]) -> None:
        """Store when keys were last used; unknown ids are ignored, and a stored time never decreases."""
        ...


def sort_keys(keys: list[ApiKey]) -> tuple[ApiKey, ...]:
    """Sort as every store lists them."""
    return tuple(sorted(keys, key=lambda each: (each.created_at, each.id)))


def with_last_use(key: ApiKey, moment: float) -> ApiKey:
    """Return the key with this time of last use, unless a later one is stored."""
    return msgspec.structs.replace(key, last_used_at=max(moment, key.last_used_at or 0.0))


def with_revocation(key: ApiKey, moment: float) -> ApiKey:
    """Return the key revoked at this time, unless it is revoked already."""
    return key if key.revoked_at is not None else msgspec.structs.replace(key, revoked_at=moment)


class MemoryApiKeyStore:
    """In-memory implementation; its content ends with the process."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}

    async def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, oldest first."""
        return sort_keys([*self._keys.values()])

    async def add(self, key: ApiKey) -> None:
        """Insert it; raises Stale if its id is taken."""
        check_storable(key)
        if key.id in self._keys:
            raise Stale([key.id])
        self._keys[key.id] = key

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """Revoke the key and return it; None if there is none."""
        found = self._keys.get(key_id)
        if found is not None:
            found = self._keys[key_id] = with_revocation(found, at)
        return found

    async def record_uses(self, times: Mapping[str, float]) -> None:
        """Store when keys were last used."""
        for key_id in times.keys() & self._keys.keys():
            self._keys[key_id] = with_last_use(self._keys[key_id], times[key_id])


class ApiKeyToken(NamedTuple):
    """A parsed API key: the public id and the secret."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """Show the public id only."""
        return f"Key({self.id!r})"


def generate_key_id() -> str:
    """Return a new random public id."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def generate_token() -> ApiKeyToken:
    """Return a new key with a secret of 256 random bits."""
    return ApiKeyToken(generate_key_id(), secrets.token_urlsafe(_SECRET_BYTES))


def format_token(token: ApiKeyToken) -> str:
    """Return the text that the key's holder sends: `tk_<id>_<secret>_<checksum>`."""
    body = f"tk_{token.id}_{token.secret}"
    return f"{body}_{_checksum(body)}"


def parse_token(text: str) -> ApiKeyToken | None:
    """Parse an API key; None if the format or the checksum is wrong, which needs no lookup."""
    form = _TOKEN_PATTERN.fullmatch(text)
    if form is None:
        return None
    body, key_id, secret, stated = form.groups()
    return ApiKeyToken(key_id, secret) if hmac.compare_digest(_checksum(body), stated) else None


def token_digest(pepper: bytes, token: ApiKeyToken) -> bytes:
    """Return the HMAC that is stored in place of the secret; without the pepper it verifies nothing."""
    return hmac.digest(pepper, token.secret.encode(), "sha256")


def fingerprint(text: str) -> bytes:
    """Return a hash to cache the text under, so that a cache lookup compares no secrets."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _checksum(body: str) -> str:
    """Return the checksum that detects typing errors and random guesses; it is no protection beyond that."""
    number, signs = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, sign = divmod(number, len(_ALPHABET))
        signs += _ALPHABET[sign]
    return signs


class _ActiveKey(NamedTuple):
    """A key that is not revoked, valid until it expires."""

    id: str
    digest: bytes
    caller: Caller  # one object until the next load
    until: float

    @classmethod
    def of(cls, key: ApiKey) -> "_ActiveKey":
        """The key as it authenticates."""
        return cls(key.id, key.digest, caller_of(key), _NEVER if key.expires_at is None else key.expires_at)


class KeyRing:
    """Authenticates API keys in memory; `flush_uses` is called once a minute at most, when uses are to be stored."""

    def __init__(self, root: bytes, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._root = root
        self._decoy = _ActiveKey(
            "", os.urandom(32), Caller(""), 0.0
        )  # compared with for unknown ids, to take the same time
        self._active: dict[str, _ActiveKey] = {}
        self._revoked: set[str] = set()  # for good, even if the file is changed to say otherwise
        self._cached: dict[bytes, _ActiveKey] = {}
        self._uses: dict[str, float] = {}
        self._next_flush = 0.0
        self.flush_uses: Callable[[], None] = _no_flush

    @cached_property
    def _pepper(self) -> bytes:
        """Derived when the first key is made or checked, which imports the cryptography."""
        return derive_key(self._root, API_KEYS_PURPOSE)

    def load(self, keys: Iterable[ApiKey]) -> None:
        """Replace all keys; a key that was ever revoked in this process stays revoked."""
        every = list(keys)
        self._revoked.update(key.id for key in every if key.revoked_at is not None)
        for key in every:
            if key.id in self._revoked and key.revoked_at is None:
                _log.error(
                    "the key %s was revoked, and another program restored it in the file; it stays revoked", key.id
                )
        self._active = {key.id: _ActiveKey.of(key) for key in every if key.id not in self._revoked}
        self._cached = {}

    def find(self, text: str, now: float) -> Caller | None:
        """Return the caller that holds this key; None if it is unknown, revoked or expired."""
        return self.find_marked(text, fingerprint(text), now)

    def find_marked(self, text: str, mark: bytes, now: float) -> Caller | None:
        """Return the same for a key whose fingerprint the caller has kept."""
        held = self._cached.get(mark) or self._verify(text, mark)
        if held is None or held.until <= now:
            return None
        self._uses[held.id] = now
        if now >= self._next_flush:
            self._next_flush = now + USE_FLUSH_SECONDS
            self.flush_uses()
        return held.caller

    def caller_named(self, name: str, now: float) -> Caller | None:
        """Return the caller of the valid key with this name."""
        held = (each for each in self._active.values() if each.caller.id == name and each.until > now)
        return next((each.caller for each in held), None)

    def __len__(self) -> int:
        """Count the keys that are valid now."""
        now = self._clock()
        return sum(held.until > now for held in self._active.values())

    def digest_of(self, token: ApiKeyToken) -> bytes:
        """Return the HMAC to store for a new key."""
        return token_digest(self._pepper, token)

    @property
    def pending_uses(self) -> dict[str, float]:
        """The times of last use that `drain_uses` has not returned yet."""
        return dict(self._uses)

    def drain_uses(self) -> dict[str, float]:
        """Return the pending times of last use and clear them."""
        used, self._uses = self._uses, {}
        return used

    def _verify(self, text: str, mark: bytes) -> _ActiveKey | None:
        """Look the key up by its public id and compare HMACs in constant time, against a decoy if the id is unknown."""
        key = parse_token(text)
        if key is None:
            return None
        held = self._active.get(key.id, self._decoy)
        if not hmac.compare_digest(held.digest, token_digest(self._pepper, key)) or held is self._decoy:
            return None
        if len(self._cached) >= MAX_CACHED_TOKENS:
            self._cached = {}
        # The redactor hides the caller's own key, so the caller carries it.
        caller = msgspec.structs.replace(held.caller, credential=Secret(text))
        held = self._cached[mark] = held._replace(caller=caller)
        return held


def caller_of(key: ApiKey) -> Caller:
    """Return the caller that a key authenticates, without the key itself."""
    return Caller(
        key.name,
        proof="shared" if key.shared else "key",
        person=key.owner or key.name,
        scopes=frozenset(key.scopes),
        expires_at=key.expires_at,
    )


def _no_flush() -> None:
    """Default of `flush_uses`: store nothing."""


GrantEffect: TypeAlias = Literal["permit", "forbid"]
# A lone surrogate has no UTF-8, and PostgreSQL stores no NUL, so no engine accepts either.
_GrantText: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=512)]


class Condition(msgspec.Struct, frozen=True):
    """A condition on one argument: the value at a JSON pointer must be one of these."""

    path: _GrantText
    one_of: tuple[Json, ...]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One rule; a call needs a grant that permits it, and no grant may forbid it."""

    id: _GrantText
    effect: GrantEffect
    callers: _GrantText  # a glob over the ids of callers
    tools: _GrantText  # a glob over tool ids; without a version it matches all versions
    conditions: tuple[Condition, ...] = ()  # all of them must hold
    created_at: _Timestamp
    by: _GrantText


class GrantReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self) -> tuple[Grant, ...]:
        """Return all grants, oldest first."""
        ...


class GrantStore(GrantReader, Protocol):
    """A change is durable once its call has returned."""

    async def add(self, grant: Grant) -> None:
        """Insert it; raises Stale if its id is taken."""
        ...

    async def remove(self, grant_id: str) -> Grant | None:
        """Remove it and return it; None if there is none."""
        ...


def sort_grants(grants: list[Grant]) -> tuple[Grant, ...]:
    """Sort as every store lists them."""
    return tuple(sorted(grants, key=lambda each: (each.created_at, each.id)))


class MemoryGrantStore:
    """In-memory implementation; its content ends with the process."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    async def all(self) -> tuple[Grant, ...]:
        """Return all grants, oldest first."""
        return sort_grants([*self._grants.values()])

    async def add(self, grant: Grant) -> None:
        """Insert it; raises Stale if its id is taken."""
        check_storable(grant)
        if grant.id in self._grants:
            raise Stale([grant.id])
        self._grants[grant.id] = grant

    async def remove(self, grant_id: str) -> Grant | None:
        """Remove it and return it; None if there is none."""
        return self._grants.pop(grant_id, None)
