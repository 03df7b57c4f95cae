"""Envelope encryption: key-encryption keys wrap data keys, and a tenant's data key encrypts the tenant's values.

Theory of operation. There are two levels of keys, both AES-256-GCM with random 96-bit nonces:

- A key-encryption key (KEK) comes from outside the database (key_sources): a setting, systemd, the keyring or a file.
  It encrypts data keys only. The first KEK wraps and every KEK unwraps, so old and new can coexist while rotating.
- A data key (DEK) is 32 random bytes that belong to one tenant (`hall` or `user:<id>`) and one use (`secrets` or
  `records`). It is stored wrapped, with the id of its KEK, and encrypts for a year at most, which keeps the number of
  random nonces per key small. To delete a tenant's data keys (shred) makes all that the tenant encrypted unreadable,
  also in backups of the rows.

A ciphertext is `v1`, the id of the data key, the nonce, and the encrypted bytes with their tag. Authenticated with it,
but not stored in it, are tenant, use, the caller's context (for a secret: user, kind, name and row id) and the version,
each with its length before it. So a ciphertext that is moved to another row, user or tenant does not decrypt. A wrapped
data key is bound to its tenant, use, id and KEK in the same way.
"""

import hmac
import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from toolhall.stores.crypto import derive_key
from toolhall.stores.vault.store import DataKey, KeyUse

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_VERSION = b"v1"
_ID_BYTES = 8
_NONCE_BYTES = 12
_HEADER_BYTES = len(_VERSION) + _ID_BYTES
_KEK_ID_PURPOSE = "toolhall vault key id"
_HINT_PURPOSE = "toolhall secret hints"


class DecryptionFailed(Exception):
    """A ciphertext was changed, or belongs to another context."""


class UnknownKey(DecryptionFailed):
    """The key that encrypted it is not available."""


class UnwrappedKey:
    """A decrypted data key; what it encrypts can be decrypted for the same tenant, use and context only."""

    def __init__(self, stored: DataKey, raw: bytes) -> None:
        self.stored = stored
        self.raw = raw
        self._cipher = _cipher(raw)

    def seal(self, plaintext: bytes, *context: str) -> bytes:
        """Encrypt; returns `v1`, the id of this key, a nonce and the ciphertext."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, plaintext, self._encoded_context(context))
        return b"".join((_VERSION, bytes.fromhex(self.stored.id), nonce, sealed))

    def open(self, sealed: bytes, *context: str) -> bytes:
        """Decrypt what was encrypted for this context; raises DecryptionFailed."""
        if data_key_id(sealed) != self.stored.id:
            raise UnknownKey("another key encrypted it")
        nonce, text = sealed[_HEADER_BYTES : _HEADER_BYTES + _NONCE_BYTES], sealed[_HEADER_BYTES + _NONCE_BYTES :]
        return _decrypt(self._cipher, nonce, text, self._encoded_context(context))

    def hint(self, plaintext: bytes, *context: str) -> str:
        """Return eight hex digits that change with the value; without the key, values cannot be tested against them."""
        return hmac.digest(derive_key(self.raw, _HINT_PURPOSE), self._encoded_context(context) + plaintext, "sha256")[
            :4
        ].hex()

    def _encoded_context(self, context: tuple[str, ...]) -> bytes:
        return _encode_fields(self.stored.tenant, self.stored.use, *context, _VERSION.decode())


class Envelope:
    """Creates, wraps and unwraps data keys: the first key-encryption key wraps, and all of them unwrap."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keks = {kek_id(key): _cipher(key) for key in keys}
        self._primary = kek_id(keys[0])

    def can_unwrap(self, key: DataKey) -> bool:
        """True if the key-encryption key that wrapped it is available."""
        return key.kek in self._keks

    def new_key(self, tenant: str, use: KeyUse, now: float) -> UnwrappedKey:
        """Create a data key, wrapped by the first key-encryption key."""
        blank = DataKey(
            id=secrets.token_hex(_ID_BYTES), tenant=tenant, use=use, kek=self._primary, wrapped=b"", created_at=now
        )
        return self._wrap(blank, os.urandom(KEY_BYTES))

    def unwrap(self, key: DataKey) -> UnwrappedKey:
        """Decrypt a data key; raises DecryptionFailed."""
        if not self.can_unwrap(key):
            raise UnknownKey("the key that wrapped it is not available")
        nonce, text = key.wrapped[:_NONCE_BYTES], key.wrapped[_NONCE_BYTES:]
        return UnwrappedKey(key, _decrypt(self._keks[key.kek], nonce, text, _key_context(key)))

    def rewrap(self, key: UnwrappedKey) -> UnwrappedKey:
        """Wrap the data key again, by the first key-encryption key."""
        return self._wrap(msgspec.structs.replace(key.stored, kek=self._primary), key.raw)

    def _wrap(self, key: DataKey, raw: bytes) -> UnwrappedKey:
        nonce = os.urandom(_NONCE_BYTES)
        wrapped = nonce + self._keks[self._primary].encrypt(nonce, raw, _key_context(key))
        return UnwrappedKey(msgspec.structs.replace(key, wrapped=wrapped), raw)


def kek_id(key: bytes) -> str:
    """Return the id of a key-encryption key, which reveals nothing about it."""
    return derive_key(key, _KEK_ID_PURPOSE)[:_ID_BYTES].hex()


def data_key_id(sealed: bytes) -> str:
    """Return the id of the data key that encrypted it; raises DecryptionFailed for an unknown format."""
    if len(sealed) < _HEADER_BYTES + _NONCE_BYTES or not sealed.startswith(_VERSION):
        raise DecryptionFailed("no vault has encrypted this")
    return sealed[len(_VERSION) : _HEADER_BYTES].hex()


def _key_context(key: DataKey) -> bytes:
    return _encode_fields("dek", key.tenant, key.use, key.id, key.kek)


def _encode_fields(*fields: str) -> bytes:
    """Encode fields with length prefixes, so that different lists of fields never encode alike."""
    encoded = [field.encode(errors="surrogatepass") for field in fields]
    return b"".join(len(each).to_bytes(4, "big") + each for each in encoded)


def _cipher(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # lazy: a hall without secrets needs none

    return AESGCM(key)


def _decrypt(cipher: "AESGCM", nonce: bytes, ciphertext: bytes, context: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag  # lazy: as above

    try:
        return cipher.decrypt(nonce, ciphertext, context)
    except (InvalidTag, ValueError):
        raise DecryptionFailed("it was changed, or belongs to another context") from None
