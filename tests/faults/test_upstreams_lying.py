"""Upstreams answer as no server should: their calls end in time, the hall stays small, and the next call goes well."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.faults.upstream_hall import (
    SOON,
    FaultyUpstream,
    UpstreamCaller,
    UpstreamHall,
    assert_ran_once,
    harms_nobody_else,
    nonce,
    upstream_hall,
)
from tests.harness.mcp_messages import MODERN, McpAnswer, tool_call

TIMEOUT = 1.0
MAX_GROWTH = 48 << 20  # bytes, while an upstream sends 256 MiB
LATE = "did not finish within"
LOST = "whether it had an effect is not known"
UNREADABLE = "returned something that cannot be read"
OK = "{}"
# What a caller is told, by what the upstream does over stdio and over HTTP.
TOLD = {
    "schema": ("other than its output schema promises", "other than its output schema promises"),
    "shape": (UNREADABLE, UNREADABLE),
    "empty": (LATE, LOST),
    "bytes": (UNREADABLE, UNREADABLE),
    "deep": (LATE, LOST),
    "wrong id": (LATE, LATE),
    "strangers": (OK, OK),
    "odd ids": (OK, LOST),
    "twice": (OK, OK),
    "huge": (LOST, "returned more than is passed on"),
    "endless": (LATE, LATE),
    "html": (OK, LOST),
    "slow": (None, LATE),  # over stdio it harms only what it says itself meanwhile
    "cut": (LOST, LOST),
}


class Site(list[FaultyUpstream]):
    """Upstreams of every kind, one that does no harm, and the hall in front of them."""

    hall: UpstreamHall
    beside: FaultyUpstream


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hall for every test here."""
    folder = tmp_path_factory.mktemp("site")
    found = Site(
        FaultyUpstream(folder, f"{'Modern' if modern else 'Legacy'}_{each}", each, modern=modern, timeout=TIMEOUT)
        for each in ("stdio", "http")
        for modern in (False, True)
    )
    found.beside = FaultyUpstream(folder, "Beside", "stdio")
    with upstream_hall(folder, *found, found.beside) as found.hall:
        yield found


@pytest.mark.parametrize("kind", TOLD)
async def test_answer_that_no_server_should_give_ends_its_call_alone(site: Site, kind: str) -> None:
    """In both eras, over both transports at once."""
    hall = site.hall
    await hall.until_ready(*site, site.beside)
    lying = [each for each in site if TOLD[kind][each.transport == "http"] is not None]
    before = hall.server.rss
    async with harms_nobody_else(hall, site.beside):
        answered = await asyncio.gather(*(harmed(hall, each, kind) for each in lying))
        for upstream, (answer, seconds) in zip(lying, answered, strict=True):
            assert str(TOLD[kind][upstream.transport == "http"]) in answer.text, (upstream.name, answer.text)
            assert seconds < TIMEOUT + SOON
        await hall.until_ready(*lying)
        caller = UpstreamCaller(hall)
        after = [await caller.write(each) for each in lying]
        await caller.close()
    assert all(each.ok for each in after), [each.answer.text for each in after]
    assert hall.server.rss < before + MAX_GROWTH
    for upstream, last in zip(lying, after, strict=True):
        assert_ran_once(upstream, [last])


async def harmed(hall: UpstreamHall, upstream: FaultyUpstream, kind: str) -> tuple[McpAnswer, float]:
    """The answer to a call that is answered badly, and after how many seconds."""
    loop = asyncio.get_running_loop()
    message = tool_call(MODERN, f"{upstream.name}_harm", {"nonce": nonce(), "kind": kind})
    message["params"]["_meta"]["progressToken"] = 1
    caller, began = UpstreamCaller(hall), loop.time()
    answer = await caller.send(message)
    await caller.close()
    return answer, loop.time() - began
