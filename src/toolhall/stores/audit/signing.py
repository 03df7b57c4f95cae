"""Signatures under the audit: an Ed25519 key beside it, and its public half for whoever verifies."""

import base64
import binascii
import contextlib
import importlib
import os
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from toolhall.stores.audit.lines import Mark
from toolhall.stores.seal import kept_key

KEY_FILE = "audit.key"
PUBLIC_FILE = "audit.pub"
Purpose: TypeAlias = Literal["checkpoint", "dropped"]

# RFC 8410: what every Ed25519 public key begins with in a PEM file.
_DER = bytes.fromhex("302a300506032b6570032100")
_PEM = "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n"
_KEY_BYTES = 32


class BadKey(ValueError):
    """This is no public key; the message is one line that says what to do."""


class Signer:
    """Signs with the key of a folder, which is made when there is none; readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self._key = _ed25519().Ed25519PrivateKey.from_private_bytes(kept_key(folder / KEY_FILE))
        self.public = PublicKey(self._key.public_key().public_bytes_raw())
        _write_once(folder / PUBLIC_FILE, self.public.pem())

    def sign(self, purpose: Purpose, mark: Mark) -> Mark:
        """The mark with its signature."""
        signature = base64.b64encode(self._key.sign(_signed(purpose, mark))).decode()
        return msgspec.structs.replace(mark, signature=signature)


class PublicKey:
    """Tells whether a mark was signed by the hall."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._key = _ed25519().Ed25519PublicKey.from_public_bytes(raw)
        self._wrong = importlib.import_module("cryptography.exceptions").InvalidSignature

    def signed(self, purpose: Purpose, mark: Mark) -> bool:
        """Whether the signature is one of this key, for exactly this."""
        try:
            self._key.verify(base64.b64decode(mark.signature, validate=True), _signed(purpose, mark))
        except (self._wrong, binascii.Error, ValueError):
            return False
        return True

    def pem(self) -> str:
        """As openssl reads it."""
        return _PEM.format(base64.b64encode(_DER + self._raw).decode())


def read_public(path: Path) -> PublicKey:
    """The key in a file; raises BadKey."""
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        raise BadKey(f"{path} cannot be read; name a copy of {PUBLIC_FILE} with --key") from None
    public = parse_public(text)
    if public is None:
        raise BadKey(f"{path} is no Ed25519 public key; name a copy of {PUBLIC_FILE} with --key")
    return public


def parse_public(text: str) -> PublicKey | None:
    """The key in a PEM text; None if there is none."""
    with contextlib.suppress(binascii.Error, ValueError, IndexError):
        raw = base64.b64decode("".join(text.split("-----")[2].split()), validate=True)
        if len(raw) == len(_DER) + _KEY_BYTES and raw.startswith(_DER):
            return PublicKey(raw[len(_DER) :])
    return None


def public_of(path: Path) -> PublicKey | None:
    """The public half of the key that signs, which is in this file; None if there is no such key."""
    try:
        key = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # something else may be where the folder should be
        return None
    if len(key) != _KEY_BYTES:
        return None
    return PublicKey(_ed25519().Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw())


def _signed(purpose: Purpose, mark: Mark) -> bytes:
    """What is signed: a purpose and a place, so that no signature can stand for anything else."""
    stored = " stored" if mark.stored else ""
    return f"toolhall audit {purpose} {mark.log} {mark.number} {mark.before} {mark.time!r}{stored}".encode()


def _write_once(path: Path, text: str) -> None:
    """An older copy is replaced only where it differs: whoever has the key can say what its other half is."""
    if path.exists() and path.read_text("ascii", errors="replace") == text:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _ed25519() -> Any:
    """Loading it takes longer than a command that never signs."""
    return importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
