"""Key-encryption keys and where they come from: setting, systemd credential, system keyring or key file.

find_key_encryption_keys returns KeyEncryptionKeys, or NoKey where there is none yet; only the local profile creates
one by itself, because a server's operator must know that it has to be backed up.
"""

import base64
import binascii
import contextlib
import importlib
import os
import re
import secrets
import stat
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from toolhall.stores.common import StoreFailed
from toolhall.stores.vault.envelope import KEY_BYTES, kek_id

VAULT_KEY_FILE = "vault.key"
SYSTEMD_CREDENTIAL = "toolhall-vault-key"
KEYRING_SERVICE, KEYRING_ENTRY = "toolhall", "vault-key"  # in the keyring
VAULT_KEY_SETTING = "TOOLHALL_VAULT_KEY"
_MAX_FILE_BYTES = 4096
_URLSAFE_TO_STANDARD = str.maketrans("-_", "+/", "=")
_FORMAT_HELP = "a vault key is 32 random bytes in base64, as 'toolhall secret key' prints it"
KeyProfile: TypeAlias = Literal["local", "server"]
USE_KEYRING = "keyring"  # this word in place of a key in the setting
_FIX = (
    f"set {VAULT_KEY_SETTING} (or {VAULT_KEY_SETTING}_FILE) to what 'toolhall secret key' prints, or to"
    f" {USE_KEYRING} for the system's keyring"
)


class KeySource(Protocol):
    """A source of key-encryption keys, the one that encrypts first."""

    def read(self) -> tuple[bytes, ...]:
        """Return all keys, none if there is none; raises StoreFailed for invalid content."""
        ...

    def create(self, key: bytes, /) -> None:
        """Store this key if there is none yet; raises StoreFailed."""
        ...

    def write(self, keys: Sequence[bytes], /) -> None:
        """Replace all keys; raises StoreFailed."""
        ...


class StaticKey:
    """Keys from a setting or a credential, which only the operator can change."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    def read(self) -> tuple[bytes, ...]:
        """Return all keys, none if there is none; raises StoreFailed for invalid content."""
        return parse_keys(self._text, self._name)

    def create(self, _: bytes, /) -> None:
        """Raise StoreFailed: the operator gave a text without a key."""
        raise StoreFailed(f"{self._name} holds no key; {_FORMAT_HELP}")

    def write(self, _: Sequence[bytes], /) -> None:
        """Raise StoreFailed: only the operator can change the keys."""
        raise StoreFailed(
            f"the vault key comes from {self._name}, which only you can change: put the new key before the old one"
            " there, restart, rotate without a new one, then remove the old one"
        )


class EphemeralKey:
    """Keys in memory, for a hall without a data folder."""

    def __init__(self) -> None:
        self._keys: tuple[bytes, ...] = ()

    def read(self) -> tuple[bytes, ...]:
        """Return all keys, none if there is none."""
        return self._keys

    def create(self, key: bytes, /) -> None:
        """Store this key if there is none yet."""
        self._keys = self._keys or (key,)

    def write(self, keys: Sequence[bytes], /) -> None:
        """Replace all keys."""
        self._keys = tuple(keys)


class KeyFile:
    """A key file in the data folder, readable by its owner only; a backup of the folder has key and secrets."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[bytes, ...]:
        """Return all keys, none if there is no file; raises StoreFailed for invalid content or open permissions."""
        try:
            with self._path.open("rb") as file:
                self._check_permissions(os.fstat(file.fileno()))
                text = file.read(_MAX_FILE_BYTES)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreFailed(
                f"{self._path} cannot be read: {error.strerror}; give this user permission to read it"
            ) from None
        keys = parse_keys(text.decode("ascii", "replace"), str(self._path))
        if not keys:
            raise StoreFailed(
                f"{self._path} holds no key; restore it from a backup, or remove it if no secret is stored"
            )
        return keys

    def create(self, key: bytes, /) -> None:
        """Create the file atomically by os.link: of two processes, both use the first one's key."""
        with self._temporary_file([key]) as draft, contextlib.suppress(FileExistsError):
            os.link(draft, self._path)

    def write(self, keys: Sequence[bytes], /) -> None:
        """Replace the file atomically and durably, before anything is encrypted with a new key."""
        with self._temporary_file(keys) as draft:
            draft.replace(self._path)

    @contextlib.contextmanager
    def _temporary_file(self, keys: Sequence[bytes]) -> Generator[Path]:
        import tempfile  # lazy: the compression libraries, only where there is no key yet

        try:
            descriptor, name = tempfile.mkstemp(dir=self._path.parent)  # made with mode 0600
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write("".join(f"{format_key(key)}\n" for key in keys).encode())
                    file.flush()
                    os.fsync(file.fileno())
                yield Path(name)
            finally:
                Path(name).unlink(missing_ok=True)
            self._sync_folder()
        except OSError as error:
            raise StoreFailed(f"{self._path} cannot be written: {error.strerror}; fix this, then try again") from None

    def _sync_folder(self) -> None:
        """Sync the folder, which makes the file's name durable; Windows cannot do that."""
        if os.name == "posix":
            descriptor = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _check_permissions(self, found: os.stat_result) -> None:
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise StoreFailed(
                f"{self._path} can be read by others (mode {stat.S_IMODE(found.st_mode):04o}); run: chmod 600"
                f" {self._path}; if others use this machine, rotate the key too"
            )


