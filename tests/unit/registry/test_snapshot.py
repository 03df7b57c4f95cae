"""Pages and cursors."""

import base64

import pytest

from tests.unit.parts import entry_named
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


def test_pages_follow_each_other() -> None:
    snapshot = snapshot_of("abcde")
    first = snapshot.page(None)
    second = snapshot.page(first.next_cursor)
    third = snapshot.page(second.next_cursor)
    assert [listed(page) for page in (first, second, third)] == ["ab", "cd", "e"]
    assert third.next_cursor is None


@pytest.mark.parametrize("names", ["", "a", "ab"])
def test_one_page_has_no_next(names: str) -> None:
    page = snapshot_of(names).page(None)
    assert (listed(page), page.next_cursor) == (names, None)


def test_an_empty_cursor_is_the_first_page() -> None:
    snapshot = snapshot_of("abc")
    assert snapshot.page("") is snapshot.page(None)


def test_a_page_is_made_once() -> None:
    snapshot = snapshot_of("abcd")
    following = snapshot.page(None).next_cursor
    assert snapshot.page(following) is snapshot.page(following)


def test_only_page_boundaries_are_remembered() -> None:
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
def test_a_cursor_that_is_none_is_refused(forged: str) -> None:
    with pytest.raises(Malformed, match="unknown cursor: send the nextCursor of the page before, or none"):
        snapshot_of("abc").page(forged)


@pytest.mark.parametrize(("forged", "page"), [("-5:zz", "ab"), ("99:zz", ""), ("99:a", "bc"), ("0:c", ""), ("2:", "c")])
def test_a_forged_cursor_stays_within_the_list(forged: str, page: str) -> None:
    assert listed(snapshot_of("abc").page(cursor(forged))) == page


def test_a_cursor_survives_what_comes_before_and_after() -> None:
    registry = Registry(page_size=2)
    registry.add([entry_named(name) for name in "abcd"])
    following = registry.snapshot.page(None).next_cursor
    registry.remove("a")
    registry.add([entry_named("e")])
    assert listed(registry.snapshot.page(following)) == "cd"


def test_a_cursor_survives_the_tool_it_names() -> None:
    registry = Registry(page_size=2)
    registry.add([entry_named(name) for name in "abcd"])
    following = registry.snapshot.page(None).next_cursor
    registry.remove("b")
    assert listed(registry.snapshot.page(following)) == "cd"


def test_what_one_caller_sees_is_not_shared() -> None:
    snapshot = snapshot_of("abc")
    part = snapshot.filtered(lambda tool: tool.name != "b")
    assert (listed(part.page(None)), part.page(None).shared) == ("ac", False)
    assert snapshot.page(None).shared
    assert part.find("b") is None
