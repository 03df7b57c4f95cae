"""What every store of registered tools promises, whatever its engine."""

import asyncio
import math
from typing import Any

import pytest

from tests.interfaces.tool_records import changed, event, kept
from toolhall.stores.common import Stale, Unstorable
from toolhall.stores.tools import ToolRecord, ToolStore

ODD = "\u202e \U0001f6e0 e\u0301 \ufeff \uffff \x01\x7f \r\n \u2028 '\"; DROP TABLE tools; -- %s :by ?"


async def rows(store: ToolStore) -> dict[str, ToolRecord]:
    return {row.id: row for row in await store.all()}


async def test_tool_store_new_is_empty(store: ToolStore) -> None:
    assert await store.all() == ()
    assert await store.history() == ()


async def test_tool_store_saved_records_are_returned_with_their_serials(store: ToolStore) -> None:
    pick, put = kept("pick"), kept("put", sunset="2027-01-31", successor="Kit.put@2.0.0", number=1)
    saved = await store.save([pick, put], [])
    assert [changed(row, serial=0) for row in saved] == [pick, put]
    assert all(row.serial for row in saved)
    assert await store.all() == saved


async def test_tool_store_lists_records_by_registration_time(store: ToolStore) -> None:
    await store.save([kept("c", registered_at=2.0), kept("b", registered_at=3.0), kept("a", registered_at=3.0)], [])
    await store.save([kept("d", registered_at=1.0)], [])
    assert [row.tool for row in await store.all()] == ["d", "c", "a", "b"]


async def test_tool_store_save_or_remove_with_an_old_serial_is_stale(store: ToolStore) -> None:
    (first,) = await store.save([kept()], [])
    (second,) = await store.save([changed(first, state="active")], [])
    assert await store.all() == (second,)
    assert second.serial != first.serial
    with pytest.raises(Stale, match=r"Kit.pick@1.0.0: changed meanwhile; read it again"):
        await store.save([changed(first, state="inactive")], [event(first, "deactivated")])
    with pytest.raises(Stale):
        await store.remove([first], [event(first, "removed")])
    assert await store.all() == (second,)
    assert await store.history() == ()


async def test_tool_store_save_of_a_new_record_with_a_taken_id_is_stale(store: ToolStore) -> None:
    saved = await store.save([kept()], [])
    with pytest.raises(Stale) as raised:
        await store.save([kept(state="active")], [])
    assert raised.value.ids == ("Kit.pick@1.0.0",)
    assert await store.all() == saved


async def test_tool_store_serial_of_a_removed_record_is_stale_for_its_successor(store: ToolStore) -> None:
    """Who saw the first one does not take the second for it."""
    (first,) = await store.save([kept()], [])
    await store.remove([first], [])
    with pytest.raises(Stale):
        await store.save([changed(first, state="active")], [])
    (second,) = await store.save([kept()], [])
    with pytest.raises(Stale):
        await store.save([changed(first, state="active")], [])
    with pytest.raises(Stale):
        await store.remove([first], [])
    assert await store.all() == (second,)


async def test_tool_store_save_with_one_stale_record_saves_none(store: ToolStore) -> None:
    (first,) = await store.save([kept("a")], [])
    await store.save([changed(first, state="active")], [])
    before = await store.all()
    with pytest.raises(Stale) as raised:
        await store.save([kept("b"), changed(first, state="inactive"), kept("c")], [event(first)])
    assert raised.value.ids == (first.id,)
    assert await store.all() == before
    assert await store.history() == ()


async def test_tool_store_remove_with_one_stale_record_removes_none(store: ToolStore) -> None:
    a, b = await store.save([kept("a"), kept("b")], [])
    for unknown in (kept("c"), changed(kept("c"), serial=a.serial)):
        with pytest.raises(Stale):
            await store.remove([a, unknown, b], [event(a, "removed")])
    assert await store.all() == (a, b)
    await store.remove([a, b], [event(a, "removed"), event(b, "removed")])
    assert await store.all() == ()
    assert [each.what for each in await store.history()] == ["removed", "removed"]


async def test_tool_store_history_is_newest_first_and_outlives_its_tool(store: ToolStore) -> None:
    a, b = await store.save([kept("a"), kept("b")], [event(kept("a")), event(kept("b"))])
    await store.save([changed(a, state="active")], [event(a, "activated", reason=["seen", {"by": "a person"}])])
    await store.remove([b], [event(b, "removed")])
    told = [(each.id[4], each.what) for each in await store.history()]
    assert told == [("b", "removed"), ("a", "activated"), ("b", "registered"), ("a", "registered")]
    assert [each.what for each in await store.history(b.id)] == ["removed", "registered"]
    assert (await store.history(a.id))[0].detail == {"reason": ["seen", {"by": "a person"}]}
    assert await store.history("Kit.c@1.0.0") == ()


async def test_tool_store_history_is_limited_to_the_requested_length(store: ToolStore) -> None:
    await store.save([], [event(kept(), number=number) for number in range(150)])
    assert [each.detail["number"] for each in await store.history(limit=3)] == [149, 148, 147]
    assert [len(await store.history(limit=limit)) for limit in (200, 1, 0, -1)] == [150, 1, 0, 0]
    assert len(await store.history()) == 100


async def test_tool_store_history_is_not_changed_through_returned_events(store: ToolStore) -> None:
    told = event(kept(), by="me")
    await store.save([], [told])
    told.detail["by"] = "you"
    (await store.history())[0].detail["by"] = "nobody"
    assert (await store.history())[0].detail == {"by": "me"}


