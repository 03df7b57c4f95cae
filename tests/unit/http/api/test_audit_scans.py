"""Readers of the audit wait for their turn, and none of them can keep the hall from its work by asking often."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from itertools import islice

import pytest

from tests.harness.patience import patience
from tests.unit.http.api.management_client import manage
from toolhall import Config, Toolhall
from toolhall.examples.calculator import Calculator
from toolhall.http.api.audit_scans import MAX_OF_ALL, MAX_OF_CALLER, MAX_OF_OWNER, MAX_OF_OWNERS, MAX_RUNNING
from toolhall.model.caller import OBSERVE
from toolhall.registration.access import NewKey
from toolhall.stores.audit.filters import AuditQuery
from toolhall.stores.audit.query import Positions, RecordPage


class SlowAudit:
    """Searches of a hall's audit that take until `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.running = 0
        self.most = 0
        self.begun = asyncio.Semaphore(0)  # released by each

    async def search(self, query: AuditQuery, limit: int, before: Positions | None = None) -> RecordPage:
        self.running += 1
        self.most = max(self.most, self.running)
        self.begun.release()
        try:
            await asyncio.to_thread(self.go_on.wait, patience())
        finally:
            self.running -= 1
        return await self.real(query, limit, before)

    def patch(self, hall: Toolhall, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real = hall.journal.search
        monkeypatch.setattr(hall.journal, "search", self.search)


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(Calculator, config=Config(profile="server", allowed_hosts=("localhost",))) as hall:
        await hall.open()
        yield hall


@pytest.fixture
def slow(hall: Toolhall, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowAudit]:
    audit = SlowAudit()
    audit.patch(hall, monkeypatch)
    with ExitStack() as stack:
        stack.callback(audit.go_on.set)
        yield audit


async def key(hall: Toolhall, name: str, *scopes: str) -> dict[str, str]:
    """The headers of a new key."""
    _, secret = await hall.access.keys.create(NewKey(name, scopes=scopes), "tests")
    return {"authorization": f"Bearer {secret}"}


async def observer(hall: Toolhall, name: str) -> dict[str, str]:
    """The headers of a new key that may look."""
    return await key(hall, name, OBSERVE)


async def ask(hall: Toolhall, headers: dict[str, str]) -> int:
    return (await manage(hall, "GET", "/api/audit?caller=nobody", None, headers)).status


@pytest.mark.threat("B27")
async def test_reader_with_too_many_searches_is_refused_and_others_are_not(hall: Toolhall, slow: SlowAudit) -> None:
    """At most three read at a time, whoever asks."""
    eager, calm = await observer(hall, "eager"), await observer(hall, "calm")
    first = [asyncio.ensure_future(ask(hall, eager)) for _ in range(MAX_OF_CALLER + 5)]
    refused = [await each for each in islice(asyncio.as_completed(first, timeout=patience()), 5)]
    other = asyncio.ensure_future(ask(hall, calm))
    slow.go_on.set()
    assert refused == [429] * 5
    assert sorted(await asyncio.gather(*first)) == [200] * MAX_OF_CALLER + [429] * 5
    assert await other == 200
    assert 1 <= slow.most <= MAX_RUNNING
    assert await ask(hall, eager) == 200, "who has waited may ask again"


@pytest.mark.threat("B27")
async def test_callers_that_read_their_own_calls_do_not_keep_observers_waiting(hall: Toolhall, slow: SlowAudit) -> None:
    """One of them reads at a time, beside the observers, and two of each may wait."""
    keys = [await key(hall, f"key{number}") for number in range(MAX_OF_OWNERS)]
    own = [asyncio.ensure_future(ask(hall, each)) for each in keys for _ in range(MAX_OF_OWNER)]
    refused = [await each for each in islice(asyncio.as_completed(own, timeout=patience()), len(own) - MAX_OF_OWNERS)]
    assert set(refused) == {429}
    assert slow.running == 1
    observers = [asyncio.ensure_future(ask(hall, await observer(hall, "calm"))) for _ in range(MAX_RUNNING)]
    async with asyncio.timeout(patience()):
        for _ in range(1 + MAX_RUNNING):
            await slow.begun.acquire()
    slow.go_on.set()
    assert await asyncio.gather(*observers) == [200] * MAX_RUNNING
    assert sorted(await asyncio.gather(*own)) == [200] * MAX_OF_OWNERS + refused


@pytest.mark.threat("B27")
async def test_many_keys_together_wait_with_so_many_searches_only(hall: Toolhall, slow: SlowAudit) -> None:
    """Even with keys that one person has made for it."""
    keys = [await observer(hall, f"key{number}") for number in range(MAX_OF_ALL // MAX_OF_CALLER + 1)]
    asked = [asyncio.ensure_future(ask(hall, key)) for key in keys for _ in range(MAX_OF_CALLER)]
    refused = [await each for each in islice(asyncio.as_completed(asked, timeout=patience()), MAX_OF_CALLER)]
    slow.go_on.set()
    assert refused == [429] * MAX_OF_CALLER
    assert sorted(await asyncio.gather(*asked)) == [200] * MAX_OF_ALL + [429] * MAX_OF_CALLER
