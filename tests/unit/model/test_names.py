"""Tool names, published names, metadata keys, versions, and globs over tool ids."""

import pytest

from toolhall.model.names import (
    MAX_NAME_LENGTH,
    ToolId,
    matches_any,
    meta_key_problem,
    name_problem,
    published_name,
    published_name_problem,
    version_problem,
)


def test_name_problem_valid_name_is_none(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["a", "get_weather", "Get-Weather", "A1", "_", "-", "x" * 64]
    for name in rows:
        with subtests.test(repr(name)):
            assert name_problem(name) is None


def test_name_problem_invalid_name_names_the_rule(subtests: pytest.Subtests) -> None:
    rows: list[object] = ["", "x" * 65, "a b", "a.b", "a\n", "\na", "ä", "a/b", "a@b", "a\x00", 3, None]
    for name in rows:
        with subtests.test(repr(name)):
            assert f"{name!r} is not a name" in str(name_problem(name))


def test_published_name_problem_valid_name_is_none(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["a", "a.b", "A-b_c.1", "x" * 128]
    for name in rows:
        with subtests.test(repr(name)):
            assert published_name_problem(name) is None


def test_published_name_problem_invalid_name_names_the_rule(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["", "x" * 129, "a b", "a,b", "a\n", "\u017f", "a@1.0.0"]
    for name in rows:
        with subtests.test(repr(name)):
            assert "cannot be published" in str(published_name_problem(name))


def test_version_problem_valid_version_is_none(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "0.0.0",
        "1.2.3",
        "10.20.30",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-0.3.7",
        "1.0.0+build.5",
        "1.0.0-x-y+z",
    ]
    for version in rows:
        with subtests.test(repr(version)):
            assert version_problem(version) is None


def test_version_problem_invalid_version_names_the_rule(subtests: pytest.Subtests) -> None:
    rows: list[object] = [
        "",
        "1",
        "1.2",
        "01.2.3",
        "1.2.3.4",
        "v1.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3+",
        "1.2.3\n",
        "\u0661.2.3",
        "1.2.x",
        1.0,
    ]
    for version in rows:
        with subtests.test(repr(version)):
            assert "is not a semantic version" in str(version_problem(version))


def test_meta_key_problem_valid_key_is_none(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["source", "example.org/source", "dev.toolhall/id", "a-b.c1/x_y.z-1", "example.org/"]
    for key in rows:
        with subtests.test(repr(key)):
            assert meta_key_problem(key) is None


def test_meta_key_problem_invalid_key_names_the_rule(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "a b",
        "1a/x",
        "a-/x",
        "example..org/x",
        "/x",
        "x-",
        "-x",
        "io.modelcontextprotocol/x",
        "dev.mcp/x",
    ]
    for key in rows:
        with subtests.test(repr(key)):
            assert meta_key_problem(key) is not None


def test_tool_id_str_has_toolkit_tool_and_version() -> None:
    assert str(ToolId("Weather", "get", "1.2.0")) == "Weather.get@1.2.0"


def test_tool_ids_sort_by_toolkit_tool_and_version() -> None:
    ids = [ToolId("B", "a", "1.0.0"), ToolId("A", "b", "1.0.0"), ToolId("A", "a", "2.0.0"), ToolId("A", "a", "1.0.0")]
    assert sorted(ids) == ids[::-1]


def test_published_name_short_name_is_unchanged() -> None:
    assert published_name("Weather", "get") == "Weather_get"
    assert len(published_name("W" * 32, "g" * 31)) == MAX_NAME_LENGTH
    assert published_name("W" * 32, "g" * 31) == "W" * 32 + "_" + "g" * 31


def test_published_name_long_name_is_cut_and_unique() -> None:
    one, other = published_name("W" * 60, "get_a"), published_name("W" * 60, "get_b")
    assert len(one) == len(other) == MAX_NAME_LENGTH
    assert one != other
    assert one[:55] == other[:55] == "W" * 55
    assert one == published_name("W" * 60, "get_a")
    assert published_name_problem(one) is None


def test_matches_any_with_and_without_version(subtests: pytest.Subtests) -> None:
    rows: list[tuple[tuple[str, ...], bool]] = [
        (("*",), True),
        (("Weather.*",), True),
        (("Weather.Get@*",), True),
        (("Weather.Get",), True),
        (("Weather.Get@1.2.0",), True),
        (("Weather.Get@1.*",), True),
        (("Weather.Get@2.*",), False),
        (("Weather.G",), False),
        (("weather.*",), False),
        (("Calendar.*", "Weather.?et"), True),
        (("Calendar.*",), False),
        ((), False),
    ]
    for globs, meant in rows:
        with subtests.test(repr((globs, meant))):
            assert matches_any(globs, "Weather.Get@1.2.0") is meant
