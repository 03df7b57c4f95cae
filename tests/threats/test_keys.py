# ruff: noqa: N802 - tests carry the names of their rows
"""API keys: guessing one teaches nothing, and what is refused without a look costs nothing."""

import ast
import hmac
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import toolhall
from tests.unit.http.api.management_client import manage
from toolhall import Config, Toolhall
from toolhall.stores.access import ApiKey, ApiKeyToken, KeyRing, format_token, generate_token, token_digest
from toolhall.stores.common import DATABASE_FILE

SOURCE = Path(toolhall.__file__).parent
# Where values are handled that nobody may learn by trying, and what they are called there.
GUARDED = (
    "stores/access.py",
    "stores/crypto.py",
    "stores/sqlite.py",
    "stores/sql/base.py",
    "stores/sql/access.py",
    "stores/sql/access.py",
    "auth",
)
SECRETS = {"secret", "pepper", "mac", "digest", "_pepper", "_key"}
INJECTIONS = (
    "' OR '1'='1",
    "'; DROP TABLE api_keys; --",
    '" UNION SELECT * FROM grants --',
    "%' AND 1=(SELECT count(*) FROM tools) --",
    "\\'); DELETE FROM grants; --",
)


def ring_of(key: ApiKeyToken) -> KeyRing:
    ring = KeyRing(bytes(32), lambda: 1.0)
    ring.load([ApiKey(id=key.id, name="ci", digest=ring.digest_of(key), created_at=1.0, by="local")])
    return ring


@pytest.mark.threat("B12")
def test_B12_unknown_and_wrong_api_keys_take_the_same_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown id, and a secret that is wrong in its first or in its last character, take the same comparisons."""
    key = generate_token()
    ring = ring_of(key)
    late = key.secret[:-1] + ("A" if key.secret[-1] != "A" else "B")
    early = ("A" if key.secret[0] != "A" else "B") + key.secret[1:]
    steps: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counting(one: Any, other: Any) -> bool:
        steps.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    taken = []
    for wrong in (ApiKeyToken("x" * 12, key.secret), ApiKeyToken(key.id, early), ApiKeyToken(key.id, late)):
        steps.clear()
        assert ring.find(format_token(wrong), 1.0) is None
        taken.append(list(steps))
    assert taken == [[(6, 6), (32, 32)]] * 3


@pytest.mark.threat("B12")
def test_B12_no_secret_in_the_source_is_compared_with_an_ordinary_operator() -> None:
    """No `==`, `!=` or `in` touches a secret in the code that handles credentials: only comparison in constant time."""
    found = [
        f"{file.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for place in GUARDED
        for file in _files(SOURCE / place)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Compare) and _compares_secrets(node)
    ]
    assert found == []
    assert _compares_secrets(ast.parse("key.secret == given", mode="eval").body), "the rule must find something"


def _files(place: Path) -> Iterator[Path]:
    assert place.exists(), place
    yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _compares_secrets(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    by_value = any(isinstance(each, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for each in node.ops)
    return by_value and any(_name(each) in SECRETS for each in (node.left, *node.comparators))


def _name(node: ast.AST) -> object:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name
        case _:
            return None


@pytest.mark.threat("B13")
def test_B13_api_keys_with_a_wrong_checksum_are_refused_without_a_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that only look like keys are refused by their checksum, before anything is looked up or worked out."""
    ring = ring_of(generate_token())
    looked_up: list[str] = []

    def counting(pepper: bytes, key: ApiKeyToken) -> bytes:
        looked_up.append(key.id)
        return token_digest(pepper, key)

    monkeypatch.setattr("toolhall.stores.access.token_digest", counting)
    for _ in range(10_000):
        guess = format_token(generate_token())
        assert ring.find(guess[:-1] + ("A" if guess[-1] != "A" else "B"), 1.0) is None
    assert looked_up == []
    sound = generate_token()
    assert ring.find(format_token(sound), 1.0) is None
    assert looked_up == [sound.id]


