"""Differences between two JSON values."""

from typing import Any

from tests.tables import each_row
from toolhall.contracts.digest import JsonDifference, diff_json


@each_row(
    ("old", "new"),
    [
        (1, 1.0),
        ({"a": [1, {"b": None}], "c": "x"}, {"c": "x", "a": [1.0, {"b": None}]}),
        (10**21, 1e21),
        ([], []),
        ("", ""),
    ],
)
def test_diff_json_equal_values_have_no_differences(old: Any, new: Any) -> None:
    assert diff_json(old, new, (), 5) == []


@each_row(
    ("old", "new", "found"),
    [
        (1, True, [JsonDifference("", 1, True)]),
        (0, False, [JsonDifference("", 0, False)]),
        (None, 0, [JsonDifference("", None, 0)]),
        ("1", 1, [JsonDifference("", "1", 1)]),
        ({"a/b": 1}, {"a/b": 2}, [JsonDifference("/a~1b", 1, 2)]),
        ({"a": 1}, {}, [JsonDifference("/a", 1)]),
        ({}, {"a": None}, [JsonDifference("/a", new=None)]),
        ([1, 2], [1], [JsonDifference("/1", 2)]),
        ([1], [1, 2], [JsonDifference("/1", new=2)]),
        ({"a": {}}, {"a": []}, [JsonDifference("/a", {}, [])]),
        ([[1, 2]], [[2, 1]], [JsonDifference("/0/0", 1, 2), JsonDifference("/0/1", 2, 1)]),
    ],
)
def test_diff_json_different_values_are_listed(old: Any, new: Any, found: list[JsonDifference]) -> None:
    assert diff_json(old, new, (), 5) == found


def test_diff_json_limit_truncates() -> None:
    assert [each.path for each in diff_json([0] * 9, [1] * 9, (), 2)] == ["/0", "/1"]


def test_diff_json_ignored_paths_are_skipped() -> None:
    old, new = {"a": {"token": "x"}, "n": 1}, {"a": {"token": "y", "more": 1}, "n": 1}
    assert diff_json(old, new, {"/a/token"}, 5) == [JsonDifference("/a/more", new=1)]
    assert diff_json(old, new, {"/a"}, 5) == []
    assert diff_json(old, new, {""}, 5) == []
