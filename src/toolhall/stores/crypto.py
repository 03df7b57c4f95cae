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
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

API_KEYS_PURPOSE = "toolhall api keys"
ROW_MACS_PURPOSE = "toolhall row macs"
_DERIVED_BYTES = 32
MAC_COLUMN = "mac"
_MAX_CACHED_ORDERS = 1_000
KEY_BYTES = 32
ROOT_KEY_FILE = "state.key"  # in the data folder: the root key that all others are derived from
_NONCE_BYTES = 12
_PRIVATE_PATTERNS = ("*.key", "*.db")


def derive_key(root: bytes, purpose: str) -> bytes:
    """Derive a key by HKDF-SHA256; a derived key reveals neither the root key nor any other derived key."""
    from cryptography.hazmat.primitives.hashes import SHA256  # lazy: a hall without data needs no cryptography
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # lazy: as above

    return HKDF(SHA256(), _DERIVED_BYTES, salt=None, info=purpose.encode()).derive(root)


class RowMac:
    """Authenticates database rows by HMAC-SHA-256 with a key outside the file; the MAC covers the table's name too."""

    def __init__(self, root: bytes) -> None:
        self._key = derive_key(root, ROW_MACS_PURPOSE)
        self._column_orders: dict[
            tuple[str, ...], tuple[str, ...]
        ] = {}  # cached, because rows of one table come by the thousand

    def compute(self, table: str, row: Mapping[str, Any]) -> bytes:
        """Return the MAC over all columns except the MAC itself, in the order of their names."""
        names = tuple(row)
        order = self._column_orders.get(names) or self._sort_columns(names)
        values = [row[name] for name in order]
        # The engine returns a whole number as int or float, depending on its column.
        plain = [int(value) if value.__class__ is float and value.is_integer() else value for value in values]
        return hmac.digest(self._key, msgspec.msgpack.encode((str(table), order, plain)), "sha256")

    def with_mac(self, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row with its MAC, ready to be stored."""
        return {**row, MAC_COLUMN: self.compute(table, row)}

    def verify(self, table: str, row: Mapping[str, Any]) -> bool:
        """True if the row is as a process with this key stored it."""
        return hmac.compare_digest(self.compute(table, row), row[MAC_COLUMN] or b"")

    def _sort_columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._column_orders) >= _MAX_CACHED_ORDERS:
            self._column_orders.clear()
        order = self._column_orders[names] = tuple(sorted(str(name) for name in names if name != MAC_COLUMN))
        return order


class SealedBox:
    """AES-256-GCM with a random nonce; `context` is authenticated, and a text opens with the same context only.

    Its key is this one, or the one that is derived from it for a purpose.
    """

    def __init__(self, key: bytes, purpose: str | None = None) -> None:
        self._key = key
        self._purpose = purpose

    @cached_property
    def _cipher(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # lazy: as in derive_key

        return AESGCM(self._key if self._purpose is None else derive_key(self._key, self._purpose))

    def seal(self, plaintext: bytes, context: bytes) -> str:
        """Encrypt, and encode as base64url."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, plaintext, context)).decode()

    def open(self, sealed: str, context: bytes) -> bytes | None:
        """Decrypt; None if the text was not sealed with this key and context."""
        from cryptography.exceptions import InvalidTag  # lazy: as in derive_key

        try:
            raw = base64.b64decode(sealed.encode(), b"-_", validate=True)
            if base64.urlsafe_b64encode(raw).decode() != sealed:
                return None  # reject other base64 spellings of the same bytes
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], context)
        except (ValueError, binascii.Error, InvalidTag):
            return None


def exposed_paths(folder: Path) -> Iterator[str]:
    """Yield one sentence, with the fix, for each key, database or folder of a data folder that other users can open."""
    if os.name != "posix":
        return
    folders = (folder, folder / "audit")
    files = (path for each in folders for pattern in _PRIVATE_PATTERNS for path in sorted(each.glob(pattern)))
    for path in (*folders, *files):
        try:
            mode = path.lstat().st_mode
        except OSError:  # missing, or removed since it was listed
            continue
        if stat.S_IMODE(mode) & 0o077 and not stat.S_ISLNK(mode):
            fixed, verb = ("700", "entered") if stat.S_ISDIR(mode) else ("600", "opened")
            yield (
                f"{path} can be {verb} by other users of this machine (mode {stat.S_IMODE(mode):04o});"
                f" run: chmod {fixed} {shlex.quote(str(path))}"
            )


def load_or_create_key(path: Path) -> bytes:
    """Return the key in this file, creating it readable by its owner only if there is none."""
    key = path.read_bytes() if path.exists() else None
    if key is None or len(key) != KEY_BYTES:
        import tempfile  # lazy: the compression libraries, only where there is no key yet

        descriptor, draft = tempfile.mkstemp(dir=path.parent)  # made with mode 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
        if key is not None:  # an incomplete key, left by a crash: nothing was ever encrypted with it
            path.unlink(missing_ok=True)
        # os.link is atomic, so of two processes neither reads half a key.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        Path(draft).unlink()
        key = path.read_bytes()
    return key
