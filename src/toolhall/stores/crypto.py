"""Keys and ciphers of the data folder: root key file, HKDF derivation, RowMac and SealedBox.

All keys are derived from one root key by HKDF-SHA256, one purpose each; the purposes are part of the data format.
"""

import base64
import binascii
import contextlib
import hmac
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

API_KEYS_PURPOSE = "toolhall api keys"
ROW_MACS_PURPOSE = "toolhall row macs"
_DERIVED_BYTES = 32


def derive_key(root: bytes, purpose: str) -> bytes:
    """HKDF-SHA256: who learns one of them learns neither the root nor any other."""
    return HKDF(SHA256(), _DERIVED_BYTES, salt=None, info=purpose.encode()).derive(root)


MAC_COLUMN = "mac"
_MAX_CACHED_ORDERS = 1_000


class RowMac:
    """HMAC-SHA-256 with a key that is not in the file; a row's own place is part of what is signed."""

    def __init__(self, root: bytes) -> None:
        self._key = derive_key(root, ROW_MACS_PURPOSE)
        self._column_orders: dict[tuple[str, ...], tuple[str, ...]] = {}  # the rows of a table come by the thousand

    def compute(self, table: str, row: Mapping[str, Any]) -> bytes:
        """The code of a row, by the names of its columns; whatever code it holds itself is left out."""
        names = tuple(row)
        order = self._column_orders.get(names) or self._sort_columns(names)
        values = [row[name] for name in order]
        # A whole number is stored as it is or with a point, as its column wants it.
        plain = [int(value) if value.__class__ is float and value.is_integer() else value for value in values]
        return hmac.digest(self._key, msgspec.msgpack.encode((str(table), order, plain)), "sha256")

    def with_mac(self, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row with its code, ready to be stored."""
        return {**row, MAC_COLUMN: self.compute(table, row)}

    def verify(self, table: str, row: Mapping[str, Any]) -> bool:
        """Whether this row is as one of our own stored it."""
        return hmac.compare_digest(self.compute(table, row), row[MAC_COLUMN] or b"")

    def _sort_columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._column_orders) >= _MAX_CACHED_ORDERS:
            self._column_orders.clear()
        order = self._column_orders[names] = tuple(sorted(str(name) for name in names if name != MAC_COLUMN))
        return order


KEY_BYTES = 32
ROOT_KEY_FILE = "state.key"  # in the data folder: the root that all other keys are made from
_NONCE_BYTES = 12
_PRIVATE_PATTERNS = ("*.key", "*.db")


class SealedBox:
    """AES-256-GCM; `bound` is what the sealed text belongs to and opens with only."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, plaintext: bytes, context: bytes) -> str:
        """A sealed text, safe to put into JSON."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, plaintext, context)).decode()

    def open(self, sealed: str, context: bytes) -> bytes | None:
        """The text, or None if it was not sealed by us for exactly this."""
        try:
            raw = base64.b64decode(sealed.encode(), b"-_", validate=True)
            if base64.urlsafe_b64encode(raw).decode() != sealed:
                return None  # another spelling of the same bytes is not what we sealed
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], context)
        except (ValueError, binascii.Error, InvalidTag):
            return None


def exposed_paths(folder: Path) -> Iterator[str]:
    """One sentence, with the fix, for each key, database or folder below a data folder that other users can open."""
    if os.name != "posix":
        return
    kept = (
        path for place in (folder, folder / "audit") for kind in _PRIVATE_PATTERNS for path in sorted(place.glob(kind))
    )
    for path in (folder, folder / "audit", *kept):
        try:
            mode = path.lstat().st_mode
        except OSError:  # not there, or gone since it was listed
            continue
        if stat.S_IMODE(mode) & 0o077 and not stat.S_ISLNK(mode):
            right, can = ("700", "entered") if stat.S_ISDIR(mode) else ("600", "opened")
            yield (
                f"{path} can be {can} by other users of this machine (mode {stat.S_IMODE(mode):04o});"
                f" run: chmod {right} {shlex.quote(str(path))}"
            )


def load_or_create_key(path: Path) -> bytes:
    """The key in this file, made when there is none; readable by its owner only."""
    key = path.read_bytes() if path.exists() else None
    if key is None or len(key) != KEY_BYTES:
        descriptor, draft = tempfile.mkstemp(dir=path.parent)  # made with mode 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
        if key is not None:  # less than a key, left by a crash: nothing was ever sealed with it
            path.unlink(missing_ok=True)
        # A link appears whole or not at all, so that of two processes neither reads half a key.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        Path(draft).unlink()
        key = path.read_bytes()
    return key
