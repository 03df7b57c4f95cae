"""Two calls are compared place by place."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.pipeline.approval_differences import json_differences

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)

CASES: list[tuple[Any, Any, list[tuple[str, str | None, str | None]]]] = [
    ({"a": 1}, {"a": 1}, []),
    ({"a": 1}, {"a": 2}, [("/a", "1", "2")]),
    ({"a": 1}, {"a": True}, [("/a", "1", "true")]),
    ({"a": 1}, {}, [("/a", "1", None)]),
    ({}, {"a/b~": None}, [("/a~1b~0", None, "null")]),
    ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [("/a/1/b", "2", "3")]),
    ({"a": [1]}, {"a": [1, 2]}, [("/a", "[1]", "[1,2]")]),
    ({"a": {}}, {"a": []}, [("/a", "{}", "[]")]),
    ([], {}, [("/", "[]", "{}")]),
]


@pytest.mark.parametrize(("before", "now", "found"), CASES)
def test_json_differences_name_each_path(before: Any, now: Any, found: list[Any]) -> None:
    assert json_differences(msgspec.json.encode(before), msgspec.json.encode(now)) == found


@given(values, values)
def test_json_differences_are_empty_iff_equal(before: Any, now: Any) -> None:
    texts = msgspec.json.encode(before, order="sorted"), msgspec.json.encode(now, order="sorted")
    assert (json_differences(*texts) == []) is (texts[0] == texts[1])
