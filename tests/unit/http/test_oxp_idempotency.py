"""A call that is sent twice under one id runs once, as long as its answer is remembered."""

import asyncio

import pytest

from toolhall.http import oxp
from toolhall.http.oxp import CallIdReused, IdempotencyCache
from toolhall.model.errors import Denied, Unavailable
from toolhall.model.messages import WireResponse

KEY = ("local", "c-1")


async def may() -> None:
    """Whoever asks again may have the answer."""


async def may_not() -> None:
    """Or not any more."""
    raise Denied


class Tool:
    """Answers with how often it ran."""

    def __init__(self, status: int = 200, size: int = 1) -> None:
        self.runs = 0
        self._status = status
        self._size = size

    async def __call__(self) -> WireResponse:
        self.runs += 1
        return WireResponse(b"%d" % self.runs * self._size, self._status)


class Clock:
    """Stands still unless it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_cached_response_expires() -> None:
    clock, tool = Clock(), Tool()
    kept = IdempotencyCache(clock)
    assert [(await kept.run_once(KEY, b"r", tool, may)).body for _ in range(2)] == [b"1", b"1"]
    clock.now = oxp.KEPT_SECONDS
    assert (await kept.run_once(KEY, b"r", tool, may)).body == b"1"
    clock.now += 1
    assert (await kept.run_once(KEY, b"other", tool, may)).body == b"2"


@pytest.mark.parametrize(("status", "runs"), [(200, 1), (500, 1), (400, 2), (401, 2), (422, 2), (429, 2), (503, 2)])
async def test_only_final_responses_are_cached(status: int, runs: int) -> None:
    tool, kept = Tool(status), IdempotencyCache(Clock())
    for _ in range(2):
        await kept.run_once(KEY, b"r", tool, may)
    assert tool.runs == runs


async def test_repeat_is_authorized_first() -> None:
    tool, kept = Tool(), IdempotencyCache(Clock())
    assert (await kept.run_once(KEY, b"r", tool, may_not)).body == b"1"  # the call itself was judged on its way
    with pytest.raises(Denied):
        await kept.run_once(KEY, b"r", tool, may_not)
    assert (await kept.run_once(KEY, b"r", tool, may)).body == b"1"


async def test_call_ids_are_per_caller() -> None:
    tool, kept = Tool(), IdempotencyCache(Clock())
    await kept.run_once(("ada", "c-1"), b"r", tool, may)
    assert (await kept.run_once(("bob", "c-1"), b"other", tool, may)).body == b"2"


async def test_cache_full_by_count_evicts_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oxp, "MAX_KEPT", 2)
    tool, kept = Tool(), IdempotencyCache(Clock())
    for name in ("a", "b", "c"):
        await kept.run_once(("local", name), b"r", tool, may)
    await kept.run_once(("local", "c"), b"r", tool, may)
    assert tool.runs == 3
    await kept.run_once(("local", "a"), b"r", tool, may)
    assert tool.runs == 4


async def test_cache_full_by_bytes_evicts_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oxp, "MAX_KEPT_BYTES", 25)
    tool, kept = Tool(size=10), IdempotencyCache(Clock())
    for name in ("a", "b", "c", "d"):
        await kept.run_once(("local", name), b"r", tool, may)
    await kept.run_once(("local", "d"), b"r", tool, may)
    assert tool.runs == 4
    await kept.run_once(("local", "a"), b"r", tool, may)
    assert tool.runs == 5


async def test_running_calls_are_never_evicted() -> None:
    clock, going_on = Clock(), asyncio.Event()
    kept = IdempotencyCache(clock)

    async def slow() -> WireResponse:
        await going_on.wait()
        return WireResponse(b"slow")

    first = asyncio.ensure_future(kept.run_once(KEY, b"r", slow, may))
    await asyncio.sleep(0)
    clock.now = 10 * oxp.KEPT_SECONDS
    second = asyncio.ensure_future(kept.run_once(KEY, b"r", Tool(), may))
    with pytest.raises(CallIdReused):
        await kept.run_once(KEY, b"other", Tool(), may)
    going_on.set()
    assert [wire.body for wire in await asyncio.gather(first, second)] == [b"slow", b"slow"]


async def test_repeat_of_cancelled_call_may_retry() -> None:
    kept, tool = IdempotencyCache(Clock()), Tool()

    async def never() -> WireResponse:
        await asyncio.Event().wait()
        raise AssertionError

    first = asyncio.ensure_future(kept.run_once(KEY, b"r", never, may))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(kept.run_once(KEY, b"r", tool, may))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(Unavailable):
        await second
    assert (await kept.run_once(KEY, b"r", tool, may)).body == b"1"


async def test_cancelled_repeat_does_not_cancel_first_call() -> None:
    kept, going_on = IdempotencyCache(Clock()), asyncio.Event()

    async def slow() -> WireResponse:
        await going_on.wait()
        return WireResponse(b"slow")

    first = asyncio.ensure_future(kept.run_once(KEY, b"r", slow, may))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(kept.run_once(KEY, b"r", slow, may))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    going_on.set()
    assert (await first).body == b"slow"
