"""Replies that are ready together go out together, and nothing of a call is left to the garbage collector."""

import asyncio
import gc
import logging
from contextlib import AsyncExitStack

import pytest

from tests.harness.http_client import AsyncConnection
from tests.threats.shielded import Shielded, connected, shielded
from toolhall.server.request_cycle import RequestCycle
from toolhall.server.write_batcher import MAX_BATCH, WriteBatcher, write_batcher_for

CALLS = 20


class ObservedReply:
    """A reply that tells when it goes."""

    def __init__(self, name: str, told: list[str]) -> None:
        self._name = name
        self._told = told

    def flush(self) -> None:
        if not self._name:
            raise OSError("the client is gone")
        self._told.append(self._name)


async def test_outbox_replies_of_one_turn_are_sent_after_it_in_order() -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    outbox = WriteBatcher()
    outbox.schedule(ObservedReply("first", told), loop)
    outbox.schedule(ObservedReply("second", told), loop)
    told.append("the turn")
    await asyncio.sleep(0)
    assert told == ["the turn", "first", "second"]
    outbox.schedule(ObservedReply("third", told), loop)
    await asyncio.sleep(0)
    assert told[3:] == ["third"]


async def test_outbox_reply_that_fails_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    outbox = write_batcher_for(loop)
    assert outbox is write_batcher_for(loop), "connections of a loop share it"
    with caplog.at_level(logging.ERROR, "toolhall.http"):
        for name in ("first", "", "third"):
            outbox.schedule(ObservedReply(name, told), loop)
        await asyncio.sleep(0)
    assert told == ["first", "third"]
    assert "a reply could not be sent" in caplog.text


async def waiting_clients(served: Shielded, stack: AsyncExitStack, count: int) -> list[AsyncConnection]:
    """So many clients, each of which waits for the gate."""
    clients = [await stack.enter_async_context(connected(served)) for _ in range(count)]
    for client in clients:
        client.send(served.call("holds"))
    await served.until(lambda: served.held == count)
    return clients


def has_pending_reply(served: Shielded) -> bool:
    """Whether a reply is there that has not gone out."""
    return any(each.cycle.response_started and not each.cycle.response_complete for each in served.connections)


async def test_outbox_with_several_clients_sends_each_its_reply() -> None:
    async with shielded() as served, AsyncExitStack() as stack:
        clients = await waiting_clients(served, stack, CALLS)
        served.gate.set()
        await served.until(lambda: has_pending_reply(served))
        assert [await client.status() for client in clients] == [200] * CALLS


async def test_outbox_at_shutdown_sends_what_is_ready_first() -> None:
    async with shielded() as served, AsyncExitStack() as stack:
        clients = await waiting_clients(served, stack, 2)
        served.gate.set()
        await served.until(lambda: has_pending_reply(served))
        for connection in served.connections:
            connection.shutdown()
        for client in clients:
            assert await client.status() == 200
            assert await client.rest() == b""


async def test_outbox_client_that_disconnects_disturbs_nobody() -> None:
    async with shielded() as served, AsyncExitStack() as stack:
        clients = await waiting_clients(served, stack, 2)
        served.gate.set()
        await served.until(lambda: has_pending_reply(served))
        cycles = [(each, each.cycle) for each in served.connections]
        leaving = next(each for each, cycle in cycles if cycle.response_started and not cycle.response_complete)
        leaving.connection_lost(None)
        await served.until(lambda: leaving.cycle.response_complete)
        assert leaving.cycle.disconnected
        leaving.transport.close()
        assert sorted(map(bool, [await client.some() for client in clients])) == [False, True]


async def test_outbox_after_a_call_leaves_nothing_for_the_garbage_collector() -> None:
    async with shielded() as served, connected(served) as client:
        gc.collect()
        gc.disable()
        try:
            for _ in range(CALLS):
                client.send(served.call("large", size=1))
                assert await client.status() == 200
            cycles = [each for each in gc.get_objects() if type(each) is RequestCycle]
        finally:
            gc.enable()
        assert len(cycles) == 1, "the connection knows its latest"


class ObservedRequest:
    """A request that tells when it begins, and is answered at once."""

    def __init__(self, number: int, outbox: WriteBatcher, told: list[str]) -> None:
        self._number = number
        self._outbox = outbox
        self._told = told

    def start(self) -> None:
        if self._number < 0:
            raise RuntimeError("a request that cannot be started")
        self._told.append(f"begins {self._number}")
        self._outbox.schedule(ObservedReply(f"replies {self._number}", self._told), asyncio.get_running_loop())


async def test_outbox_requests_beyond_a_batch_wait_for_the_next_turns_in_order() -> None:
    """However many clients there are, the first is answered before the last has begun."""
    loop, told = asyncio.get_running_loop(), list[str]()
    outbox = WriteBatcher()
    count = 2 * MAX_BATCH + 3
    for number in range(count):
        outbox.start(ObservedRequest(number, outbox, told), loop)
    assert told == [], "what the loop reads now comes first"
    for _ in range(6):
        await asyncio.sleep(0)
    expected: list[str] = []
    for first in range(0, count, MAX_BATCH):
        batch = range(first, min(first + MAX_BATCH, count))
        expected += [f"begins {number}" for number in batch] + [f"replies {number}" for number in batch]
    assert told == expected


async def test_outbox_request_that_fails_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    outbox = WriteBatcher()
    with caplog.at_level(logging.ERROR, "toolhall.http"):
        for number in (1, -1, 3):
            outbox.start(ObservedRequest(number, outbox, told), loop)
        await asyncio.sleep(0)
    assert told == ["begins 1", "begins 3", "replies 1", "replies 3"]
    assert "a request could not be started" in caplog.text
    outbox.start(ObservedRequest(4, outbox, told), loop)
    await asyncio.sleep(0)
    assert told[4:] == ["begins 4", "replies 4"]


async def test_outbox_waiting_request_of_a_client_that_has_gone_is_not_run() -> None:
    async with shielded() as served, connected(served) as first, connected(served) as second:
        for client in (first, second):
            client.send(served.call("large", size=1))
            assert await client.status() == 200
        connection = served.connections[0]
        connection.data_received(served.call("holds"))
        connection.connection_lost(None)
        await served.until(lambda: connection.cycle.response_complete)
        assert served.held == 0
        connection.transport.abort()
