"""Following the cursors visits every tool exactly once."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import entry_named
from toolhall.model.errors import Malformed
from toolhall.registry.registry import Registry

ENTRIES = [entry_named(f"tool_{number}") for number in range(30)]


def registry_of(count: int, page_size: int) -> Registry:
    registry = Registry(page_size)
    registry.add(ENTRIES[:count])
    return registry


@given(st.integers(0, 30), st.integers(1, 40))
def test_registry_pages_list_every_tool_exactly_once(count: int, page_size: int) -> None:
    registry, seen, cursor = registry_of(count, page_size), list[str](), None
    while True:
        page = registry.snapshot.page(cursor)
        assert len(page.tools) <= page_size
        seen += [tool.name for tool in page.tools]
        if page.next_cursor is None:
            break
        assert len(page.tools) == page_size
        cursor = page.next_cursor
    assert seen == [entry.tool.name for entry in ENTRIES[:count]]


@given(st.integers(1, 20), st.integers(1, 6), st.lists(st.integers(0, 29), max_size=20), st.integers(0, 5))
def test_registry_pages_list_a_remaining_tool_once_while_others_change(
    count: int, page_size: int, removals: list[int], additions: int
) -> None:
    """Between two pages one tool goes and some come."""
    registry, seen, cursor = registry_of(count, page_size), list[str](), None
    coming = iter(ENTRIES[count : count + additions])
    stays = {entry.tool.name for entry in ENTRIES[:count]}
    while True:
        page = registry.snapshot.page(cursor)
        seen += [tool.name for tool in page.tools]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        if removals:
            gone = f"tool_{removals.pop()}"
            registry.remove(gone)
            stays.discard(gone)
        if added := next(coming, None):
            registry.add([added])
    assert stays <= set(seen)
    assert len(seen) == len(set(seen))


@given(st.text(max_size=40), st.integers(0, 5), st.integers(1, 3))
def test_registry_page_of_any_cursor_is_a_page_or_malformed(cursor: str, count: int, page_size: int) -> None:
    registry = registry_of(count, page_size)
    try:
        page = registry.snapshot.page(cursor)
    except Malformed:
        return
    names = [entry.tool.name for entry in ENTRIES[:count]]
    listed = [tool.name for tool in page.tools]
    assert listed == names[names.index(listed[0]) :][: len(listed)] if listed else page.next_cursor is None
