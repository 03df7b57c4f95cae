"""Where key-encryption keys may be kept: a setting, a credential of systemd, the keyring of the system, a file."""

import base64
import binascii
import contextlib
import importlib
import os
import re
import stat
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Protocol

from toolhall.stores.base import StoreFailed
from toolhall.stores.vault.envelope import KEY_BYTES

FILE_NAME = "vault.key"
CREDENTIAL = "toolhall-vault-key"
SERVICE, ENTRY = "toolhall", "vault-key"  # in the keyring
SETTING = "TOOLHALL_VAULT_KEY"
_MOST_BYTES = 4096
_STANDARD = str.maketrans("-_", "+/", "=")
_FORM = "a vault key is 32 random bytes in base64, as 'toolhall secret key' prints it"


class Place(Protocol):
    """Keeps keys, the one that seals first."""

    def read(self) -> tuple[bytes, ...]:
        """Every key there, none if there is none; raises StoreFailed for what cannot be used."""
        ...

    def make(self, key: bytes, /) -> None:
        """Keep this one if there is none yet; raises StoreFailed."""
        ...

    def write(self, keys: Sequence[bytes], /) -> None:
        """Keep these instead; raises StoreFailed."""
        ...


class Given:
    """Keys that somebody else keeps, and only that one changes."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    def read(self) -> tuple[bytes, ...]:
        """Every key there, none if there is none; raises StoreFailed for what cannot be used."""
        return parsed(self._text, self._name)

    def make(self, _: bytes, /) -> None:
        """Somebody gave a text without a key; that is put right there, not here."""
        raise StoreFailed(f"{self._name} holds no key; {_FORM}")

    def write(self, _: Sequence[bytes], /) -> None:
        """Only the one who gave them can."""
        raise StoreFailed(
            f"the vault key comes from {self._name}, which only you can change: put the new key before the old one"
            " there, restart, rotate without a new one, then take the old one out"
        )


class Unkept:
    """Keys that end with the process, like everything else of a hall without a folder."""

    def __init__(self) -> None:
        self._keys: tuple[bytes, ...] = ()

    def read(self) -> tuple[bytes, ...]:
        """Every key there, none if there is none."""
        return self._keys

    def make(self, key: bytes, /) -> None:
        """Keep this one if there is none yet."""
        self._keys = self._keys or (key,)

    def write(self, keys: Sequence[bytes], /) -> None:
        """Keep these instead."""
        self._keys = tuple(keys)


class KeyFile:
    """A file that only its owner can read, in the data folder: a backup of the folder holds key and secrets both."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[bytes, ...]:
        """Every key there, none if there is no file; raises StoreFailed for what cannot be used."""
        try:
            with self._path.open("rb") as file:
                self._refuse_open_to_others(os.fstat(file.fileno()))
                text = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreFailed(f"{self._path} cannot be read: {error.strerror}; give this user the right to") from None
        keys = parsed(text.decode("ascii", "replace"), str(self._path))
        if not keys:
            raise StoreFailed(f"{self._path} holds no key; restore it from a backup, or remove it if nothing is sealed")
        return keys

    def make(self, key: bytes, /) -> None:
        """A link appears whole or not at all: of two processes, both use the first one's key."""
        with self._draft([key]) as draft, contextlib.suppress(FileExistsError):
            os.link(draft, self._path)

    def write(self, keys: Sequence[bytes], /) -> None:
        """Whole or not at all, and on the disk before anything is sealed with it."""
        with self._draft(keys) as draft:
            draft.replace(self._path)

    @contextlib.contextmanager
    def _draft(self, keys: Sequence[bytes]) -> Generator[Path]:
        try:
            descriptor, name = tempfile.mkstemp(dir=self._path.parent)  # made with mode 0600
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write("".join(f"{written(key)}\n" for key in keys).encode())
                    file.flush()
                    os.fsync(file.fileno())
                yield Path(name)
            finally:
                Path(name).unlink(missing_ok=True)
            self._sync_folder()
        except OSError as error:
            raise StoreFailed(f"{self._path} cannot be written: {error.strerror}; put this right") from None

    def _sync_folder(self) -> None:
        """A name is on the disk once its folder is; Windows has no such thing."""
        if os.name == "posix":
            descriptor = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _refuse_open_to_others(self, found: os.stat_result) -> None:
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise StoreFailed(
                f"{self._path} can be read by others (mode {stat.S_IMODE(found.st_mode):04o}); run: chmod 600"
                f" {self._path}; if others use this machine, rotate the key too"
            )


class Keyring:
    """The keyring of the system, through the package `keyring`; it is loaded when it is asked."""

    def read(self) -> tuple[bytes, ...]:
        """Every key there, none if there is none; raises StoreFailed for what cannot be used."""
        text = self._asked("get_password", SERVICE, ENTRY)
        return parsed(text or "", "the system's keyring")

    def make(self, key: bytes, /) -> None:
        """Keep this one if there is none yet."""
        if not self.read():
            self.write([key])

    def write(self, keys: Sequence[bytes], /) -> None:
        """Keep these instead; some keyrings take everything and keep nothing."""
        self._asked("set_password", SERVICE, ENTRY, " ".join(map(written, keys)))
        if self.read() != tuple(keys):
            raise StoreFailed(f"the system's keyring did not keep the vault key; set {SETTING} instead")

    def _asked(self, method: str, *given: str) -> Any:
        try:
            keyring = importlib.import_module("keyring")
            errors = importlib.import_module("keyring.errors")
        except ImportError:
            raise StoreFailed("the keyring needs a package more: pip install 'toolhall[keyring]'") from None
        try:
            return getattr(keyring, method)(*given)
        except errors.KeyringError as error:
            # Its text is a backend's own, and may be long; what it was given is not repeated.
            raise StoreFailed(
                f"the system's keyring cannot be used ({type(error).__name__}); unlock it, or set {SETTING} instead"
            ) from None


def parsed(text: str, name: str) -> tuple[bytes, ...]:
    """The keys of a text, separated by blanks or commas; raises StoreFailed, and never repeats what it was given."""
    keys = [_key(each, name) for each in re.split(r"[\s,]+", text) if each]
    return tuple(dict.fromkeys(keys))


def written(key: bytes) -> str:
    """A key as a text."""
    return base64.b64encode(key).decode()


def _key(text: str, name: str) -> bytes:
    plain = text.translate(_STANDARD)
    try:
        key = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreFailed(f"{name} holds what is no key; {_FORM}")
    return key
