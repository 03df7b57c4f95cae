"""API keys: the ApiKey record and its store, the `tk_…` token format, and the KeyRing that authenticates tokens.

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
from typing import Annotated, NamedTuple, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.secret import Secret
from toolhall.stores.common import Stale, check_storable
from toolhall.stores.crypto import API_KEYS_PURPOSE, derive_key

_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=256)]
_Timestamp: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key; its secret is not among it, only what proves that somebody has it."""

    id: _Text
    name: _Text  # the id of the caller that holds it; several keys of one name are one caller
    owner: _Text | None = None  # the person who answers for it; else its name
    shared: bool = False  # several programs hold it, so it proves less
    scopes: tuple[_Text, ...] = ()
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    created_at: _Timestamp
    expires_at: _Timestamp | None = None
    last_used_at: _Timestamp | None = None
    revoked_at: _Timestamp | None = None
    by: _Text


class ApiKeyReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self) -> tuple[ApiKey, ...]:
        """Every key, also those that are revoked or expired, what was made first first."""
        ...


class ApiKeyStore(ApiKeyReader, Protocol):
    """A change is there once its call has returned."""

    async def add(self, key: ApiKey) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        ...

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """From now on it is good for nothing; None if there is none. One that was revoked before stays as it is."""
        ...

    async def record_uses(self, times: Mapping[str, float]) -> None:
        """When some were last used; ids that are not there are ignored, and time does not go back."""
        ...


def sort_keys(keys: list[ApiKey]) -> tuple[ApiKey, ...]:
    """As every store lists them."""
    return tuple(sorted(keys, key=lambda each: (each.created_at, each.id)))


def with_last_use(key: ApiKey, moment: float) -> ApiKey:
    """The key as it is after it was used then."""
    return msgspec.structs.replace(key, last_used_at=max(moment, key.last_used_at or 0.0))


def with_revocation(key: ApiKey, moment: float) -> ApiKey:
    """The key as it is after it was revoked then, if it was not before."""
    return key if key.revoked_at is not None else msgspec.structs.replace(key, revoked_at=moment)


class MemoryApiKeyStore:
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}

    async def all(self) -> tuple[ApiKey, ...]:
        """Every key, what was made first first."""
        return sort_keys([*self._keys.values()])

    async def add(self, key: ApiKey) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        check_storable(key)
        if key.id in self._keys:
            raise Stale([key.id])
        self._keys[key.id] = key

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """From now on it is good for nothing; None if there is none."""
        found = self._keys.get(key_id)
        if found is not None:
            found = self._keys[key_id] = with_revocation(found, at)
        return found

    async def record_uses(self, times: Mapping[str, float]) -> None:
        """When some were last used."""
        for key_id in times.keys() & self._keys.keys():
            self._keys[key_id] = with_last_use(self._keys[key_id], times[key_id])


_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID_LENGTH = 12
_SECRET_BYTES = 32
_CHECK_LENGTH = 6
_TOKEN_PATTERN = re.compile(r"(tk_([0-9A-Za-z]{12})_([0-9A-Za-z_-]{43}))_([0-9A-Za-z]{6})", re.ASCII)


class ApiKeyToken(NamedTuple):
    """What a text says: whose it would be, and what proves that."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """Nothing that could be used, wherever it is printed."""
        return f"Key({self.id!r})"


def generate_key_id() -> str:
    """A public name that nobody has had."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def generate_token() -> ApiKeyToken:
    """A key that nobody has had: 256 random bits."""
    return ApiKeyToken(generate_key_id(), secrets.token_urlsafe(_SECRET_BYTES))


def format_token(token: ApiKeyToken) -> str:
    """The text that its holder sends."""
    body = f"tk_{token.id}_{token.secret}"
    return f"{body}_{_checksum(body)}"


def parse_token(text: str) -> ApiKeyToken | None:
    """The key of a text; None for what cannot be one, found without looking anything up."""
    form = _TOKEN_PATTERN.fullmatch(text)
    if form is None:
        return None
    body, key_id, secret, stated = form.groups()
    return ApiKeyToken(key_id, secret) if hmac.compare_digest(_checksum(body), stated) else None


