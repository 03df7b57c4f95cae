"""RFC 8785: the examples of its text, and properties of every value."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from toolhall.contracts.digest import canonical_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def backwards(value: Any) -> Any:
    """The same value with its keys the other way round."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(each) for each in value] if isinstance(value, list) else value


@each_row(
    ("bits", "spelled"),
    [  # RFC 8785, appendix B
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_canonical_json_numbers_as_in_rfc(bits: str, spelled: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(value).decode() == spelled


def test_canonical_json_strings_are_minimally_escaped() -> None:
    text = '€$\x0f\nA\'B"\\\\"/\x7f\x00\u2028'
    assert canonical_json(text) == '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f\\u0000\u2028"'.encode()


def test_canonical_json_keys_are_sorted_by_utf_16() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical_json(dict.fromkeys(keys, 0)))) == ordered


@each_row(("one", "other"), [(1, 1.0), (0, -0.0), (10**21, 1e21), (2**60, 2.0**60)])
def test_canonical_json_equal_numbers_have_equal_bytes(one: float, other: float) -> None:
    assert canonical_json(one) == canonical_json(other)


@each_row(
    ("one", "other"),
    [(2**63, 2**63 - 1), (2**53 + 1, 2**53), (49430368256691270, 49430368256691272), (10**400, 10**400 + 1), (1, True)],
)
def test_canonical_json_different_values_have_different_bytes(one: int, other: int) -> None:
    assert canonical_json(one) != canonical_json(other)


def test_canonical_json_non_finite_numbers_are_null() -> None:
    assert canonical_json([float("nan"), float("inf")]) == b"[null,null]"
    assert canonical_json("\ud800") != canonical_json("\udfff")
    with pytest.raises(TypeError, match="set is not JSON"):
        canonical_json({"a": set[int]()})


@given(st.integers(), st.integers())
def test_canonical_json_big_integers_have_different_bytes(one: int, other: int) -> None:
    assert (canonical_json(one) == canonical_json(other)) is (one == other)


@given(VALUES)
def test_canonical_json_any_value_round_trips(value: Any) -> None:
    spelled = canonical_json(value)
    assert json.loads(spelled, parse_int=float) == value  # as ECMAScript reads it
    assert canonical_json(json.loads(spelled, parse_int=float)) == spelled
    assert canonical_json(backwards(value)) == spelled
