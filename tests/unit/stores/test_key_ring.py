"""The ring: whose key it is, until it expires or is revoked, and when it was used."""

from typing import Any

import msgspec
import pytest

from toolhall.model.caller import Caller
from toolhall.model.secret import Secret
from toolhall.stores import access as module
from toolhall.stores.access import USE_FLUSH_SECONDS, ApiKey, ApiKeyToken, KeyRing, format_token, generate_token

ROOT = bytes(32)


def ring_with(*keys: ApiKey) -> KeyRing:
    ring = KeyRing(ROOT, lambda: 100.0)
    ring.load(keys)
    return ring


def kept(key: ApiKeyToken, **other: Any) -> ApiKey:
    proof = KeyRing(ROOT, lambda: 0.0).digest_of(key)
    plain: dict[str, Any] = {"id": key.id, "name": "ci", "digest": proof, "created_at": 1.0, "by": "local"}
    return ApiKey(**plain | other)


def test_key_ring_find_returns_one_cached_caller_with_scopes_and_expiry() -> None:
    key = generate_token()
    ring = ring_with(kept(key, scopes=("admin", "tools:*"), expires_at=200.0))
    expected = Caller("ci", proof="key", person="ci", scopes=frozenset({"admin", "tools:*"}), expires_at=200.0)
    found = ring.find(format_token(key), 100.0)
    assert found is not None
    assert msgspec.structs.replace(found, credential=None) == expected
    assert found.credential == Secret(format_token(key)), "which is hidden from whatever goes out"
    assert ring.find(format_token(key), 100.0) is ring.find(format_token(key), 101.0), (
        "one object, so that others can remember it"
    )


def test_key_ring_shared_key_has_proof_shared_and_its_owner_as_person() -> None:
    key = generate_token()
    found = ring_with(kept(key, shared=True, owner="corp:ada")).find(format_token(key), 1.0)
    assert found is not None
    assert (found.id, found.proof, found.person) == ("ci", "shared", "corp:ada")


def test_key_ring_find_rejects_unknown_ids_and_wrong_secrets() -> None:
    key, other = generate_token(), generate_token()
    ring = ring_with(kept(key))
    strangers = [other, ApiKeyToken(key.id, other.secret), ApiKeyToken(other.id, key.secret)]
    assert [ring.find(format_token(each), 1.0) for each in strangers] == [None] * 3
    assert ring.find(format_token(key), 1.0) is not None
    assert [ring.find(format_token(each), 1.0) for each in strangers] == [None] * 3


def test_key_ring_with_another_root_key_finds_no_key() -> None:
    key = generate_token()
    ring = KeyRing(b"\x01" * 32, lambda: 1.0)
    ring.load([kept(key)])
    assert ring.find(format_token(key), 1.0) is None


def test_key_ring_find_rejects_a_key_from_its_expiry_time_on() -> None:
    key = generate_token()
    ring = ring_with(kept(key, expires_at=200.0))
    assert [ring.find(format_token(key), now) is not None for now in (199.9, 200.0, 300.0)] == [True, False, False]


def test_key_ring_find_rejects_a_revoked_key_immediately() -> None:
    key = generate_token()
    ring = ring_with(kept(key))
    assert ring.find(format_token(key), 1.0) is not None
    ring.load([kept(key, revoked_at=1.0)])
    assert ring.find(format_token(key), 1.0) is None


def test_key_ring_length_counts_keys_neither_expired_nor_revoked() -> None:
    assert len(ring_with()) == 0
    assert (
        len(
            ring_with(
                kept(generate_token()), kept(generate_token(), expires_at=100.0), kept(generate_token(), revoked_at=1.0)
            )
        )
        == 1
    )


def test_key_ring_token_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_TOKENS", 10)
    keys = [generate_token() for _ in range(50)]
    ring = ring_with(*map(kept, keys))
    for _ in range(2):
        assert all(ring.find(format_token(key), 1.0) for key in keys)
        assert len(vars(ring)["_cached"]) <= 10


def test_key_ring_flushes_last_uses_at_intervals() -> None:
    one, other = generate_token(), generate_token()
    ring, told = ring_with(kept(one), kept(other)), []
    ring.flush_uses = lambda: told.append(ring.drain_uses())
    ring.find(format_token(one), 1_000.0)
    ring.find(format_token(one), 1_001.0)
    ring.find(format_token(other), 1_002.0)
    ring.find(format_token(generate_token()), 1_003.0)
    assert (told, ring.pending_uses) == ([{one.id: 1_000.0}], {one.id: 1_001.0, other.id: 1_002.0})
    ring.find(format_token(one), 1_000.0 + USE_FLUSH_SECONDS)
    assert told[1] == {one.id: 1_000.0 + USE_FLUSH_SECONDS, other.id: 1_002.0}
    assert ring.pending_uses == {}
