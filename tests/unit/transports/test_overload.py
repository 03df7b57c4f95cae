"""Places for requests: handed on in order, never lost, never more than there are."""

import asyncio

import pytest

from tests.unit.parts import Clock
from toolhall.transports.overload import Room

FOREVER = 600.0


async def turn() -> None:
    """Let everything that can go on go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_whoever_waits_longest_is_next() -> None:
    room, order = Room(12, FOREVER), list[str]()

    async def visit(name: str) -> None:
        assert await room.wait()
        order.append(name)

    assert all(room.enter("/mcp") for _ in range(12))
    visits = [asyncio.create_task(visit(name)) for name in "abc"]
    await turn()
    assert not room.enter("/mcp")
    for _ in visits:
        room.leave()
        await turn()
    assert order == list("abc")
    for _ in range(12):
        room.leave()
    assert room.running == 0


async def test_the_line_is_bounded() -> None:
    room = Room(4, FOREVER)
    assert all(room.enter("/mcp") for _ in range(4))
    first = asyncio.create_task(room.wait())
    await turn()
    assert room.turns_away("/mcp")
    assert await room.wait() is False
    room.leave()
    assert await first


async def test_nobody_waits_for_long() -> None:
    room = Room(1, 0.0)
    assert room.enter("/mcp")
    assert await room.wait() is False
    assert not room.turns_away("/mcp")


async def test_a_place_is_not_handed_to_one_that_has_just_given_up() -> None:
    room = Room(1, 0.0)
    assert room.enter("/mcp")
    waiting = asyncio.create_task(room.wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.0, room.leave)  # in the same turn, right after the other timer
    assert await waiting is False
    assert room.running == 0


async def test_a_place_is_not_handed_to_one_that_was_just_cancelled() -> None:
    room = Room(1, FOREVER)
    assert room.enter("/mcp")
    waiting = asyncio.create_task(room.wait())
    await turn()
    waiting.cancel()
    room.leave()
    await turn()
    assert waiting.cancelled()
    assert room.running == 0


@pytest.mark.parametrize("late", [False, True])
async def test_who_gives_up_loses_no_place(late: bool) -> None:
    room = Room(1, FOREVER)
    assert room.enter("/mcp")
    waiting = asyncio.create_task(room.wait())
    await turn()
    if late:
        room.leave()  # the place is handed over, and its taker is cancelled before it knows
    waiting.cancel()
    await turn()
    if not late:
        room.leave()
    assert room.running == 0
    assert room.enter("/mcp")


async def test_a_few_places_are_for_those_who_look_after_the_server() -> None:
    room = Room(1, FOREVER)
    assert room.enter("/mcp")
    assert room.enter("/health")
    assert not room.enter("/mcp")
    waiting = asyncio.create_task(room.wait())
    await turn()
    room.leave()  # one of two, where there is place for one
    await turn()
    assert not waiting.done()
    room.leave()
    assert await waiting
    count = sum(room.enter("/api/tools") for _ in range(1_000))
    assert 0 < count < 100


async def test_a_patient_one_is_not_counted_among_those_who_wait_for_a_moment() -> None:
    room = Room(1, FOREVER)
    await room.enter_patiently()
    patient = asyncio.create_task(room.enter_patiently())
    await turn()
    assert not room.turns_away("/mcp")
    room.leave()
    await patient
    assert room.running == 1


async def test_it_is_strained_while_it_is_full_and_for_a_while_after_somebody_found_no_place() -> None:
    clock = Clock()
    room = Room(1, 0.0, clock)
    seen = [room.strained]
    assert room.enter("/mcp")
    seen.append(room.strained)
    room.leave()
    seen.append(room.strained)  # nobody found it full
    assert room.enter("/mcp")
    assert room.enter("/mcp") is False
    room.leave()
    for seconds in (14.9, 0.2):
        clock.now += seconds
        seen.append(room.strained)
    assert seen == [False, True, False, True, False]


async def test_who_is_turned_away_unheard_found_no_place_either() -> None:
    clock = Clock()
    room = Room(1, FOREVER, clock)
    assert room.enter("/mcp")
    waiting = asyncio.create_task(room.wait())
    await turn()
    assert room.turns_away("/mcp")
    room.leave()
    assert await waiting
    room.leave()
    assert (room.running, room.strained) == (0, True)
