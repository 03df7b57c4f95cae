"""Where the key of a vault comes from, and what is refused."""

import base64
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.stores.vault.vaults import NEW, OLD
from toolhall.stores.common import StoreFailed
from toolhall.stores.vault.key_sources import (
    SYSTEMD_CREDENTIAL,
    VAULT_KEY_FILE,
    KeyEncryptionKeys,
    KeyFile,
    KeyProfile,
    NoKey,
    find_key_encryption_keys,
    format_key,
    generate_key,
)

PROFILES: tuple[KeyProfile, ...] = ("local", "server")


def keys_of(found: KeyEncryptionKeys | NoKey) -> tuple[bytes, ...]:
    assert isinstance(found, KeyEncryptionKeys)
    return found.keys


def found_in(
    folder: Path | None, profile: KeyProfile = "local", setting: str | None = None
) -> KeyEncryptionKeys | NoKey:
    return find_key_encryption_keys(setting, folder, profile=profile, environment={})


def test_generate_key_returns_a_unique_key_that_the_setting_accepts() -> None:
    one, other = generate_key(), generate_key()
    assert one != other
    assert keys_of(found_in(None, setting=one)) == (base64.b64decode(one),)


@pytest.mark.parametrize("between", [" ", ",", "\n", " , ", "\t\r\n"])
def test_vault_key_setting_accepts_several_keys_separated_by_whitespace_or_commas(between: str) -> None:
    text = f"\n{between.join([format_key(NEW), format_key(OLD), format_key(NEW)])}\n"
    assert keys_of(found_in(None, setting=text)) == (NEW, OLD)


def test_vault_key_setting_accepts_standard_url_safe_and_unpadded_base64() -> None:
    key = b"\xfb\xff" * 16
    for text in (base64.b64encode(key), base64.urlsafe_b64encode(key), base64.b64encode(key).rstrip(b"=")):
        assert keys_of(found_in(None, setting=text.decode())) == (key,)


@pytest.mark.parametrize(
    "wrong",
    [
        "hunter2",
        "correct horse battery staple",
        format_key(OLD)[:-4],
        format_key(OLD + b"x"),
        OLD.hex(),
        "ä" * 44,
        "=" * 44,
    ],
)
def test_vault_key_setting_that_is_no_key_is_refused_without_repeating_it(wrong: str) -> None:
    with pytest.raises(StoreFailed, match="'toolhall secret key' prints") as raised:
        found_in(None, setting=wrong)
    assert wrong.split(maxsplit=1)[0] not in str(raised.value)


def test_repr_of_key_encryption_keys_contains_no_key() -> None:
    shown = f"{found_in(None, setting=format_key(OLD))!r} {found_in(None)!r}"
    assert format_key(OLD) not in shown
    assert repr(OLD)[2:20] not in shown


@pytest.mark.parametrize("setting", ["", " "])
def test_empty_vault_key_setting_raises_store_failed_when_a_key_is_needed(setting: str, tmp_path: Path) -> None:
    found = found_in(tmp_path, setting=setting)
    assert isinstance(found, NoKey)
    with pytest.raises(StoreFailed, match="TOOLHALL_VAULT_KEY holds no key"):
        found.create()


def test_vault_key_precedence_is_setting_then_systemd_credential_then_key_file(tmp_path: Path) -> None:
    (tmp_path / SYSTEMD_CREDENTIAL).write_text(format_key(NEW))
    KeyFile(tmp_path / VAULT_KEY_FILE).create(OLD)
    systemd = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert keys_of(find_key_encryption_keys(generate_key(), tmp_path, profile="server", environment=systemd)) not in (
        (OLD,),
        (NEW,),
    )
    assert keys_of(find_key_encryption_keys(None, tmp_path, profile="server", environment=systemd)) == (NEW,)
    (tmp_path / SYSTEMD_CREDENTIAL).unlink()
    assert keys_of(find_key_encryption_keys(None, tmp_path, profile="server", environment=systemd)) == (OLD,)


