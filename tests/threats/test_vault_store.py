# ruff: noqa: N802 - tests carry the names of their rows
"""J4, J6, J7: whoever reads or writes the files of a hall, but has not its vault key, gets no secret."""

import logging
import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.redaction.secret_encodings import EVERY, SECRET
from toolhall.model.secret import Secret
from toolhall.stores.common import DATABASE_FILE, StoreFailed
from toolhall.stores.crypto import MAC_COLUMN, ROOT_KEY_FILE, RowMac
from toolhall.stores.open import open_stores
from toolhall.stores.vault.key_sources import (
    KeyEncryptionKeys,
    KeyProfile,
    find_key_encryption_keys,
    format_key,
    generate_key,
)
from toolhall.stores.vault.vault import Vault

COPIED = """
INSERT INTO secrets SELECT 'copied', name, 'bob', sealed, dek, hint, by, created_at, changed_at, mac
FROM secrets WHERE user = 'alice'
"""


class OpenVault:
    """A vault in a folder, as a hall opens it."""

    def __init__(self, folder: Path, profile: KeyProfile = "local") -> None:
        self._stores = open_stores(folder, allow_readonly=False)
        self.vault = Vault(find_key_encryption_keys(None, folder, profile=profile, environment={}))

    async def __aenter__(self) -> Vault:
        try:
            await self.vault.open(self._stores.vault)
        except StoreFailed:
            self._stores.close()
            raise
        return self.vault

    async def __aexit__(self, *_: object) -> None:
        self.vault.close()
        self._stores.close()


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A hall that stopped, with a secret of Alice's and one of Bob's."""
    async with OpenVault(tmp_path / "data") as vault:
        await vault.set("TOKEN", Secret(SECRET), "alice", "alice")
        await vault.set("OTHER", Secret("what Bob may have"), "bob", "bob")
    return tmp_path / "data"


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def alter_database(folder: Path, statement: str, *values: object) -> None:
    """An insider with a SQL shell."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection, connection:
        assert connection.execute(statement, values).rowcount == 1


def sign_again(folder: Path, table: str, row_id: str) -> None:
    """An insider who has the key of the folder's codes as well, though not the vault's."""
    macs = RowMac((folder / ROOT_KEY_FILE).read_bytes())
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection, connection:
        connection.row_factory = sqlite3.Row
        (row,) = connection.execute(f"SELECT * FROM {table} WHERE id = ?", [row_id])
        code = macs.with_mac(table, dict(row))[MAC_COLUMN]
        connection.execute(f"UPDATE {table} SET mac = ? WHERE id = ?", [code, row_id])


