"""The isolated tools of the how-to run, and both how-tos tell the truth about limits and figures."""

import re
from pathlib import Path

import pytest

from docs_src import isolating
from toolhall import Toolhall
from toolhall.config import Config
from toolhall.execution.worker_pool import DEFAULT_POOL_SIZE
from toolhall.execution.worker_protocol import WorkerLimits
from toolhall.model.errors import Crashed
from toolhall.model.messages import ProgressEvent
from toolhall.model.upstream import UpstreamSettings
from toolhall.telemetry import render
from toolhall.testing import Client

HOW_TO = Path(__file__).parents[2] / "docs/how-to"


async def test_isolating_example_runs_tools_in_processes_with_limits() -> None:
    async with Client(isolating) as client:
        assert await client.call(isolating.unpack, data="789c030000000001") == 0
        assert client.events == [ProgressEvent(0, 1, "unpacking")]
        assert (await client.call_named("Pictures_size", {"width": 10, "height": 10})).encoded == b"400"
        assert (await client.call_named("Pictures_formats", {})).encoded == b'["png","webp"]'
        with pytest.raises(Crashed) as caught:
            await client.call_named("Pictures_size", {"width": 100_000, "height": 100_000})
    assert caught.value.message in (HOW_TO / "isolate-tools.md").read_text()


def test_isolating_page_states_the_default_limits() -> None:
    page, limits = (HOW_TO / "isolate-tools.md").read_text(), WorkerLimits()
    assert (limits.memory >> 30, DEFAULT_POOL_SIZE) == (1, 8)
    assert f"| open files | {limits.files} |" in page
    assert f"| the largest file it may write | {limits.file_bytes >> 20} MiB |" in page
    assert f"| processes | {limits.processes} more" in page


def test_observing_page_lists_every_metric() -> None:
    config = Config(upstreams={"Docs": UpstreamSettings(url="https://docs.example/mcp")})
    with Toolhall(config=config) as hall:
        assert callable(hall.http)  # the routes are built on first use, and metrics with them
        assert hall.upstreams.listed()  # and so are the upstreams
        figures = set(re.findall(r"# TYPE (\w+)", render(hall.telemetry).decode()))
    page = (HOW_TO / "observe.md").read_text()
    assert set(re.findall(r"^\| `(toolhall_\w+)`", page, re.MULTILINE)) == figures
