"""Keys that are made from the root: each for one purpose, always the same."""

from typing import Any

from toolhall.stores.crypto import API_KEYS_PURPOSE, ROW_MACS_PURPOSE, RowMac, derive_key

ROOT = bytes(range(32))


def test_a_purpose_has_one_key_and_no_other_has_it() -> None:
    keys = {derive_key(ROOT, purpose) for purpose in (API_KEYS_PURPOSE, ROW_MACS_PURPOSE, "toolhall approvals", "")}
    keys |= {ROOT, derive_key(bytes(32), API_KEYS_PURPOSE)}
    assert len(keys) == 6
    assert {len(key) for key in keys} == {32}
    assert derive_key(ROOT, API_KEYS_PURPOSE) == derive_key(ROOT, API_KEYS_PURPOSE)


def test_it_is_hkdf() -> None:
    """RFC 5869; what was sealed with a key must be opened by every later version."""
    assert (
        derive_key(ROOT, "toolhall api keys").hex()
        == "89f79f29023bd8e561f871ed1fb8461fa86f7fb657c9c830b4b7a3ade8dc7352"
    )


def test_a_code_is_of_one_row_in_one_table() -> None:
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


def test_only_its_own_code_holds() -> None:
    macs = RowMac(ROOT)
    signed = macs.with_mac("t", {"id": "a"})
    assert macs.verify("t", signed)
    for wrong in (None, b"", b"x" * 32, signed["mac"][:-1]):
        assert not macs.verify("t", signed | {"mac": wrong})
    assert not macs.verify("t", signed | {"id": "b"})
