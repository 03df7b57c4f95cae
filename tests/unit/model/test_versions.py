"""What callers mean by a version, and which is newest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.model.names import newest_version, parse_version_range, precedence

KNOWN = ["0.1.0", "0.2.3", "1.0.0", "1.2.0", "1.2.9", "1.10.0", "2.0.0-rc.1", "10.0.0", "9.0.0"]
numbers = st.integers(0, 30)
releases = st.builds("{}.{}.{}".format, numbers, numbers, numbers)


def test_newest_version_in_range(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str | None, str | None]] = [
        (None, "10.0.0"),
        ("1.2.0", "1.2.0"),
        ("1.2.1", None),
        ("^1.2", "1.10.0"),
        ("^1.2.5", "1.10.0"),
        ("~1.2", "1.2.9"),
        ("~1.2.3", "1.2.9"),
        ("~1", "1.10.0"),
        ("1", "1.10.0"),
        ("1.2", "1.2.9"),
        ("^0.2", "0.2.3"),
        ("^0.1", "0.1.0"),
        ("^0", "0.2.3"),
        ("2", None),
        ("^2", None),
        ("2.0.0-rc.1", "2.0.0-rc.1"),
        ("^3", None),
        ("", None),
        ("newest", None),
        ("^1.2.3.4", None),
        ("*", None),
    ]
    for text, found in rows:
        with subtests.test(repr((text, found))):
            assert newest_version(KNOWN, text) == found


def test_newest_version_prerelease_only_if_alone() -> None:
    assert newest_version(["2.0.0-rc.1", "1.0.0"]) == "1.0.0"
    assert newest_version(["2.0.0-rc.1", "2.0.0-rc.2", "2.0.0-beta"]) == "2.0.0-rc.2"
    assert newest_version([]) is None


def test_precedence_of_non_semantic_versions() -> None:
    assert newest_version(["20250401", "20241231"]) == "20250401"
    assert newest_version(["9", "10"]) == "10"
    assert newest_version(["20250401"], "20250401") == "20250401"


@given(releases, releases)
def test_precedence_compares_numbers(one: str, other: str) -> None:
    as_numbers = [tuple(map(int, each.split("."))) for each in (one, other)]
    assert (precedence(one) < precedence(other)) == (as_numbers[0] < as_numbers[1])


@given(numbers, numbers, numbers, releases)
def test_caret_range_keeps_leftmost_nonzero_number(major: int, minor: int, patch: int, version: str) -> None:
    accepted = parse_version_range(f"^{major}.{minor}.{patch}").accepts(version)
    found = tuple(map(int, version.split(".")))
    kept = 1 if major else 2 if minor else 3
    assert accepted == (found[:kept] == (major, minor, patch)[:kept] and found >= (major, minor, patch))
