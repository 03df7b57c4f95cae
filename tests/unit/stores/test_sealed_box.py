"""Sealed texts, and the key they are sealed with."""

import base64
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolhall.stores.crypto import KEY_BYTES, SealedBox, load_or_create_key

KEY = bytes(range(KEY_BYTES))
TEXT, BOUND = b'{"answers":{}}', b"caller\x00call"


def test_sealed_box_opens_what_the_same_key_sealed() -> None:
    sealed = SealedBox(KEY).seal(TEXT, BOUND)
    assert SealedBox(KEY).open(sealed, BOUND) == TEXT


@pytest.mark.parametrize("text", [b"", b"\x00", b"x" * 100_000])
def test_sealed_box_seals_empty_binary_and_large_texts(text: bytes) -> None:
    seal = SealedBox(KEY)
    assert seal.open(seal.seal(text, b""), b"") == text


def test_sealed_box_output_is_randomized_url_safe_ciphertext() -> None:
    seal = SealedBox(KEY)
    one, other = seal.seal(TEXT, BOUND), seal.seal(TEXT, BOUND)
    assert one != other
    assert b"answers" not in base64.urlsafe_b64decode(one)
    assert one.isascii()
    assert not set(one) & set('"\\+/ \n')


@pytest.mark.parametrize("bound", [b"", BOUND + b"x", BOUND[:-1], b"other"])
def test_sealed_box_open_with_other_bound_data_returns_none(bound: bytes) -> None:
    sealed = SealedBox(KEY).seal(TEXT, BOUND)
    assert SealedBox(KEY).open(sealed, bound) is None


def test_sealed_box_open_with_another_key_returns_none() -> None:
    assert SealedBox(bytes(KEY_BYTES)).open(SealedBox(KEY).seal(TEXT, BOUND), BOUND) is None


def test_sealed_box_open_with_any_flipped_bit_returns_none() -> None:
    seal = SealedBox(KEY)
    raw = base64.urlsafe_b64decode(seal.seal(TEXT, BOUND))
    for position in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[position] ^= 1 << bit
            assert seal.open(base64.urlsafe_b64encode(changed).decode(), BOUND) is None, (position, bit)


def test_sealed_box_open_of_truncated_or_extended_text_returns_none() -> None:
    seal = SealedBox(KEY)
    raw = base64.urlsafe_b64decode(seal.seal(TEXT, BOUND))
    for length in range(len(raw)):
        assert seal.open(base64.urlsafe_b64encode(raw[:length]).decode(), BOUND) is None, length
    assert seal.open(base64.urlsafe_b64encode(raw + b"\x00").decode(), BOUND) is None


@pytest.mark.parametrize("sealed", ["", "x", "====", "ä", "\ud800", "not base64!", "A" * 15, "\x00", "A" * 10_000])
def test_sealed_box_open_of_garbage_returns_none(sealed: str) -> None:
    assert SealedBox(KEY).open(sealed, BOUND) is None


def test_sealed_box_open_of_non_canonical_base64_returns_none() -> None:
    seal = SealedBox(KEY)
    sealed = seal.seal(b"x", BOUND)  # 29 bytes, so the last letter before the padding has bits to spare
    assert sealed.endswith("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(sealed[-2])
    respelled = [f"{sealed[:-2]}{alphabet[last ^ bit]}=" for bit in (1, 2)]
    same = [each for each in respelled if base64.urlsafe_b64decode(each) == base64.urlsafe_b64decode(sealed)]
    assert same
    for spelling in (*same, sealed + "\n", f"{sealed[:9]}\n{sealed[9:]}", sealed.rstrip("="), sealed + "="):
        assert seal.open(spelling, BOUND) is None


def test_load_or_create_key_replaces_a_truncated_key_file(tmp_path: Path) -> None:
    path = tmp_path / "state.key"
    path.write_bytes(b"half a key")
    key = load_or_create_key(path)
    assert len(key) == KEY_BYTES
    assert path.read_bytes() == key
    assert [each.name for each in tmp_path.iterdir()] == ["state.key"]


def test_load_or_create_key_in_concurrent_threads_returns_the_same_key(tmp_path: Path) -> None:
    for attempt in range(20):
        path = tmp_path / f"state-{attempt}.key"
        with ThreadPoolExecutor(8) as threads:
            keys = set(threads.map(load_or_create_key, [path] * 16))
        assert keys == {path.read_bytes()}


def test_load_or_create_key_returns_the_stored_key(tmp_path: Path) -> None:
    path = tmp_path / "state.key"
    key = load_or_create_key(path)
    assert len(key) == KEY_BYTES
    assert load_or_create_key(path) == key == path.read_bytes()


def test_load_or_create_key_differs_between_files(tmp_path: Path) -> None:
    assert load_or_create_key(tmp_path / "a") != load_or_create_key(tmp_path / "b")


def test_load_or_create_key_creates_the_file_with_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "state.key"
    before = os.umask(0)
    try:
        load_or_create_key(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
