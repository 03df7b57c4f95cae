"""What every store of upstreams promises, whatever its engine."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE, Stale, Unstorable
from toolhall.stores.open import open_stores
from toolhall.stores.sqlite import open_sqlite
from toolhall.stores.upstreams import StoredUpstream, UpstreamStore


def added(name: str = "Docs", **other: Any) -> StoredUpstream:
    """One that somebody added by its URL."""
    plain: dict[str, Any] = {
        "name": name,
        "settings": {"url": "https://mcp.example.com/mcp", "headers": {"X-Key": "${secret:KEY}"}},
        "by": "ada",
        "added_at": 5.0,
        "changed_at": 5.0,
    }
    return StoredUpstream(**plain | other)


@pytest.fixture
def upstreams(stores: Stores) -> UpstreamStore:
    return stores.upstreams


async def test_upstream_store_lists_upstreams_by_name(upstreams: UpstreamStore) -> None:
    saved = [await upstreams.save(added(name)) for name in ("b", "a", "C")]
    assert await upstreams.all() == (saved[2], saved[1], saved[0])
    assert await upstreams.find("a") == saved[1]
    assert await upstreams.find("A") is None


async def test_upstream_store_keeps_every_member(upstreams: UpstreamStore) -> None:
    everything = added(
        era="modern", revision="2026-07-28", server_name="docs", server_version="7", listing_digest="sha256-1", off=True
    )
    saved = await upstreams.save(everything)
    assert await upstreams.find("Docs") == saved
    assert msgspec.structs.replace(saved, serial=0) == everything
    bare = await upstreams.save(added("Bare", settings=None))
    assert (await upstreams.find("Bare"), bare.settings) == (bare, None)


async def test_upstream_store_writer_that_read_an_older_row_gets_stale(upstreams: UpstreamStore) -> None:
    first = await upstreams.save(added())
    second = await upstreams.save(msgspec.structs.replace(first, off=True))
    assert second.serial > first.serial
    for stale in (first, added()):
        with pytest.raises(Stale, match="Docs: changed meanwhile"):
            await upstreams.save(stale)
    assert await upstreams.all() == (second,)
    assert await upstreams.remove("Docs")
    with pytest.raises(Stale):
        await upstreams.save(second)


async def test_upstream_store_removed_upstream_cannot_be_removed_again(upstreams: UpstreamStore) -> None:
    await upstreams.save(added())
    assert [await upstreams.remove("Docs"), await upstreams.remove("Docs")] == [True, False]
    assert await upstreams.all() == ()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"settings": {"url": "https://a.example", "headers": {"Authorization": "Bearer abcdefgh12345"}}}, "a secret"),
        ({"settings": {"command": "run", "env": {"API_TOKEN": "abcdefgh12345"}}}, "env = {API_TOKEN = '"),
        ({"settings": {"url": "https://a.example", "command": "run"}}, "either url or command"),
        ({"settings": {"uri": "https://a.example"}}, "uri"),
        ({"server_name": "nul\x00"}, "cannot be stored"),
        ({"server_version": "\ud800"}, "cannot be stored"),
    ],
)
async def test_upstream_store_secret_or_unreadable_row_is_refused(
    upstreams: UpstreamStore, changed: dict[str, Any], why: str
) -> None:
    with pytest.raises(Unstorable, match=why) as refused:
        await upstreams.save(added(**changed))
    assert "abcdefgh12345" not in str(refused.value)
    assert await upstreams.all() == ()


async def test_upstream_store_row_changed_by_another_program_is_left_out(tmp_path: Path) -> None:
    with closing(open_sqlite(tmp_path)) as stores:
        await stores.upstreams.save(added())
        kept = await stores.upstreams.save(added("Kept"))
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
        connection.execute("UPDATE upstreams SET settings = '{\"url\": \"https://evil.example\"}' WHERE id = 'Docs'")
    with closing(open_sqlite(tmp_path)) as stores:
        assert await stores.upstreams.all() == (kept,)
        assert await stores.upstreams.find("Docs") is None
        again = await stores.upstreams.save(added())  # it takes the place of the row that counts for nothing
        assert await stores.upstreams.all() == (again, kept)


async def test_upstream_store_survives_a_restart(tmp_path: Path) -> None:
    with closing(open_stores(tmp_path, allow_readonly=False)) as stores:
        saved = await stores.upstreams.save(added())
    with closing(open_stores(tmp_path, allow_readonly=False)) as stores:
        assert await stores.upstreams.all() == (saved,)