def token_digest(pepper: bytes, token: ApiKeyToken) -> bytes:
    """What is kept in place of the secret; without the pepper it is good for nothing."""
    return hmac.digest(pepper, token.secret.encode(), "sha256")


def fingerprint(text: str) -> bytes:
    """What stands for a text in memory, so that finding it again compares no secrets."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _checksum(body: str) -> str:
    """Against typing errors and guessing at random; it protects nothing else."""
    number, signs = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, sign = divmod(number, len(_ALPHABET))
        signs += _ALPHABET[sign]
    return signs


MAX_CACHED_TOKENS = 10_000
USE_FLUSH_SECONDS = 60.0
_NEVER = float("inf")
_log = logging.getLogger("toolhall.keys")


class _ActiveKey(NamedTuple):
    """A key that is good for something, until it expires."""

    id: str
    digest: bytes
    caller: Caller  # one object, as long as nothing changes
    until: float


class KeyRing:
    """Answers who holds a key; `remember` is called now and then when there are uses to be written down."""

    def __init__(self, root: bytes, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pepper = derive_key(root, API_KEYS_PURPOSE)
        self._decoy = _ActiveKey("", os.urandom(32), Caller(""), 0.0)  # compared with, where there is no such key
        self._active: dict[str, _ActiveKey] = {}
        self._revoked: set[str] = set()  # for good, also where the file says something else later
        self._cached: dict[bytes, _ActiveKey] = {}
        self._uses: dict[str, float] = {}
        self._next_flush = 0.0
        self.flush_uses: Callable[[], None] = _no_flush

    def load(self, keys: Iterable[ApiKey]) -> None:
        """From now on these are all; what was revoked, now or ever before, opens nothing."""
        every = list(keys)
        self._revoked.update(key.id for key in every if key.revoked_at is not None)
        for key in every:
            if key.id in self._revoked and key.revoked_at is None:
                _log.error("the key %s was revoked, and another program put it back; it stays revoked", key.id)
        self._active = {key.id: _active_key(key) for key in every if key.id not in self._revoked}
        self._cached = {}

    def find(self, text: str, now: float) -> Caller | None:
        """Whose key this is; None if it is nobody's, or not any more."""
        mark = fingerprint(text)
        held = self._cached.get(mark) or self._verify(text, mark)
        if held is None or held.until <= now:
            return None
        self._uses[held.id] = now
        if now >= self._next_flush:
            self._next_flush = now + USE_FLUSH_SECONDS
            self.flush_uses()
        return held.caller

    def __len__(self) -> int:
        """How many are good for something now."""
        now = self._clock()
        return sum(held.until > now for held in self._active.values())

    def digest_of(self, token: ApiKeyToken) -> bytes:
        """What is kept of a new key."""
        return token_digest(self._pepper, token)

    @property
    def pending_uses(self) -> dict[str, float]:
        """When keys were used that have been used since they were last written down."""
        return dict(self._uses)

    def drain_uses(self) -> dict[str, float]:
        """The same, for who writes it down: the next time they are not among it."""
        used, self._uses = self._uses, {}
        return used

    def _verify(self, text: str, mark: bytes) -> _ActiveKey | None:
        """Found by its public name, then compared in constant time, also where there is none of that name."""
        key = parse_token(text)
        if key is None:
            return None
        held = self._active.get(key.id, self._decoy)
        if not hmac.compare_digest(held.digest, token_digest(self._pepper, key)) or held is self._decoy:
            return None
        if len(self._cached) >= MAX_CACHED_TOKENS:
            self._cached = {}
        # Whatever a tool gets hold of, the key that it was called with is never shown to anyone.
        caller = msgspec.structs.replace(held.caller, credential=Secret(text))
        held = self._cached[mark] = held._replace(caller=caller)
        return held


def _active_key(key: ApiKey) -> _ActiveKey:
    caller = Caller(
        key.name,
        proof="shared" if key.shared else "key",
        person=key.owner or key.name,
        scopes=frozenset(key.scopes),
        expires_at=key.expires_at,
    )
    return _ActiveKey(key.id, key.digest, caller, _NEVER if key.expires_at is None else key.expires_at)


def _no_flush() -> None:
    """Where nothing is written down."""
