"""Sealing in two steps: a key-encryption key seals the data keys, and a data key seals what belongs to its tenant."""

import hmac
import os
import secrets
from collections.abc import Sequence

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolhall.stores.derived import derived
from toolhall.stores.vault.base import DataKey, Use

KEY_BYTES = 32
_VERSION = b"v1"
_ID_BYTES = 8
_NONCE_BYTES = 12
_HEAD = len(_VERSION) + _ID_BYTES
_KEK_IDS = "toolhall vault key id"
_HINTS = "toolhall secret hints"


class Unopened(Exception):
    """It does not open: it was changed, or belongs elsewhere."""


class UnknownKey(Unopened):
    """The key that sealed it is not here."""


class OpenKey:
    """A data key, unwrapped; what it seals opens for the same tenant and `bound` only."""

    def __init__(self, kept: DataKey, raw: bytes) -> None:
        self.kept = kept
        self.raw = raw
        self._cipher = AESGCM(raw)

    def seal(self, plain: bytes, *bound: str) -> bytes:
        """`v1`, the id of this key, a nonce, the ciphertext."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, plain, self._bound(bound))
        return b"".join((_VERSION, bytes.fromhex(self.kept.id), nonce, sealed))

    def open(self, sealed: bytes, *bound: str) -> bytes:
        """What was sealed for exactly this; raises Unopened."""
        if key_of(sealed) != self.kept.id:
            raise UnknownKey("another key sealed it")
        nonce, text = sealed[_HEAD : _HEAD + _NONCE_BYTES], sealed[_HEAD + _NONCE_BYTES :]
        return _decrypted(self._cipher, nonce, text, self._bound(bound))

    def hint(self, plain: bytes, *bound: str) -> str:
        """Eight digits that are others for another value; without the key nobody can try values with them."""
        return hmac.digest(derived(self.raw, _HINTS), self._bound(bound) + plain, "sha256")[:4].hex()

    def _bound(self, bound: tuple[str, ...]) -> bytes:
        return _fields(self.kept.tenant, self.kept.use, *bound, _VERSION.decode())


class Envelope:
    """Makes, wraps and unwraps data keys: the first key-encryption key wraps, every one of them unwraps."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keks = {kek_id(key): AESGCM(key) for key in keys}
        self._first = kek_id(keys[0])

    def knows(self, key: DataKey) -> bool:
        """Whether the key that wrapped it is here."""
        return key.kek in self._keks

    def new_key(self, tenant: str, use: Use, now: float) -> OpenKey:
        """A new data key, wrapped."""
        blank = DataKey(
            id=secrets.token_hex(_ID_BYTES), tenant=tenant, use=use, kek=self._first, wrapped=b"", created_at=now
        )
        return self._wrapped(blank, os.urandom(KEY_BYTES))

    def unwrap(self, key: DataKey) -> OpenKey:
        """The same, ready to be used; raises Unopened."""
        if not self.knows(key):
            raise UnknownKey("the key that wrapped it is not here")
        nonce, text = key.wrapped[:_NONCE_BYTES], key.wrapped[_NONCE_BYTES:]
        return OpenKey(key, _decrypted(self._keks[key.kek], nonce, text, _bound_to(key)))

    def rewrap(self, key: OpenKey) -> OpenKey:
        """The same, wrapped with the first key."""
        return self._wrapped(msgspec.structs.replace(key.kept, kek=self._first), key.raw)

    def _wrapped(self, key: DataKey, raw: bytes) -> OpenKey:
        nonce = os.urandom(_NONCE_BYTES)
        wrapped = nonce + self._keks[self._first].encrypt(nonce, raw, _bound_to(key))
        return OpenKey(msgspec.structs.replace(key, wrapped=wrapped), raw)


def kek_id(key: bytes) -> str:
    """A name for a key-encryption key that says nothing of it."""
    return derived(key, _KEK_IDS)[:_ID_BYTES].hex()


def key_of(sealed: bytes) -> str:
    """The id of the data key that sealed it; raises Unopened for what no vault has sealed."""
    if len(sealed) < _HEAD + _NONCE_BYTES or not sealed.startswith(_VERSION):
        raise Unopened("no vault has sealed this")
    return sealed[len(_VERSION) : _HEAD].hex()


def _bound_to(key: DataKey) -> bytes:
    return _fields("dek", key.tenant, key.use, key.id, key.kek)


def _fields(*fields: str) -> bytes:
    """Each with its length before it, so that no two lists of fields are the same bytes."""
    encoded = [field.encode(errors="surrogatepass") for field in fields]
    return b"".join(len(each).to_bytes(4, "big") + each for each in encoded)


def _decrypted(cipher: AESGCM, nonce: bytes, text: bytes, bound: bytes) -> bytes:
    try:
        return cipher.decrypt(nonce, text, bound)
    except (InvalidTag, ValueError):
        raise Unopened("it was changed, or belongs elsewhere") from None
