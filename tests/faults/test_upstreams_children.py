"""However a hall or an upstream ends, and however often: no process and no descriptor is left."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.faults.upstream_hall import (
    FaultyUpstream,
    UpstreamCaller,
    UpstreamHall,
    assert_ran_once,
    living,
    until,
    upstream_hall,
)
from tests.harness.seeds import count
from tests.harness.server_process import toolhall

ENDS = count(100, 1_000)
AT_ONCE = 4
LOST = "whether it had an effect is not known"
TOOLS = "from toolhall import tool\n\n\n@tool\ndef hello() -> str:\n    return 'hello'\n"


def write_client_file(folder: Path, *upstreams: FaultyUpstream) -> Path:
    """A file as clients have it, with these servers."""
    file = folder / "mcp.json"
    kept = ("command", "args", "cwd")
    servers = {each.name: {key: each.settings[key] for key in kept} for each in upstreams}
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def serve_command(folder: Path, *upstreams: FaultyUpstream, reload: bool = False) -> list[str]:
    (folder / "tools.py").write_text(TOOLS)
    file = write_client_file(folder, *upstreams)
    options = ("--reload",) if reload else ()
    return toolhall("serve", str(file), str(folder / "tools.py"), "--port", "0", "--json", *options)


async def families(hall: UpstreamHall, *upstreams: FaultyUpstream) -> list[int]:
    """Let each upstream start a process of its own; all processes of all upstreams."""
    await hall.until_ready(*upstreams)
    caller = UpstreamCaller(hall)
    for each in upstreams:
        assert int((await caller.call(f"{each.name}_family")).text) in each.pids
    await caller.close()
    pids = [pid for each in upstreams for pid in each.pids]
    assert len(living(pids)) >= 2 * len(upstreams)
    return pids


@pytest.mark.parametrize(
    ("how", "reload"),
    [(signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGTERM, False), (signal.SIGINT, False)],
)
async def test_hall_that_ends_by_a_signal_leaves_no_child(tmp_path: Path, how: signal.Signals, reload: bool) -> None:
    upstreams = [FaultyUpstream(tmp_path, "First", "stdio"), FaultyUpstream(tmp_path, "Second", "stdio", modern=True)]
    with upstream_hall(tmp_path, command=serve_command(tmp_path, *upstreams, reload=reload)) as hall:
        pids = await families(hall, *upstreams) + hall.server.children
        hall.server.stop(how)
        assert await until(lambda: not living(pids))


async def test_hall_that_is_reloaded_leaves_no_child_of_before(tmp_path: Path) -> None:
    upstream = FaultyUpstream(tmp_path, "First", "stdio")
    with upstream_hall(tmp_path, command=serve_command(tmp_path, upstream, reload=True)) as hall:
        before = await families(hall, upstream)
        (tmp_path / "tools.py").write_text(TOOLS.replace("hello", "goodbye"))
        assert await until(lambda: not living(before))
        assert await until(lambda: len(upstream.pids) > len(before))
        after = await families(hall, upstream)
        hall.server.stop()
        assert await until(lambda: not living(after))


async def test_upstream_that_is_taken_out_of_its_file_leaves_no_child(tmp_path: Path) -> None:
    stays, goes = FaultyUpstream(tmp_path, "Stays", "stdio"), FaultyUpstream(tmp_path, "Goes", "stdio")
    with upstream_hall(tmp_path, command=serve_command(tmp_path, stays, goes)) as hall:
        await families(hall, stays, goes)
        write_client_file(tmp_path, stays)
        assert await until(lambda: not living(goes.pids))
        assert len(living(stays.pids)) == len(stays.pids), "what is as it was is not touched"
        for off in (True, False, True):
            action = "off" if off else "on"
            assert hall.web.ask("POST", f"/api/upstreams/Stays/{action}").status == 200
            if off:
                assert await until(lambda: not living(stays.pids))
            else:
                await families(hall, stays)


@pytest.mark.timeout(900)
async def test_many_ends_of_children_leave_no_process_and_no_descriptor(tmp_path: Path) -> None:
    upstreams = [FaultyUpstream(tmp_path, f"Upstream{number}", "stdio") for number in range(AT_ONCE)]
    with upstream_hall(tmp_path, *upstreams) as hall:
        await hall.until_ready(*upstreams)
        callers = [UpstreamCaller(hall) for _ in upstreams]
        assert all([(await caller.write(each)).ok for caller, each in zip(callers, upstreams, strict=True)])
        descriptors = hall.server.fds

        async def end_often(caller: UpstreamCaller, upstream: FaultyUpstream) -> None:
            answers = []
            while len(upstream.pids) <= ENDS // AT_ONCE:
                upstream.kill()
                answers.append(await caller.write(upstream))
                while not answers[-1].ok:
                    assert LOST in answers[-1].answer.text or "cannot be reached" in answers[-1].answer.text
                    await asyncio.sleep(0.05)
                    answers.append(await caller.write(upstream))
            assert_ran_once(upstream, answers)

        await asyncio.gather(*map(end_often, callers, upstreams))
        alive = [each.pids[-1] for each in upstreams]
        assert await until(lambda: living(pid for each in upstreams for pid in each.pids) == alive)
        assert await until(lambda: len(hall.server.children) == 2 * AT_ONCE)  # each with its supervisor
        assert await until(lambda: hall.server.fds <= descriptors)
        for caller in callers:
            await caller.close()
