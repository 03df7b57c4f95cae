"""Slots for requests: shared fairly, handed on in order, never lost, never more than there are."""

import asyncio
from typing import Any

import pytest

from tests.unit.builders import Clock
from toolhall.http.request_slots import (
    RESERVED_HEALTH_SLOTS,
    RESERVED_SLOTS,
    ConcurrencyLimiter,
    FairSlots,
    IncompleteBodies,
    SlotPool,
)
from toolhall.model.caller import Caller

FOREVER = 600.0
ANNA, BEN = Caller("anna", proof="key"), Caller("ben", proof="token")


def anonymous_caller(address: str = "192.0.2.1") -> Caller:
    return Caller("anonymous", address=address)


async def run_pending() -> None:
    """Run the tasks that are ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def full_pool(most: int, wait_seconds: float = FOREVER) -> SlotPool:
    """A pool whose slots are all taken, each by another key."""
    pool = SlotPool(most, None, wait_seconds)
    assert all(pool.try_acquire(f"key {number}") for number in range(most))
    return pool


@pytest.mark.parametrize("callers", [1, 2, 3, 7])
def test_n_greedy_keys_leave_equal_share(callers: int) -> None:
    shares, names = FairSlots(256), [str(number) for number in range(callers)]
    for _ in range(256):
        for name in names:
            shares.try_acquire(name)
    each = [shares.held_by(name) for name in names]
    assert max(each) - min(each) <= 1
    assert 256 - sum(each) >= 256 // (callers + 1)
    assert sum(shares.try_acquire("late") for _ in range(256)) >= 256 // (callers + 1) // 2


def test_key_holds_at_most_per_key() -> None:
    shares = FairSlots(256, 3)
    assert [shares.try_acquire("a") for _ in range(4)] == [True, True, True, False]
    assert shares.try_acquire("b")
    shares.release("a")
    assert shares.try_acquire("a")


def test_key_without_slots_is_forgotten() -> None:
    shares = FairSlots(8)
    for number in range(10_000):
        assert shares.try_acquire(str(number))
        shares.release(str(number))
    assert (shares.in_use, shares.holders) == (0, 0)


async def test_queue_is_fifo() -> None:
    pool, order = full_pool(12), list[str]()

    async def visit(name: str) -> None:
        assert await pool.acquire(name)
        order.append(name)

    visits = [asyncio.create_task(visit(name)) for name in "abc"]
    await run_pending()
    assert not pool.try_acquire("d")
    for number, _ in enumerate(visits):
        pool.release(f"key {number}")
        await run_pending()
    assert order == list("abc")


async def test_released_slot_goes_to_first_with_share() -> None:
    """Whoever has more than its share waits behind those who have less."""
    pool = SlotPool(16, None, FOREVER)
    while pool.try_acquire("greedy"):
        pass
    while pool.try_acquire("other"):
        pass
    held = [pool.held_by(name) for name in ("greedy", "other")]
    greedy, modest = asyncio.create_task(pool.acquire("greedy")), asyncio.create_task(pool.acquire("modest"))
    await run_pending()
    pool.release("other")
    await run_pending()
    assert (greedy.done(), modest.done()) == (False, True)
    assert held[0] == 8
    greedy.cancel()
    await asyncio.gather(greedy, return_exceptions=True)


async def test_queue_is_bounded_and_fair() -> None:
    pool = full_pool(32)
    waiting = [asyncio.create_task(pool.acquire("greedy")) for _ in range(20)]
    await run_pending()
    assert sum(task.done() for task in waiting) == 16  # of eight places it gets four
    other = asyncio.create_task(pool.acquire("other"))
    await run_pending()
    assert not other.done()
    for task in (*waiting, other):
        task.cancel()
    await asyncio.gather(*waiting, other, return_exceptions=True)
    assert (pool.in_use, pool.is_queue_full) == (32, False)


async def test_acquire_times_out() -> None:
    pool = full_pool(1, 0.0)
    assert await pool.acquire("a") is False
    assert not pool.is_queue_full


async def test_released_slot_skips_timed_out_waiter() -> None:
    pool = full_pool(1, 0.0)
    waiting = asyncio.create_task(pool.acquire("a"))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.0, pool.release, "key 0")  # in the same turn, right after the other timer
    assert await waiting is False
    assert pool.in_use == 0


@pytest.mark.parametrize("late", [False, True])
async def test_cancelled_acquire_loses_no_slot(late: bool) -> None:
    pool = full_pool(1)
    waiting = asyncio.create_task(pool.acquire("a"))
    await run_pending()
    if late:
        pool.release("key 0")  # the slot is handed over, and its taker is cancelled before it knows
    waiting.cancel()
    if not late:
        pool.release("key 0")
    await run_pending()
    assert waiting.cancelled()
    assert (pool.in_use, pool.holders) == (0, 0)
    assert pool.try_acquire("b")


async def test_reserve_serves_management_paths() -> None:
    admission = ConcurrencyLimiter(1, FOREVER)
    assert admission.try_acquire(ANNA, "/mcp") is admission.callers
    assert admission.try_acquire(ANNA, "/mcp") is None
    count = 0
    while (slot := admission.try_acquire(ANNA, "/api/tools")) is not None:
        assert slot is admission.reserve
        count += 1
    assert 0 < count < RESERVED_SLOTS
    assert admission.try_acquire(BEN, "/health") is admission.reserve
    assert admission.try_acquire(anonymous_caller(), "/approve/x") is admission.anonymous  # never the reserve
    assert admission.try_acquire(anonymous_caller(), "/approve/x") is None


async def test_anonymous_and_health_slots_are_separate() -> None:
    admission = ConcurrencyLimiter(16, FOREVER)
    for number in range(50):
        admission.try_acquire(anonymous_caller(f"192.0.2.{number}"), "/machine")
    assert admission.anonymous.in_use == 4
    assert admission.try_acquire(ANNA, "/mcp") is admission.callers
    health = [admission.try_acquire(anonymous_caller(f"192.0.2.{number}"), "/health") for number in range(50)]
    assert [slot is admission.health for slot in health].count(True) == RESERVED_HEALTH_SLOTS
    assert not admission.is_overloaded
    assert await ConcurrencyLimiter(16, 0.0).acquire(anonymous_caller()) is None


async def test_is_overloaded_while_full_and_shortly_after() -> None:
    clock = Clock()
    admission = ConcurrencyLimiter(1, 0.0, clock)
    seen = [admission.is_overloaded]
    assert admission.try_acquire(ANNA, "/mcp")
    seen.append(admission.is_overloaded)
    admission.callers.release("anna")
    seen.append(admission.is_overloaded)  # nobody found it full
    assert admission.try_acquire(ANNA, "/mcp")
    assert admission.try_acquire(BEN, "/mcp") is None
    admission.callers.release("anna")
    for seconds in (14.9, 0.2):
        clock.now += seconds
        seen.append(admission.is_overloaded)
    assert seen == [False, True, False, True, False]


async def test_rejects_counts_as_overload() -> None:
    admission = ConcurrencyLimiter(1, FOREVER, Clock())
    assert admission.try_acquire(ANNA, "/mcp")
    waiting = asyncio.create_task(admission.acquire(BEN))
    await run_pending()
    assert (admission.rejects("/mcp"), admission.rejects("/health")) == (True, False)
    admission.callers.release("anna")
    assert await waiting
    admission.callers.release("ben")
    assert (admission.running, admission.is_overloaded) == (0, True)


class IncompleteRequest:
    """A request whose body is incomplete."""

    def __init__(self, name: str, dropped: list[str]) -> None:
        self._name = name
        self._dropped = dropped

    def drop(self) -> None:
        self._dropped.append(self._name)


@pytest.mark.parametrize(
    ("before", "new", "gone"),
    [
        ("aaab", "c", "a1"),  # the oldest of the busiest
        ("baaa", "b", "a2"),  # nobody else is dropped for an attacker's address
        ("abcd", "e", "a1"),  # where each has one, the oldest
        ("bbaa", "b", "b1"),  # with the new one its address is the busiest
    ],
)
def test_new_anonymous_body_drops_oldest_of_busiest(before: str, new: str, gone: str) -> None:
    bodies, dropped = IncompleteBodies(8, 4), list[Any]()
    for number, address in enumerate(before, 1):
        bodies.add_anonymous(address, IncompleteRequest(f"{address}{number}", dropped))
    bodies.add_anonymous(new, IncompleteRequest("new", dropped))
    assert (dropped, bodies.anonymous) == ([gone], 4)
