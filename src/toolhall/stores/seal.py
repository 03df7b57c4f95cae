"""Seals small pieces of state that travel through a client: it can neither read, change nor reuse them elsewhere."""

import base64
import binascii
import contextlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
KEY_NAME = "state.key"  # in the data folder: the root that all other keys are made from
_NONCE_BYTES = 12
_PRIVATE = ("*.key", "*.db")


class Seal:
    """AES-256-GCM; `bound` is what the sealed text belongs to and opens with only."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def close(self, text: bytes, bound: bytes) -> str:
        """A sealed text, safe to put into JSON."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, text, bound)).decode()

    def open(self, sealed: str, bound: bytes) -> bytes | None:
        """The text, or None if it was not sealed by us for exactly this."""
        try:
            raw = base64.b64decode(sealed.encode(), b"-_", validate=True)
            if base64.urlsafe_b64encode(raw).decode() != sealed:
                return None  # another spelling of the same bytes is not what we sealed
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], bound)
        except (ValueError, binascii.Error, InvalidTag):
            return None


def exposed_paths(folder: Path) -> Iterator[str]:
    """One sentence, with the fix, for each key, database or folder below a data folder that other users can open."""
    if os.name != "posix":
        return
    kept = (path for place in (folder, folder / "audit") for kind in _PRIVATE for path in sorted(place.glob(kind)))
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


def kept_key(path: Path) -> bytes:
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
