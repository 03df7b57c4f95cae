"""The shelf: bounded in number and in bytes, one spelling for each name, and no slower when it is full."""

import pytest

from toolhall.registry import shelf
from toolhall.registry.registry import Conflict
from toolhall.registry.shelf import Kept, Shelf


def kept(toolkit: str = "kit", version: str = "1.0.0", tools: tuple[str, ...] = ("look",), size: int = 10) -> Kept:
    return Kept(toolkit, version, tools, {"machine": b"m" * size, "hub": b"h" * size})


def test_what_is_kept_comes_back_in_order() -> None:
    full = Shelf()
    for number in range(3):
        full.put(kept(f"kit{number}", size=number + 1))
    assert [len(document) for document in full.documents("hub")] == [1, 2, 3]
    assert len(full) == 3


def test_a_tool_is_held_while_one_version_of_its_toolkit_has_it() -> None:
    full = Shelf()
    full.put(kept(version="1.0.0", tools=("look", "peek")))
    full.put(kept(version="2.0.0", tools=("look",)))
    assert full.remove("kit", "2.0.0") == 1
    assert full.holds("kit", "look")
    assert full.remove("kit", "3.0.0") == 0
    assert full.remove("kit") == 1
    assert not full.holds("kit", "look")
    assert not full.holds("kit", "peek")
    assert (len(full), full.versions("kit")) == (0, [])


@pytest.mark.parametrize(
    ("toolkit", "version"), [("kit", "1.0.0-rc"), ("KIT", "1.0.0-rc"), ("kit", "1.0.0-RC"), ("Kit", "2.0.0")]
)
def test_case_tells_no_two_apart(toolkit: str, version: str) -> None:
    full = Shelf()
    full.put(kept("kit", "1.0.0-rc"))
    with pytest.raises(Conflict):
        full.put(kept(toolkit, version))
    assert len(full) == 1
    assert not full.remove("KIT")


def test_bytes_are_counted_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "MAX_KEPT_BYTES", 10_000)
    full = Shelf()
    full.put(kept("first", size=4_000))
    with pytest.raises(Conflict, match="unregister some"):
        full.put(kept("second", size=1_000))
    assert not full.holds("second", "look")
    full.remove("first")
    full.put(kept("second", size=4_000))


def test_names_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "MAX_KEPT_BYTES", 10_000)
    with pytest.raises(Conflict, match="bytes"):
        Shelf().put(kept(tools=tuple(map(str, range(100)))))


def test_so_is_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "MAX_KEPT", 1)
    full = Shelf()
    full.put(kept("first"))
    with pytest.raises(Conflict, match="1 definitions"):
        full.put(kept("second"))
