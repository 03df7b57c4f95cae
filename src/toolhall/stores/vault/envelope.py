"""Envelope encryption: key-encryption keys wrap data keys, and a tenant's data key encrypts what belongs to the tenant.

AES-256-GCM throughout. The tenant, the use and the caller's context are authenticated data, so a ciphertext opens only
in the place that it was made for.
"""

import hmac
import os
import secrets
from collections.abc import Sequence

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolhall.stores.crypto import derive_key
from toolhall.stores.vault.store import DataKey, KeyUse

KEY_BYTES = 32
_VERSION = b"v1"
_ID_BYTES = 8
_NONCE_BYTES = 12
_HEADER_BYTES = len(_VERSION) + _ID_BYTES
_KEK_ID_PURPOSE = "toolhall vault key id"
_HINT_PURPOSE = "toolhall secret hints"


class DecryptionFailed(Exception):
    """It does not open: it was changed, or belongs elsewhere."""


class UnknownKey(DecryptionFailed):
    """The key that sealed it is not here."""


class UnwrappedKey:
    """A data key, unwrapped; what it seals opens for the same tenant and `bound` only."""

    def __init__(self, stored: DataKey, raw: bytes) -> None:
        self.stored = stored
        self.raw = raw
        self._cipher = AESGCM(raw)

    def seal(self, plaintext: bytes, *context: str) -> bytes:
        """`v1`, the id of this key, a nonce, the ciphertext."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, plaintext, self._encoded_context(context))
        return b"".join((_VERSION, bytes.fromhex(self.stored.id), nonce, sealed))

    def open(self, sealed: bytes, *context: str) -> bytes:
        """What was sealed for exactly this; raises Unopened."""
        if data_key_id(sealed) != self.stored.id:
            raise UnknownKey("another key sealed it")
        nonce, text = sealed[_HEADER_BYTES : _HEADER_BYTES + _NONCE_BYTES], sealed[_HEADER_BYTES + _NONCE_BYTES :]
        return _decrypt(self._cipher, nonce, text, self._encoded_context(context))

    def hint(self, plaintext: bytes, *context: str) -> str:
        """Eight digits that are others for another value; without the key nobody can try values with them."""
        return hmac.digest(derive_key(self.raw, _HINT_PURPOSE), self._encoded_context(context) + plaintext, "sha256")[
            :4
        ].hex()

    def _encoded_context(self, context: tuple[str, ...]) -> bytes:
        return _encode_fields(self.stored.tenant, self.stored.use, *context, _VERSION.decode())


class Envelope:
    """Makes, wraps and unwraps data keys: the first key-encryption key wraps, every one of them unwraps."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keks = {kek_id(key): AESGCM(key) for key in keys}
        self._primary = kek_id(keys[0])

    def can_unwrap(self, key: DataKey) -> bool:
        """Whether the key that wrapped it is here."""
        return key.kek in self._keks

    def new_key(self, tenant: str, use: KeyUse, now: float) -> UnwrappedKey:
        """A new data key, wrapped."""
        blank = DataKey(
            id=secrets.token_hex(_ID_BYTES), tenant=tenant, use=use, kek=self._primary, wrapped=b"", created_at=now
        )
        return self._wrap(blank, os.urandom(KEY_BYTES))

    def unwrap(self, key: DataKey) -> UnwrappedKey:
        """The same, ready to be used; raises Unopened."""
        if not self.can_unwrap(key):
            raise UnknownKey("the key that wrapped it is not here")
        nonce, text = key.wrapped[:_NONCE_BYTES], key.wrapped[_NONCE_BYTES:]
        return UnwrappedKey(key, _decrypt(self._keks[key.kek], nonce, text, _key_context(key)))

    def rewrap(self, key: UnwrappedKey) -> UnwrappedKey:
        """The same, wrapped with the first key."""
        return self._wrap(msgspec.structs.replace(key.stored, kek=self._primary), key.raw)

    def _wrap(self, key: DataKey, raw: bytes) -> UnwrappedKey:
        nonce = os.urandom(_NONCE_BYTES)
        wrapped = nonce + self._keks[self._primary].encrypt(nonce, raw, _key_context(key))
        return UnwrappedKey(msgspec.structs.replace(key, wrapped=wrapped), raw)


def kek_id(key: bytes) -> str:
    """A name for a key-encryption key that says nothing of it."""
    return derive_key(key, _KEK_ID_PURPOSE)[:_ID_BYTES].hex()


def data_key_id(sealed: bytes) -> str:
    """The id of the data key that sealed it; raises Unopened for what no vault has sealed."""
    if len(sealed) < _HEADER_BYTES + _NONCE_BYTES or not sealed.startswith(_VERSION):
        raise DecryptionFailed("no vault has sealed this")
    return sealed[len(_VERSION) : _HEADER_BYTES].hex()


def _key_context(key: DataKey) -> bytes:
    return _encode_fields("dek", key.tenant, key.use, key.id, key.kek)


def _encode_fields(*fields: str) -> bytes:
    """Each with its length before it, so that no two lists of fields are the same bytes."""
    encoded = [field.encode(errors="surrogatepass") for field in fields]
    return b"".join(len(each).to_bytes(4, "big") + each for each in encoded)


def _decrypt(cipher: AESGCM, nonce: bytes, ciphertext: bytes, context: bytes) -> bytes:
    try:
        return cipher.decrypt(nonce, ciphertext, context)
    except (InvalidTag, ValueError):
        raise DecryptionFailed("it was changed, or belongs elsewhere") from None
