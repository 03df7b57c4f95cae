"""Upstreams are killed, stand still, are cut off and start anew: every call has one true answer, and all heals."""

import asyncio
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.faults.flaky_proxy import FlakyProxy
from tests.faults.upstream_hall import (
    SOON,
    FaultyUpstream,
    Transport,
    UpstreamCaller,
    UpstreamLoad,
    assert_ran_once,
    harms_nobody_else,
    nonce,
    until,
    upstream_hall,
)
from tests.harness.seeds import count, runs_everything

CALLERS = 32
KILLS = count(5, 100)
TIMEOUT = 1.5  # of a call
LOST = "whether it had an effect is not known"
UNREACHABLE = "cannot be reached now"
LATE = "did not finish within"
BOTH: list[Transport] = ["stdio", "http"]
LARGE = "x" * 100_000  # more than a pipe takes


def has_run(upstream: FaultyUpstream, name: str) -> bool:
    return name in upstream.calls


def has_started(upstream: FaultyUpstream, times: int) -> bool:
    return len(upstream.pids) > times


@pytest.mark.timeout(600)
@pytest.mark.parametrize("transport", BOTH)
async def test_killed_upstream_loses_only_its_running_calls(tmp_path: Path, transport: Transport) -> None:
    upstream = FaultyUpstream(tmp_path, "Killed", transport, timeout=TIMEOUT)
    with upstream_hall(tmp_path, upstream) as hall:
        await hall.until_ready(upstream)
        async with UpstreamLoad(hall, upstream, CALLERS, pause=0.05) as load:
            await load.until_answered(2 * CALLERS)
            descriptors, children = hall.server.fds, len(hall.server.children)
            first, lost = UpstreamCaller(hall), UpstreamCaller(hall)
            for number in range(1, KILLS + 1):
                running = asyncio.create_task(lost.write(upstream, name := nonce(), pause=TIMEOUT / 2))
                assert await until(partial(has_run, upstream, name))
                upstream.kill()
                if transport == "http":
                    upstream.start()
                assert await until(partial(has_started, upstream, number))
                await hall.until_ready(upstream)
                assert LOST in (await running).answer.text
                assert (await first.write(upstream)).ok
                await load.until_answered(CALLERS)
            await first.close()
            await lost.close()
            spare = CALLERS if transport == "http" else 0  # connections that are kept for the next calls
            assert await until(lambda: hall.server.fds <= descriptors + spare)
            assert len(hall.server.children) == children
    assert_ran_once(upstream, load.answers)
    assert max(each.seconds for each in load.answers) < TIMEOUT + SOON
    failed = {each.answer.text for each in load.answers if not each.ok}
    assert all(LOST in text or UNREACHABLE in text for text in failed), failed


@pytest.mark.parametrize(
    ("transport", "modern"),
    [("stdio", False), ("http", True), *([("stdio", True), ("http", False)] if runs_everything() else [])],
)
async def test_suspended_upstream_is_waited_for_until_the_deadline(
    tmp_path: Path, transport: Transport, modern: bool
) -> None:
    upstream = FaultyUpstream(tmp_path, "Suspended", transport, modern=modern, timeout=TIMEOUT)
    beside = FaultyUpstream(tmp_path, "Beside", "stdio")
    with upstream_hall(tmp_path, upstream, beside) as hall:
        await hall.until_ready(upstream, beside)
        callers = [UpstreamCaller(hall) for _ in range(CALLERS)]
        try:
            async with harms_nobody_else(hall, beside):
                upstream.kill(signal.SIGSTOP)
                late = await asyncio.gather(*(each.write(upstream, fill=LARGE) for each in callers))
                assert {LATE in each.answer.text for each in late} == {True}, late[0].answer.text
                assert max(each.seconds for each in late) < TIMEOUT + SOON
                waiting = [asyncio.create_task(each.write(upstream)) for each in callers]
                await asyncio.sleep(TIMEOUT / 4)
                upstream.kill(signal.SIGCONT)
                answered = await asyncio.gather(*waiting)
            assert all(each.ok for each in answered), [each.answer.text for each in answered if not each.ok]
            assert_ran_once(upstream, [*late, *answered])
        finally:
            for each in callers:
                await each.close()


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_half_open_connection_ends_calls_at_their_deadline(tmp_path: Path, *, modern: bool) -> None:
    upstream = FaultyUpstream(tmp_path, "Behind", "http", modern=modern, timeout=TIMEOUT)
    beside = FaultyUpstream(tmp_path, "Beside", "stdio")
    with ExitStack() as stack:
        stack.callback(upstream.stop)
        upstream.start()
        async with FlakyProxy(upstream.port) as proxy:
            upstream.reached_at = proxy.port
            hall = stack.enter_context(upstream_hall(tmp_path, upstream, beside))
            await hall.until_ready(upstream, beside)
            callers = [UpstreamCaller(hall) for _ in range(4)]
            async with harms_nobody_else(hall, beside):
                proxy.stall()
                late = await asyncio.gather(*(each.write(upstream) for each in callers))
                assert {LATE in each.answer.text for each in late} == {True}, late[0].answer.text
                proxy.heal()
                healed = await asyncio.gather(*(each.write(upstream) for each in callers))
                assert all(each.ok for each in healed), [each.answer.text for each in healed]
                for harm in (proxy.cut, proxy.half_close):
                    harm()
                    proxy.heal()
                    assert (await callers[0].write(upstream)).ok
            for each in callers:
                await each.close()
            assert_ran_once(upstream, [*late, *healed])


@pytest.mark.parametrize("how", ["forgets", "restarts"])
async def test_upstream_that_forgets_its_sessions_gets_one_handshake_for_each_caller(tmp_path: Path, how: str) -> None:
    upstream = FaultyUpstream(tmp_path, "Sessions", "http", share="caller")
    with upstream_hall(tmp_path, upstream) as hall:
        await hall.until_ready(upstream)
        callers = [UpstreamCaller(hall, hall.admit(f"caller{number}")) for number in range(8)]
        for _ in range(2):
            assert {(await each.call("Sessions_count")).text for each in callers} in ({"1"}, {"2"})
        handshakes = len(upstream.lines("handshakes"))
        assert handshakes == len(callers) + 1  # and the hall's own
        if how == "forgets":
            upstream.kill(signal.SIGUSR1)
        else:
            upstream.start()
        both = await asyncio.gather(*(each.call("Sessions_count") for each in callers))
        assert {each.text for each in both} == {"1"}
        assert {(await each.call("Sessions_count")).text for each in callers} == {"2"}
        made = len(upstream.lines("handshakes")) - handshakes
        assert len(callers) <= made <= len(callers) + 1
        for each in callers:
            await each.close()