@pytest.mark.threat("J5")
async def test_J5_sql_in_key_names_and_grants_is_stored_as_text(tmp_path: Path) -> None:
    """Names, ids and globs that are SQL change nothing but what they say: every statement has bound parameters."""
    with Toolhall(config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        made = (await manage(hall, "POST", "/api/keys", {"name": "ci"})).body
        for wrong in INJECTIONS:
            assert (await manage(hall, "POST", "/api/keys", {"name": wrong})).status == 409
            grant = {"callers": wrong.replace(" ", "+"), "tools": "*", "conditions": [{"path": "/a", "equals": wrong}]}
            assert (await manage(hall, "POST", "/api/grants", grant)).status == 201
            for path in ("/api/keys/", "/api/grants/"):
                assert (
                    await manage(hall, "DELETE", path + wrong.replace(" ", "%20").replace("%'", "%25'"))
                ).status == 404
        keys = (await manage(hall, "GET", "/api/keys")).body["keys"]
        grants = (await manage(hall, "GET", "/api/grants")).body["grants"]
    assert [key["id"] for key in keys] == [made["id"]]
    assert {grant["conditions"][0]["oneOf"][0] for grant in grants} == set(INJECTIONS)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM grants").fetchone() == (len(INJECTIONS),)


@pytest.mark.threat("J5")
def test_J5_store_source_builds_no_sql_from_strings() -> None:
    """No code of the stores builds SQL from strings; the pragmas are constants."""
    for file in _files(SOURCE / "stores"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="text") | ast.Attribute(attr="text")):
                    raise AssertionError(f"{file}:{node.lineno} builds SQL from a text")
                case ast.Call(func=ast.Attribute(attr="exec_driver_sql" | "execute"), args=[ast.JoinedStr(), *_]):
                    assert file.name == "sqlite.py", f"{file}:{node.lineno} formats SQL"
                case _:
                    pass


@pytest.mark.threat("J6")
@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
async def test_J6_data_folder_files_are_private_to_their_owner_whatever_the_umask(tmp_path: Path) -> None:
    """Whatever the umask, every file of the data folder is 0600, and every folder 0700."""
    before = os.umask(0)
    try:
        with Toolhall(config=Config(data=str(tmp_path / "data"))) as hall:
            await hall.open()
            await manage(hall, "POST", "/api/keys", {"name": "ci"})
            found = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
            modes = {str(each): stat.S_IMODE(each.stat().st_mode) for each in found}
    finally:
        os.umask(before)
    assert (tmp_path / "data" / DATABASE_FILE) in found
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.threat("J6")
@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
async def test_J6_files_readable_by_other_users_are_named_in_the_log_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A key, a database or a folder whose mode was changed is named at the next start, with the command that helps."""
    data = tmp_path / "the data"
    changed = {
        data: (0o755, "700"),
        data / "audit": (0o770, "700"),
        data / "audit" / "audit.key": (0o604, "600"),
        data / "state.key": (0o666, "600"),
        data / DATABASE_FILE: (0o620, "600"),
    }
    for started in range(2):
        with Toolhall(config=Config(data=str(data))) as hall:
            await hall.open()
            await manage(hall, "POST", "/api/keys", {"name": f"ci{started}"})
        if not started:
            assert "other users" not in caplog.text
            for path, (mode, _) in changed.items():
                path.chmod(mode)
    said = [each.getMessage() for each in caplog.records if "by other users" in each.getMessage()]
    for path, (mode, right) in changed.items():
        (line,) = (each for each in said if each.startswith(f"{path} can be "))
        assert line.endswith(f"(mode {mode:04o}); run: chmod {right} '{path}'")
    assert len(said) == len(changed)


@pytest.mark.threat("J7")
async def test_J7_api_key_secret_is_in_no_file_of_the_data_folder(tmp_path: Path) -> None:
    """Whoever reads every file of the data folder finds no key that could be used."""
    with Toolhall(config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        secret = (await manage(hall, "POST", "/api/keys", {"name": "ci"})).body["secret"]
        listed = await manage(hall, "GET", "/api/keys", headers={"authorization": f"Bearer {secret}"})
        assert secret not in str(listed.body)
    parts = [secret.encode(), secret[16:59].encode()]
    assert [file for file, content in _contents(tmp_path) if any(part in content for part in parts)] == []


def _contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    return ((file, file.read_bytes()) for file in folder.rglob("*") if file.is_file())