class SystemKeyring:
    """The system's keyring, through the package `keyring`, which is imported on use."""

    def read(self) -> tuple[bytes, ...]:
        """Return all keys, none if there is none; raises StoreFailed for invalid content."""
        text = self._call("get_password", KEYRING_SERVICE, KEYRING_ENTRY)
        return parse_keys(text or "", "the system's keyring")

    def create(self, key: bytes, /) -> None:
        """Store this key if there is none yet."""
        if not self.read():
            self.write([key])

    def write(self, keys: Sequence[bytes], /) -> None:
        """Replace all keys and read them back, because some keyrings accept everything and store nothing."""
        self._call("set_password", KEYRING_SERVICE, KEYRING_ENTRY, " ".join(map(format_key, keys)))
        if self.read() != tuple(keys):
            raise StoreFailed(f"the system's keyring did not keep the vault key; set {VAULT_KEY_SETTING} instead")

    def _call(self, method: str, *args: str) -> Any:
        try:
            keyring = importlib.import_module("keyring")
            errors = importlib.import_module("keyring.errors")
        except ImportError:
            raise StoreFailed("the keyring needs another package: pip install 'toolhall[keyring]'") from None
        try:
            return getattr(keyring, method)(*args)
        except errors.KeyringError as error:
            # The backend's own text may be long, and may contain what it was given.
            raise StoreFailed(
                f"the system's keyring cannot be used ({type(error).__name__}); unlock it, or set"
                f" {VAULT_KEY_SETTING} instead"
            ) from None


def parse_keys(text: str, name: str) -> tuple[bytes, ...]:
    """Parse keys separated by blanks or commas; raises StoreFailed, whose message never contains the text."""
    keys = [_parse_key(each, name) for each in re.split(r"[\s,]+", text) if each]
    return tuple(dict.fromkeys(keys))


def format_key(key: bytes) -> str:
    """Return a key as base64."""
    return base64.b64encode(key).decode()


def _parse_key(text: str, name: str) -> bytes:
    plain = text.translate(_URLSAFE_TO_STANDARD)
    try:
        key = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreFailed(f"{name} holds something that is not a key; {_FORMAT_HELP}")
    return key


