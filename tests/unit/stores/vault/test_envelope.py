"""Data keys and what they seal: it opens with its key, for what it belongs to, unchanged, or not at all."""

from typing import Any

import msgspec
import pytest

from tests.unit.stores.vault.vaults import NEW, OLD
from toolhall.stores.vault.envelope import DecryptionFailed, Envelope, UnknownKey, UnwrappedKey, data_key_id, kek_id

PLAIN = b"tk_canary"
BOUND = ("ada", "secret", "TOKEN", "s1")


@pytest.fixture
def key() -> UnwrappedKey:
    return Envelope([OLD]).new_key("user:ada", "secrets", 1.0)


@pytest.mark.parametrize("plain", [b"", b"\x00", b"x" * 65_536])
def test_data_key_opens_what_it_sealed(key: UnwrappedKey, plain: bytes) -> None:
    assert key.open(key.seal(plain, *BOUND), *BOUND) == plain


def test_sealed_value_has_the_v1_format(key: UnwrappedKey) -> None:
    """`v1`, eight bytes of the key's id, twelve of a nonce, and sixteen more than the value has."""
    sealed = key.seal(PLAIN, *BOUND)
    assert sealed[:2] == b"v1"
    assert sealed[2:10].hex() == key.stored.id == data_key_id(sealed)
    assert len(sealed) == 2 + 8 + 12 + len(PLAIN) + 16


def test_data_key_seals_with_a_fresh_nonce_each_time(key: UnwrappedKey) -> None:
    sealed = [key.seal(PLAIN, *BOUND) for _ in range(2_000)]
    assert len({each[10:22] for each in sealed}) == len({each[22:] for each in sealed}) == 2_000


def test_data_key_open_with_any_flipped_bit_raises_decryption_failed(key: UnwrappedKey) -> None:
    sealed = key.seal(PLAIN, *BOUND)
    for bit in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecryptionFailed):
            key.open(bytes(changed), *BOUND)


def test_data_key_open_of_truncated_or_extended_text_raises_decryption_failed(key: UnwrappedKey) -> None:
    sealed = key.seal(PLAIN, *BOUND)
    for wrong in (*(sealed[:length] for length in range(len(sealed))), sealed + b"\x00"):
        with pytest.raises(DecryptionFailed):
            key.open(wrong, *BOUND)


@pytest.mark.parametrize(
    "bound",
    [
        ("bob", *BOUND[1:]),
        ("ada", "record", *BOUND[2:]),
        (*BOUND[:2], "OTHER", "s1"),
        (*BOUND[:3], "s2"),
        BOUND[:3],
        (*BOUND, ""),
        ("adas", "ecret", "TOKEN", "s1"),
        ("ada", "secretTOKEN", "", "s1"),
        (),
    ],
)
def test_data_key_open_with_other_bound_data_raises_decryption_failed(
    key: UnwrappedKey, bound: tuple[str, ...]
) -> None:
    with pytest.raises(DecryptionFailed):
        key.open(key.seal(PLAIN, *BOUND), *bound)


@pytest.mark.parametrize("other", [{"tenant": "hall"}, {"use": "records"}])
def test_data_key_relabelled_for_another_tenant_or_use_raises_decryption_failed(
    key: UnwrappedKey, other: dict[str, str]
) -> None:
    """Though it has the right bytes: whose it is, is part of what is sealed."""
    moved = UnwrappedKey(msgspec.structs.replace(key.stored, **other), key.raw)
    with pytest.raises(DecryptionFailed):
        moved.open(key.seal(PLAIN, *BOUND), *BOUND)


def test_envelope_unwrap_of_a_modified_stored_key_raises_decryption_failed() -> None:
    envelope = Envelope([OLD])
    key = envelope.new_key("user:ada", "secrets", 1.0)
    assert envelope.unwrap(key.stored).open(key.seal(PLAIN, *BOUND), *BOUND) == PLAIN
    assert key.raw not in key.stored.wrapped
    wrong: list[dict[str, Any]] = [{"tenant": "user:bob"}, {"use": "records"}, {"id": "00" * 8}]
    wrong += [{"wrapped": wrapped} for wrapped in (key.stored.wrapped[:-1], b"", bytes(60))]
    for other in wrong:
        with pytest.raises(DecryptionFailed):
            envelope.unwrap(msgspec.structs.replace(key.stored, **other))


def test_envelope_wraps_with_the_first_key_and_unwraps_with_every_key() -> None:
    old = Envelope([OLD]).new_key("hall", "secrets", 1.0)
    both = Envelope([NEW, OLD])
    assert both.unwrap(old.stored).raw == old.raw
    again = both.rewrap(both.unwrap(old.stored))
    assert (again.stored.id, again.stored.kek) == (old.stored.id, kek_id(NEW))
    assert Envelope([NEW]).unwrap(again.stored).raw == old.raw
    with pytest.raises(UnknownKey):
        Envelope([OLD]).unwrap(again.stored)
    with pytest.raises(DecryptionFailed):
        Envelope([OLD]).unwrap(msgspec.structs.replace(again.stored, kek=kek_id(OLD)))


def test_data_key_hint_differs_by_value_name_and_key(key: UnwrappedKey) -> None:
    other = Envelope([OLD]).new_key("user:ada", "secrets", 1.0)
    hints = [key.hint(PLAIN, "A"), key.hint(PLAIN, "B"), key.hint(PLAIN + b"x", "A"), other.hint(PLAIN, "A")]
    assert len(set(hints)) == 4
    assert key.hint(PLAIN, "A") == hints[0]
    assert all(len(hint) == 8 for hint in hints)


def test_kek_id_does_not_reveal_the_key() -> None:
    assert kek_id(OLD) != kek_id(NEW)
    assert kek_id(OLD) not in OLD.hex()
