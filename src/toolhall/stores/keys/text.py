"""An API key as a text, `tk_<id>_<secret>_<checksum>`: what is made, what is read, and what proves it."""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from typing import NamedTuple

_SIGNS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID_LENGTH = 12
_SECRET_BYTES = 32
_CHECK_LENGTH = 6
_FORM = re.compile(r"(tk_([0-9A-Za-z]{12})_([0-9A-Za-z_-]{43}))_([0-9A-Za-z]{6})", re.ASCII)


class Key(NamedTuple):
    """What a text says: whose it would be, and what proves that."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """Nothing that could be used, wherever it is printed."""
        return f"Key({self.id!r})"


def new_id() -> str:
    """A public name that nobody has had."""
    return "".join(secrets.choice(_SIGNS) for _ in range(_ID_LENGTH))


def new_key() -> Key:
    """A key that nobody has had: 256 random bits."""
    return Key(new_id(), secrets.token_urlsafe(_SECRET_BYTES))


def written(key: Key) -> str:
    """The text that its holder sends."""
    body = f"tk_{key.id}_{key.secret}"
    return f"{body}_{_checksum(body)}"


def read(text: str) -> Key | None:
    """The key of a text; None for what cannot be one, found without looking anything up."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    body, key_id, secret, stated = form.groups()
    return Key(key_id, secret) if hmac.compare_digest(_checksum(body), stated) else None


def digest(pepper: bytes, key: Key) -> bytes:
    """What is kept in place of the secret; without the pepper it is good for nothing."""
    return hmac.digest(pepper, key.secret.encode(), "sha256")


def fingerprint(text: str) -> bytes:
    """What stands for a text in memory, so that finding it again compares no secrets."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _checksum(body: str) -> str:
    """Against typing errors and guessing at random; it protects nothing else."""
    number, signs = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, sign = divmod(number, len(_SIGNS))
        signs += _SIGNS[sign]
    return signs
