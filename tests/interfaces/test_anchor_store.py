"""What every store promises of the audit's anchor and of used request states, whatever its engine."""

import asyncio
from pathlib import Path

import pytest

from toolhall.stores import approvals
from toolhall.stores.audit.anchors import MAX_ACCEPTANCES, Acceptance, Anchor
from toolhall.stores.audit.hash_chain import Checkpoint
from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.open import open_stores
from toolhall.stores.sql import anchors as sql_anchors

NOW = 1_000.0


def mark(log: str, number: int) -> Checkpoint:
    return Checkpoint(log, number, f"{number:064d}", 1.5, "signature")


def test_anchor_store_advance_keeps_only_newer_checkpoints_of_its_key(stores: Stores) -> None:
    anchors = stores.anchors
    assert anchors.read() == Anchor()
    anchors.advance("key", [mark("a", 5), mark("b", 2)])
    anchors.advance("key", [mark("a", 4), mark("b", 3)])
    anchors.advance("another key", [mark("a", 9)])
    assert anchors.read() == Anchor(public="key", marks={"a": mark("a", 5), "b": mark("b", 3)})


def test_anchor_store_accept_replaces_all_checkpoints_and_is_recorded(stores: Stores) -> None:
    anchors = stores.anchors
    anchors.advance("key", [mark("a", 5), mark("b", 2)])
    for number in range(MAX_ACCEPTANCES + 1):
        anchors.accept("another key", [mark("a", 1)], Acceptance(float(number), "ada", ("cut off",)))
    found = anchors.read()
    assert (found.public, found.marks) == ("another key", {"a": mark("a", 1)})
    assert [each.time for each in found.accepted] == [float(number) for number in range(1, MAX_ACCEPTANCES + 1)]
    anchors.advance("another key", [mark("a", 2)])
    assert anchors.read().accepted == found.accepted


async def test_anchor_store_on_demand_checkpoint_is_written_with_the_first_data(tmp_path: Path) -> None:
    stores = open_stores(tmp_path, allow_readonly=False)
    stores.anchors.advance("key", [mark("a", 5)])
    assert not (tmp_path / DATABASE_FILE).exists()
    assert await stores.states.consume("s1", "ada", NOW + 1, NOW)
    assert stores.anchors.read().marks == {"a": mark("a", 5)}
    stores.close()
    again = open_stores(tmp_path, allow_readonly=False)
    assert again.anchors.read().marks == {"a": mark("a", 5)}
    again.close()


async def test_request_state_store_state_is_consumed_once_until_released(stores: Stores) -> None:
    used = await asyncio.gather(*(stores.states.consume("s1", "ada", NOW + 10, NOW) for _ in range(4)))
    assert sorted(used) == [False, False, False, True]
    assert await stores.states.consume("s2", "ada", NOW + 10, NOW)
    await stores.states.release("s1")
    await stores.states.release("s1")
    assert await stores.states.consume("s1", "ada", NOW + 10, NOW)
    assert not await stores.states.consume("s1", "ada", NOW + 10, NOW)


async def test_request_state_store_unexpired_states_are_found_by_prefix(stores: Stores) -> None:
    for name, expires in (("a%:1", NOW + 10), ("a%:2", NOW + 20), ("ab:3", NOW + 10), ("A%:4", NOW + 10)):
        assert await stores.states.consume(name, "ada", expires, NOW)
    assert await stores.states.unexpired("a%:", NOW) == {"a%:1": NOW + 10, "a%:2": NOW + 20}
    assert await stores.states.unexpired("a%:", NOW + 10) == {"a%:2": NOW + 20}
    assert await stores.states.unexpired("none:", NOW) == {}


async def test_request_state_store_used_states_of_a_caller_are_limited(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (approvals, sql_anchors):
        monkeypatch.setattr(module, "MAX_USED_STATES", 3)
    for number in range(3):
        assert await stores.states.consume(f"s{number}", "ada", NOW + 10 + number, NOW)
    with pytest.raises(approvals.TooManyStates) as refused:
        await stores.states.consume("s3", "ada", NOW + 20, NOW)
    assert refused.value.seconds == 10
    assert not await stores.states.consume("s2", "ada", NOW + 20, NOW)
    assert await stores.states.consume("s3", "bob", NOW + 20, NOW)
    assert await stores.states.consume("s4", "ada", NOW + 20, NOW + 11)