def test_systemd_credential_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / SYSTEMD_CREDENTIAL).write_bytes(b"\xff" * 32)
    with pytest.raises(StoreFailed, match="set it again"):
        find_key_encryption_keys(None, None, profile="server", environment={"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_local_vault_key_is_created_on_demand_and_kept(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    assert isinstance(found, NoKey)
    assert list(tmp_path.iterdir()) == []
    made = found.create()
    assert len(made.keys[0]) == 32
    assert [each.name for each in tmp_path.iterdir()] == [VAULT_KEY_FILE]
    assert keys_of(found_in(tmp_path)) == keys_of(found.reload()) == found.create().keys == made.keys


@pytest.mark.parametrize("folder", [True, False])
def test_server_vault_key_is_never_created(tmp_path: Path, folder: bool) -> None:
    found = found_in(tmp_path if folder else None, "server")
    assert isinstance(found, NoKey)
    with pytest.raises(StoreFailed, match=r"set TOOLHALL_VAULT_KEY .* to what 'toolhall secret key' prints"):
        found.create()
    assert list(tmp_path.iterdir()) == []


def test_vault_key_without_data_folder_lives_in_memory_only() -> None:
    found = found_in(None)
    assert isinstance(found, NoKey)
    assert keys_of(found.create()) == keys_of(found.reload())
    assert isinstance(found_in(None), NoKey)


def test_local_vault_key_created_concurrently_is_one_key(tmp_path: Path) -> None:
    def made(found: KeyEncryptionKeys | NoKey) -> tuple[bytes, ...]:
        assert isinstance(found, NoKey)
        return found.create().keys

    for attempt in range(10):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with ThreadPoolExecutor(8) as threads:
            keys = set(threads.map(made, [found_in(folder) for _ in range(8)]))
        assert keys == {keys_of(found_in(folder))}
        assert [each.name for each in folder.iterdir()] == [VAULT_KEY_FILE]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
@pytest.mark.parametrize("profile", PROFILES)
def test_vault_key_file_with_group_or_other_permissions_is_refused(
    tmp_path: Path, mode: int, profile: KeyProfile
) -> None:
    KeyFile(tmp_path / VAULT_KEY_FILE).create(OLD)
    (tmp_path / VAULT_KEY_FILE).chmod(mode)
    with pytest.raises(StoreFailed, match=f"mode {mode:04o}.*chmod 600"):
        found_in(tmp_path, profile)


@pytest.mark.parametrize("content", ["", "\n", "half a key", format_key(OLD)[:20]])
def test_truncated_vault_key_file_is_refused_and_left_unchanged(tmp_path: Path, content: str) -> None:
    """Unlike the root key, this one may have sealed something, and is nowhere else."""
    path = tmp_path / VAULT_KEY_FILE
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(StoreFailed, match=r"no key|not a key"):
        found_in(tmp_path)
    assert path.read_text() == content


def test_vault_key_path_that_is_a_folder_or_missing_raises_store_failed(tmp_path: Path) -> None:
    (tmp_path / VAULT_KEY_FILE).mkdir(mode=0o700)
    with pytest.raises(StoreFailed, match="cannot be read"):
        found_in(tmp_path)
    with pytest.raises(StoreFailed, match="cannot be written"):
        KeyFile(tmp_path / "gone" / VAULT_KEY_FILE).create(OLD)


def test_prepend_makes_a_key_primary_and_keep_primary_drops_the_others(tmp_path: Path) -> None:
    KeyFile(tmp_path / VAULT_KEY_FILE).create(OLD)
    found = found_in(tmp_path)
    assert isinstance(found, KeyEncryptionKeys)
    both = found.prepend(format_key(NEW))
    assert both.keys == keys_of(found_in(tmp_path)) == (NEW, OLD)
    assert both.prepend(format_key(OLD)).keys == (OLD, NEW)
    assert both.keep_primary().keys == keys_of(found_in(tmp_path)) == (NEW,)
    assert [each.name for each in tmp_path.iterdir()] == [VAULT_KEY_FILE]
    assert (tmp_path / VAULT_KEY_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "short", f"{format_key(OLD)} {format_key(NEW)}"])
def test_prepend_of_anything_but_one_key_raises_store_failed(tmp_path: Path, text: str) -> None:
    KeyFile(tmp_path / VAULT_KEY_FILE).create(OLD)
    found = found_in(tmp_path)
    assert isinstance(found, KeyEncryptionKeys)
    with pytest.raises(StoreFailed):
        found.prepend(text)
    assert keys_of(found_in(tmp_path)) == (OLD,)


def test_prepend_to_a_key_from_a_setting_raises_store_failed() -> None:
    found = found_in(None, setting=format_key(OLD))
    assert isinstance(found, KeyEncryptionKeys)
    with pytest.raises(StoreFailed, match="put the new key before the old one"):
        found.prepend(format_key(NEW))


def test_vault_key_is_read_from_the_systemd_credential_of_the_process_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / SYSTEMD_CREDENTIAL).write_text(format_key(NEW))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert os.environ["CREDENTIALS_DIRECTORY"]
    assert keys_of(find_key_encryption_keys(None, None, profile="server")) == (NEW,)
