"""Pages and cursors."""

import base64

import pytest

from tests.unit.builders import entry_named
from toolhall.model.errors import Malformed
from toolhall.model.messages import ToolPage
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Snapshot


def snapshot_of(names: str, page_size: int = 2) -> Snapshot:
    return Snapshot([entry_named(name) for name in names], page_size)


def listed(page: ToolPage) -> str:
    return "".join(tool.name for tool in page.tools)


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_snapshot_pages_follow_each_other_by_cursor() -> None:
    snapshot = snapshot_of("abcde")
    first = snapshot.page(None)
    second = snapshot.page(first.next_cursor)
    third = snapshot.page(second.next_cursor)
    assert [listed(page) for page in (first, second, third)] == ["ab", "cd", "e"]
    assert third.next_cursor is None


@pytest.mark.parametrize("names", ["", "a", "ab"])
def test_snapshot_single_page_has_no_next_cursor(names: str) -> None:
    page = snapshot_of(names).page(None)
    assert (listed(page), page.next_cursor) == (names, None)


def test_snapshot_empty_cursor_is_the_first_page() -> None:
    snapshot = snapshot_of("abc")
    assert snapshot.page("") is snapshot.page(None)


def test_snapshot_page_is_cached() -> None:
    snapshot = snapshot_of("abcd")
    following = snapshot.page(None).next_cursor
    assert snapshot.page(following) is snapshot.page(following)


def test_snapshot_caches_no_pages_of_forged_cursors() -> None:
    snapshot = snapshot_of("abcd")
    forged = cursor("0:a")
    assert snapshot.page(forged) == snapshot.page(forged)
    assert snapshot.page(forged) is not snapshot.page(forged)


@pytest.mark.parametrize(
    "forged",
    [
        "!",
        "abc",
        "x" * 10_000,
        "ä",
        cursor("a"),
        cursor("x:unknown"),
        cursor("1e3:zz"),
        cursor(":"),
        "\x00",
        "=",
        cursor("9" * 5_000 + ":zz"),
    ],
    ids=lambda text: text[:12],
)
def test_snapshot_invalid_cursor_raises_malformed(forged: str) -> None:
    with pytest.raises(Malformed, match="unknown cursor: send the nextCursor of the page before, or none"):
        snapshot_of("abc").page(forged)


@pytest.mark.parametrize(("forged", "page"), [("-5:zz", "ab"), ("99:zz", ""), ("99:a", "bc"), ("0:c", ""), ("2:", "c")])
def test_snapshot_forged_cursor_stays_within_the_list(forged: str, page: str) -> None:
    assert listed(snapshot_of("abc").page(cursor(forged))) == page


def test_snapshot_cursor_stays_valid_when_other_tools_change() -> None:
    registry = Registry(page_size=2)
    registry.add([entry_named(name) for name in "abcd"])
    following = registry.snapshot.page(None).next_cursor
    registry.remove("a")
    registry.add([entry_named("e")])
    assert listed(registry.snapshot.page(following)) == "cd"


def test_snapshot_cursor_stays_valid_when_its_tool_is_removed() -> None:
    registry = Registry(page_size=2)
    registry.add([entry_named(name) for name in "abcd"])
    following = registry.snapshot.page(None).next_cursor
    registry.remove("b")
    assert listed(registry.snapshot.page(following)) == "cd"


def test_snapshot_filtered_page_is_not_shared() -> None:
    snapshot = snapshot_of("abc")
    part = snapshot.filtered(lambda tool: tool.name != "b")
    assert (listed(part.page(None)), part.page(None).shared) == ("ac", False)
    assert snapshot.page(None).shared
    assert part.find("b") is None
