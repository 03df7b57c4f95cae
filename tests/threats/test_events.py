# ruff: noqa: N802 - tests carry the names of their rows
"""The stream of events is for those who may read the hall, as long as they may, and takes few connections."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.harness.asgi_client import AsgiRequest
from tests.unit.web.browser_client import ApprovalHall
from tests.unit.web.test_sessions import OWN_PAGE, SERVER, Person, person_of
from toolhall.http.api.events import MAX_LISTENERS, MAX_PER_CALLER

PEER = "192.0.2.7"


@pytest.fixture
async def house() -> AsyncIterator[ApprovalHall]:
    house = ApprovalHall(SERVER)
    with house.hall:
        yield house


def listen(house: ApprovalHall, headers: dict[str, str]) -> AsgiRequest:
    """A request for events, which goes on by itself."""
    sent = {"host": "localhost:8000", **headers}
    return AsgiRequest(house.hall, "GET", "/api/events", b"", sent, PEER).start()


async def status_of(request: AsgiRequest) -> int:
    """The status of a request that is refused."""
    await request.ended()
    return request.status


@pytest.mark.threat("B24")
@pytest.mark.parametrize("scopes", [(), ("approve",), ("tools:*",)])
async def test_B24_events_are_refused_to_callers_who_may_not_read_the_hall(
    house: ApprovalHall, scopes: tuple[str, ...]
) -> None:
    """A key for tools or for approving hears nothing of others' calls, and a stranger nothing at all."""
    key = await house.key("ci", *scopes)
    assert await status_of(listen(house, {"authorization": f"Bearer {key}"})) == 403
    assert await status_of(listen(house, {})) == 401


@pytest.mark.threat("B24")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_B24_events_for_another_page_are_refused(house: ApprovalHall, site: str) -> None:
    """An EventSource of another page sends no header of its own, and the session's cookie does not count there."""
    alice = await person_of(house, "alice", "observe")
    assert await status_of(listen(house, {"cookie": alice.cookie, "sec-fetch-site": site})) == 403


@pytest.mark.threat("B24")
async def test_B24_signing_out_ends_the_streams_of_the_session(house: ApprovalHall) -> None:
    """Nothing of what happens later is sent."""
    alice: Person = await person_of(house, "alice", "observe")
    stream = listen(house, {"cookie": alice.cookie, **OWN_PAGE})
    await stream.until(b"id: ")
    assert (await alice.browser.post("/sign-out", {"word": alice.token})).status == 303
    await house.call("unlock")
    await stream.ended()
    assert b"event: " not in stream.sent


@pytest.mark.threat("B24")
async def test_B24_streams_are_bounded_per_caller_and_in_all(house: ApprovalHall) -> None:
    """One more is told to wait; other requests are answered, and a stream that ends makes room."""
    keys = [await house.key(f"watcher-{number}", "observe") for number in range(MAX_LISTENERS // MAX_PER_CALLER + 1)]
    *crowd, last = [{"authorization": f"Bearer {key}"} for key in keys]
    async with AsyncExitStack() as stack:
        streams = [listen(house, headers) for headers in crowd for _ in range(MAX_PER_CALLER)]
        for stream in streams:
            stack.push_async_callback(stream.disconnect)
            await stream.until(b"id: ")
        assert await status_of(listen(house, last)) == 429
        person = await person_of(house, "alice", "observe")
        assert (await person.get("/api/me"))[0] == 200
        await streams[0].disconnect()
        again = listen(house, last)
        stack.push_async_callback(again.disconnect)
        await again.until(b"id: ")