async def test_tool_store_unusual_text_is_returned_unchanged(store: ToolStore) -> None:
    odd = kept(by=ODD, origin_detail=ODD, dialect=ODD, document=ODD.encode() + b"\x00\xff", successor="", sunset=ODD)
    saved = await store.save([odd], [event(odd, **{ODD: ODD, "": "\x00"})])
    assert await store.all() == saved
    assert (await store.history())[0].detail == {ODD: ODD, "": "\x00"}


async def test_tool_store_names_that_differ_in_case_or_composition_are_distinct(store: ToolStore) -> None:
    """Whether both may be served is for the registry to say; nothing is overwritten here."""
    twins = [kept("caf\u00e9"), kept("cafe\u0301"), kept("CAF\u00c9"), kept("cafe")]
    await store.save(twins, [])
    assert set(await rows(store)) == {row.id for row in twins}


async def test_tool_store_document_of_a_megabyte_is_returned_unchanged(store: ToolStore) -> None:
    document = bytes(range(256)) * 4096
    await store.save([kept(document=document)], [])
    assert (await store.all())[0].document == document


async def test_tool_store_tools_of_one_document_share_its_bytes(store: ToolStore) -> None:
    """A document of a megabyte may hold thousands of tools, and must not become gigabytes."""
    document = b'{"capabilities": []}' + b" " * 1_000_000
    await store.save([kept(f"t{number}", document=bytes(document), number=number) for number in range(2_000)], [])
    read = await store.all()
    assert len(read) == 2_000
    assert read[0].document == document
    assert len({id(row.document) for row in read}) == 1


async def test_tool_store_document_is_kept_while_a_tool_uses_it(store: ToolStore) -> None:
    a, b = await store.save([kept("a", document=b"{}"), kept("b", document=b"{}")], [])
    await store.remove([a], [])
    assert (await store.all())[0].document == b"{}"
    (b,) = await store.save([changed(b, document=b"[]")], [])
    (again,) = await store.save([kept("a", document=b"{}")], [])
    assert {row.tool: row.document for row in await store.all()} == {"a": b"{}", "b": b"[]"}
    await store.save([changed(again, state="active")], [])
    assert (await rows(store))[again.id].document == b"{}"


UNSTORABLE: list[dict[str, Any]] = [
    {"by": "\ud800"},
    {"by": "a\x00b"},
    {"by": None},
    {"sunset": "\udfff"},
    {"state": "deprecated"},
    {"origin": "nowhere"},
    {"document": "{}"},
    {"document": None},
    {"number": -1},
    {"number": 2**31},
    {"registered_at": math.nan},
    {"registered_at": math.inf},
    {"changed_at": -1.0},
    {"serial": -1},
]


@pytest.mark.parametrize("wrong", UNSTORABLE, ids=repr)
async def test_tool_store_invalid_record_is_unstorable(store: ToolStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(Unstorable, match="cannot be stored"):
        await store.save([kept("fine"), kept(**wrong)], [event(kept("fine"))])
    assert await store.all() == ()
    assert await store.history() == ()


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "wrong",
    ["\ud800", math.nan, (1, 2), {1: 2}, {1, 2}, b"bytes", object(), nested(100_000)],
    ids=lambda value: str(type(value)),
)
async def test_tool_store_invalid_event_is_unstorable(store: ToolStore, wrong: Any) -> None:
    told = event(kept())
    told.detail["wrong"] = wrong
    with pytest.raises(Unstorable, match="cannot be stored"):
        await store.save([kept()], [told])
    assert await store.all() == ()


async def test_tool_store_save_of_one_tool_twice_is_unstorable(store: ToolStore) -> None:
    with pytest.raises(Unstorable, match="twice"):
        await store.save([kept(), kept(state="active")], [])
    assert await store.all() == ()


async def test_tool_store_save_concurrently_one_writer_wins(store: ToolStore) -> None:
    (seen,) = await store.save([kept()], [])
    writers = [store.save([changed(seen, by=f"writer {number}")], [event(seen, "replaced")]) for number in range(20)]
    ends = await asyncio.gather(*writers, return_exceptions=True)
    (won,) = [end for end in ends if isinstance(end, tuple)]
    assert sum(isinstance(end, Stale) for end in ends) == 19
    assert await store.all() == won
    assert len(await store.history()) == 1


async def test_tool_store_save_cancelled_is_complete_or_absent(store: ToolStore) -> None:
    """At whatever turn of the loop it is cancelled, it is there with its event or not at all; and work goes on."""
    for turns in range(12):
        row = kept(f"t{turns}")
        writer = asyncio.create_task(store.save([row], [event(row)]))
        for _ in range(turns):
            await asyncio.sleep(0)
        writer.cancel()
        await asyncio.wait([writer])
    there = set(await rows(store))
    assert there == {each.id for each in await store.history()}
    (saved,) = await store.save([kept("after")], [])
    assert set(await rows(store)) == there | {saved.id}


async def test_tool_store_ten_thousand_records_are_saved_changed_and_removed(store: ToolStore) -> None:
    many = [kept(f"t{number}", registered_at=float(number)) for number in range(10_000)]
    saved = await store.save(many, [event(row) for row in many])
    assert await store.all() == saved
    await store.save([changed(row, state="active") for row in saved], [])
    read = await store.all()
    assert {row.state for row in read} == {"active"}
    await store.remove(read, [])
    assert await store.all() == ()
