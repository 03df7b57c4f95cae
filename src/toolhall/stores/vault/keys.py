"""Finds the key-encryption keys of a vault; where there is none, says whether one may be made, or what to do."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from toolhall.stores.base import StoreFailed
from toolhall.stores.vault.envelope import KEY_BYTES, kek_id
from toolhall.stores.vault.places import (
    CREDENTIAL,
    FILE_NAME,
    SETTING,
    Given,
    KeyFile,
    Keyring,
    Place,
    Unkept,
    parsed,
    written,
)

Profile: TypeAlias = Literal["local", "server"]
KEYRING = "keyring"  # the word that stands for a key in the setting
_FIX = f"set {SETTING} (or {SETTING}_FILE) to what 'toolhall secret key' prints, or to {KEYRING} for the system's one"


class Keks:
    """Keys that are there: the first one seals, every one opens."""

    def __init__(self, keys: tuple[bytes, ...], place: Place, profile: Profile = "local") -> None:
        self.keys = keys
        self._place = place
        self._profile: Profile = profile

    @property
    def first(self) -> str:
        """The id of the one that seals."""
        return kek_id(self.keys[0])

    def again(self) -> "Keks | NoKey":
        """What is there now: another process may have made a new one."""
        return _found(self._place, self._profile)

    def before_these(self, text: str) -> "Keks":
        """Keep this new key before the others; raises StoreFailed."""
        new = parsed(text, "the new key")
        if len(new) != 1:
            raise StoreFailed("the new key is one key, as 'toolhall secret key' prints it")
        return self._with((*new, *(key for key in self.keys if key not in new)))

    def only_first(self) -> "Keks":
        """Keep the first one alone; raises StoreFailed."""
        return self._with(self.keys[:1])

    def _with(self, keys: tuple[bytes, ...]) -> "Keks":
        self._place.write(keys)
        return Keks(keys, self._place, self._profile)

    def __repr__(self) -> str:
        return f"<{len(self.keys)} vault keys>"


class NoKey:
    """There is none yet."""

    def __init__(self, place: Place, profile: Profile) -> None:
        self._place = place
        self._profile: Profile = profile

    @property
    def fix(self) -> str:
        """What to do."""
        return f"there is no key for the vault; {_FIX}"

    def again(self) -> "Keks | NoKey":
        """What is there now: another process may have made one."""
        return _found(self._place, self._profile)

    def made(self) -> Keks:
        """Make one; a server's is never made unasked, since nobody would know that it must be kept."""
        if self._profile != "local":
            raise StoreFailed(self.fix)
        self._place.make(secrets.token_bytes(KEY_BYTES))
        found = self.again()
        if isinstance(found, NoKey):
            raise StoreFailed(found.fix)
        return found


def find_keks(
    setting: str | None, folder: Path | None, *, profile: Profile, environment: Mapping[str, str] = os.environ
) -> Keks | NoKey:
    """Look at the setting, then at systemd's credentials, then into the data folder; raises StoreFailed."""
    return _found(_place(setting, folder, environment), profile)


def new_key() -> str:
    """A new key as a text, as the setting takes it."""
    return written(secrets.token_bytes(KEY_BYTES))


def _place(setting: str | None, folder: Path | None, environment: Mapping[str, str]) -> Place:
    if setting is not None:
        return Keyring() if setting.strip() == KEYRING else Given(setting, SETTING)
    credential = _credential(environment)
    if credential is not None:
        return credential
    return Unkept() if folder is None else KeyFile(folder / FILE_NAME)


def _credential(environment: Mapping[str, str]) -> Given | None:
    """Systemd itself sees to it that nobody else reads these, by other means than modes."""
    folder = environment.get("CREDENTIALS_DIRECTORY")
    path = Path(folder) / CREDENTIAL if folder else None
    if path is None or not path.exists():
        return None
    try:
        return Given(path.read_text("ascii"), f"systemd's credential {CREDENTIAL}")
    except (OSError, UnicodeDecodeError):
        raise StoreFailed(f"systemd's credential {CREDENTIAL} cannot be read as a text; set it anew") from None


def _found(place: Place, profile: Profile) -> Keks | NoKey:
    keys = place.read()
    return Keks(keys, place, profile) if keys else NoKey(place, profile)
