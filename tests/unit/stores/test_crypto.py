"""Keys that are made from the root: each for one purpose, always the same."""

from typing import Any

from toolhall.stores.crypto import API_KEYS_PURPOSE, ROW_MACS_PURPOSE, RowMac, derive_key

ROOT = bytes(range(32))


def test_derive_key_is_deterministic_and_unique_per_purpose_and_root() -> None:
    keys = {derive_key(ROOT, purpose) for purpose in (API_KEYS_PURPOSE, ROW_MACS_PURPOSE, "toolhall approvals", "")}
    keys |= {ROOT, derive_key(bytes(32), API_KEYS_PURPOSE)}
    assert len(keys) == 6
    assert {len(key) for key in keys} == {32}
    assert derive_key(ROOT, API_KEYS_PURPOSE) == derive_key(ROOT, API_KEYS_PURPOSE)


def test_derive_key_equals_the_hkdf_test_vector() -> None:
    """RFC 5869; what was sealed with a key must be opened by every later version."""
    assert (
        derive_key(ROOT, "toolhall api keys").hex()
        == "89f79f29023bd8e561f871ed1fb8461fa86f7fb657c9c830b4b7a3ade8dc7352"
    )


def test_row_mac_depends_on_key_table_and_every_column() -> None:
    macs = RowMac(ROOT)
    row: dict[str, Any] = {"id": "a", "by": None, "at": 1.0, "body": b"x"}
    others: list[dict[str, Any]] = [
        row | {"id": "b"},
        row | {"by": ""},
        row | {"at": 1.5},
        row | {"body": "x"},
        {"id": "a"},
    ]
    codes = {macs.compute("t", each) for each in [row, *others]} | {
        macs.compute("u", row),
        RowMac(bytes(32)).compute("t", row),
    }
    assert len(codes) == len(others) + 3
    assert macs.compute("t", row | {"at": 1}) == macs.compute("t", row), "as a column gives it back"


def test_row_mac_verify_rejects_a_wrong_mac_and_a_changed_row() -> None:
    macs = RowMac(ROOT)
    signed = macs.with_mac("t", {"id": "a"})
    assert macs.verify("t", signed)
    for wrong in (None, b"", b"x" * 32, signed["mac"][:-1]):
        assert not macs.verify("t", signed | {"mac": wrong})
    assert not macs.verify("t", signed | {"id": "b"})
