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


def test_a_key_says_who_its_holder_is() -> None:
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


def test_a_shared_key_proves_less_and_an_owner_answers_for_it() -> None:
    key = generate_token()
    found = ring_with(kept(key, shared=True, owner="corp:ada")).find(format_token(key), 1.0)
    assert found is not None
    assert (found.id, found.proof, found.person) == ("ci", "shared", "corp:ada")


def test_nobody_else_gets_in() -> None:
    key, other = generate_token(), generate_token()
    ring = ring_with(kept(key))
    strangers = [other, ApiKeyToken(key.id, other.secret), ApiKeyToken(other.id, key.secret)]
    assert [ring.find(format_token(each), 1.0) for each in strangers] == [None] * 3
    assert ring.find(format_token(key), 1.0) is not None
    assert [ring.find(format_token(each), 1.0) for each in strangers] == [None] * 3


def test_a_pepper_of_another_folder_opens_nothing() -> None:
    key = generate_token()
    ring = KeyRing(b"\x01" * 32, lambda: 1.0)
    ring.load([kept(key)])
    assert ring.find(format_token(key), 1.0) is None


def test_the_moment_it_expires_it_is_nothing() -> None:
    key = generate_token()
    ring = ring_with(kept(key, expires_at=200.0))
    assert [ring.find(format_token(key), now) is not None for now in (199.9, 200.0, 300.0)] == [True, False, False]


def test_revoking_takes_effect_at_once() -> None:
    key = generate_token()
    ring = ring_with(kept(key))
    assert ring.find(format_token(key), 1.0) is not None
    ring.load([kept(key, revoked_at=1.0)])
    assert ring.find(format_token(key), 1.0) is None


def test_it_counts_what_is_good_for_something() -> None:
    assert len(ring_with()) == 0
    assert (
        len(
            ring_with(
                kept(generate_token()), kept(generate_token(), expires_at=100.0), kept(generate_token(), revoked_at=1.0)
            )
        )
        == 1
    )


def test_what_it_has_seen_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_TOKENS", 10)
    keys = [generate_token() for _ in range(50)]
    ring = ring_with(*map(kept, keys))
    for _ in range(2):
        assert all(ring.find(format_token(key), 1.0) for key in keys)
        assert len(vars(ring)["_cached"]) <= 10


def test_uses_are_remembered_now_and_then() -> None:
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