class KeyEncryptionKeys:
    """The available key-encryption keys: the first one encrypts, all of them decrypt."""

    def __init__(self, keys: tuple[bytes, ...], source: KeySource, profile: KeyProfile = "local") -> None:
        self.keys = keys
        self._source = source
        self._profile: KeyProfile = profile

    @property
    def primary_id(self) -> str:
        """The id of the key that encrypts."""
        return kek_id(self.keys[0])

    def reload(self) -> "KeyEncryptionKeys | NoKey":
        """Read the source again, because another process may have added a key."""
        return _load_keys(self._source, self._profile)

    def prepend(self, text: str) -> "KeyEncryptionKeys":
        """Store this new key before the others; raises StoreFailed."""
        new = parse_keys(text, "the new key")
        if len(new) != 1:
            raise StoreFailed("give exactly one new key, as 'toolhall secret key' prints it")
        return self._replace((*new, *(key for key in self.keys if key not in new)))

    def keep_primary(self) -> "KeyEncryptionKeys":
        """Store the first key only; raises StoreFailed."""
        return self._replace(self.keys[:1])

    def _replace(self, keys: tuple[bytes, ...]) -> "KeyEncryptionKeys":
        self._source.write(keys)
        return KeyEncryptionKeys(keys, self._source, self._profile)

    def __repr__(self) -> str:
        return f"<{len(self.keys)} vault keys>"


class NoKey:
    """A source without a key so far."""

    def __init__(self, source: KeySource, profile: KeyProfile) -> None:
        self._source = source
        self._profile: KeyProfile = profile

    @property
    def can_create(self) -> bool:
        """Whether a key is made when the first one is needed."""
        return self._profile == "local"

    @property
    def fix(self) -> str:
        """How to provide a key."""
        return f"there is no key for the vault; {_FIX}"

    def reload(self) -> "KeyEncryptionKeys | NoKey":
        """Read the source again, because another process may have created a key."""
        return _load_keys(self._source, self._profile)

    def create(self) -> KeyEncryptionKeys:
        """Create a key; raises StoreFailed in the server profile, whose operator must know that it needs a backup."""
        if not self.can_create:
            raise StoreFailed(self.fix)
        self._source.create(secrets.token_bytes(KEY_BYTES))
        found = self.reload()
        if isinstance(found, NoKey):
            raise StoreFailed(found.fix)
        return found


def find_key_encryption_keys(
    setting: str | None, folder: Path | None, *, profile: KeyProfile, environment: Mapping[str, str] = os.environ
) -> KeyEncryptionKeys | NoKey:
    """Read the keys from the setting, else systemd's credential, else the data folder; raises StoreFailed."""
    return _load_keys(_select_source(setting, folder, environment), profile)


def generate_key() -> str:
    """Return a new random key as text, as the setting takes it."""
    return format_key(secrets.token_bytes(KEY_BYTES))


def _select_source(setting: str | None, folder: Path | None, environment: Mapping[str, str]) -> KeySource:
    if setting is not None:
        return SystemKeyring() if setting.strip() == USE_KEYRING else StaticKey(setting, VAULT_KEY_SETTING)
    credential = _systemd_credential(environment)
    if credential is not None:
        return credential
    return EphemeralKey() if folder is None else KeyFile(folder / VAULT_KEY_FILE)


def _systemd_credential(environment: Mapping[str, str]) -> StaticKey | None:
    """Return the key in systemd's credential; systemd protects it by other means than file modes."""
    folder = environment.get("CREDENTIALS_DIRECTORY")
    path = Path(folder) / SYSTEMD_CREDENTIAL if folder else None
    if path is None or not path.exists():
        return None
    try:
        return StaticKey(path.read_text("ascii"), f"systemd's credential {SYSTEMD_CREDENTIAL}")
    except (OSError, UnicodeDecodeError):
        raise StoreFailed(f"systemd's credential {SYSTEMD_CREDENTIAL} cannot be read as text; set it again") from None


def _load_keys(source: KeySource, profile: KeyProfile) -> KeyEncryptionKeys | NoKey:
    keys = source.read()
    return KeyEncryptionKeys(keys, source, profile) if keys else NoKey(source, profile)