@pytest.mark.threat("J4")
async def test_J4_secret_value_is_in_no_file_or_log_line_in_any_encoding(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Set, changed, used, rotated and removed: its value is in no file of the folder and no log, however written."""

    def look() -> None:
        found = b"".join(path.read_bytes() for path in files_of(folder))
        assert b"TOKEN" in found, "this is where it would be"
        for form, spelled in EVERY.items():
            assert spelled(SECRET).encode() not in found, form
            assert spelled(SECRET) not in caplog.text, form
        for part in (SECRET[:8], SECRET[-8:], SECRET[::-1]):
            assert part.encode() not in found

    look()
    with caplog.at_level(logging.DEBUG):
        async with OpenVault(folder) as vault:
            await vault.set("TOKEN", Secret(SECRET), None, "local")
            await vault.set("TOKEN", Secret(SECRET + SECRET), None, "local")
            assert vault.get("TOKEN", "alice") == Secret(SECRET)
            look()
            await vault.rotate(generate_key())
            await vault.remove("TOKEN", None)
            look()
    look()


@pytest.mark.threat("J4")
@pytest.mark.parametrize("profile", ["local", "server"])
async def test_J4_backup_without_the_vault_key_decrypts_nothing_and_does_not_start(
    folder: Path, profile: KeyProfile
) -> None:
    """Whoever has every other file of the folder has ciphertext, and a hall does not start with it."""
    keks = find_key_encryption_keys(None, folder, profile="local", environment={})
    assert isinstance(keks, KeyEncryptionKeys)
    (folder / "vault.key").unlink()
    found = [path.read_bytes() for path in files_of(folder)]
    assert not [
        each for each in found for form in (bytes(keks.keys[0]), format_key(keks.keys[0]).encode()) if form in each
    ]
    with pytest.raises(StoreFailed, match="the key that decrypts them is missing: restore it"):
        async with OpenVault(folder, profile):
            pass
    assert not (folder / "vault.key").exists(), "and none is made in its place"


@pytest.mark.threat("J6")
@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
async def test_J6_vault_key_and_database_are_mode_0600_whatever_the_umask(tmp_path: Path) -> None:
    """Whatever the umask, the folder is 0700, and the vault key, also a new one, and the database are 0600."""
    data = tmp_path / "data"
    before = os.umask(0)
    try:
        async with OpenVault(data) as vault:
            await vault.set("TOKEN", Secret(SECRET), None, "local")
            await vault.rotate(generate_key())
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (data, *data.rglob("*"))}
    finally:
        os.umask(before)
    assert {"data", "vault.key", DATABASE_FILE, f"{DATABASE_FILE}-wal"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode != (0o700 if name == "data" else 0o600)} == {}


@pytest.mark.threat("J7")
@pytest.mark.parametrize("signed", [False, True], ids=["by SQL", "with the key of the codes"])
@pytest.mark.parametrize(
    "statement",
    [COPIED, "UPDATE secrets SET user = 'bob' WHERE user = 'alice'"],
    ids=["copied", "moved"],
)
async def test_J7_secret_row_copied_or_moved_to_another_user_by_sql_is_refused(
    folder: Path, statement: str, signed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Alice's secret, copied or moved to Bob by SQL, does not open, and the log says so; even with a valid code."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        ((alices,),) = connection.execute("SELECT id FROM secrets WHERE user = 'alice'")
    alter_database(folder, statement)
    if signed:
        sign_again(folder, "secrets", "copied" if statement == COPIED else alices)
    with caplog.at_level(logging.ERROR):
        async with OpenVault(folder) as vault:
            assert vault.get("TOKEN", "bob") is None
            assert vault.get("OTHER", "bob") == Secret("what Bob may have")
            assert (vault.get("TOKEN", "alice") is not None) == (statement == COPIED)
    said = "the secret TOKEN of bob is refused" if signed else "is left out: another program changed it"
    assert said in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.threat("J7")
@pytest.mark.parametrize("signed", [False, True], ids=["by SQL", "with the key of the codes"])
@pytest.mark.parametrize(
    "change",
    [
        "sealed = (SELECT sealed FROM secrets WHERE user = 'alice')",
        "dek = (SELECT dek FROM secrets WHERE user = 'alice')",
        "(sealed, dek) = (SELECT sealed, dek FROM secrets WHERE user = 'alice')",
        "sealed = substr(sealed, 1, length(sealed) - 1)",
        "sealed = zeroblob(60)",
        "sealed = zeroblob(0)",
        "name = 'TOKEN'",
        "dek = 'none'",
    ],
)
async def test_J7_secret_row_with_an_exchanged_column_is_refused(
    folder: Path, change: str, signed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Bob's row with Alice's value, another name, or less than all of itself is good for nothing."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        ((bobs,),) = connection.execute("SELECT id FROM secrets WHERE user = 'bob'")
    alter_database(folder, f"UPDATE secrets SET {change} WHERE id = ?", bobs)
    if signed:
        sign_again(folder, "secrets", bobs)
    with caplog.at_level(logging.ERROR):
        async with OpenVault(folder) as vault:
            assert (vault.get("TOKEN", "bob"), vault.get("OTHER", "bob")) == (None, None)
            assert vault.get("TOKEN", "alice") == Secret(SECRET)
    assert "is left out" in caplog.text or "is refused" in caplog.text


@pytest.mark.threat("J7")
@pytest.mark.parametrize("signed", [False, True], ids=["by SQL", "with the key of the codes"])
async def test_J7_data_key_assigned_to_another_user_by_sql_is_refused(
    folder: Path, signed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Alice's data key, written down as Bob's so that his secrets are sealed with what she has, is left out."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        ((bobs,),) = connection.execute("SELECT id FROM data_keys WHERE tenant = 'user:bob'")
    alices = "(SELECT wrapped FROM data_keys WHERE tenant = 'user:alice')"
    alter_database(folder, f"UPDATE data_keys SET wrapped = {alices} WHERE id = ?", bobs)
    if signed:
        sign_again(folder, "data_keys", bobs)
    with caplog.at_level(logging.ERROR):
        async with OpenVault(folder) as vault:
            assert vault.get("OTHER", "bob") is None
            assert vault.get("TOKEN", "alice") == Secret(SECRET)
    assert "is left out" in caplog.text


@pytest.mark.threat("J7")
@pytest.mark.parametrize("signed", [False, True], ids=["by SQL", "with the key of the codes"])
@pytest.mark.parametrize("table", ["secrets", "data_keys"])
async def test_J7_tampered_user_secret_does_not_fall_back_to_the_shared_secret(
    folder: Path, table: str, signed: bool
) -> None:
    """Alice's own secret, changed in the file, is refused; she does not act with everybody's instead."""
    async with OpenVault(folder) as vault:
        await vault.set("TOKEN", Secret("what everybody has"), None, "local")
    owner, column = ("user = 'alice'", "sealed") if table == "secrets" else ("tenant = 'user:alice'", "wrapped")
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        ((alices,),) = connection.execute(f"SELECT id FROM {table} WHERE {owner}")
    alter_database(folder, f"UPDATE {table} SET {column} = zeroblob(60) WHERE id = ?", alices)
    if signed:
        sign_again(folder, table, alices)
    async with OpenVault(folder) as vault:
        for _ in range(2):
            assert vault.get("TOKEN", "alice") is None
            assert vault.get("TOKEN", "bob") == Secret("what everybody has")
            usable = {each.user: each.usable for each in await vault.list() if each.name == "TOKEN"}
            assert usable == {None: True, "alice": False}
            await vault.rotate(generate_key())
        await vault.set("TOKEN", Secret(SECRET), "alice", "alice")
        assert vault.get("TOKEN", "alice") == Secret(SECRET)
