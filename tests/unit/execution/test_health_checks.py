"""How tools are: asked in bounded time, one at a time, whatever their own code does."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.patience import patience
from tests.unit.toolserver.tools import ExampleTool, Kit
from toolhall import BaseTool
from toolhall.authoring.definition import definitions_of
from toolhall.execution.health_checks import HealthChecks
from toolhall.execution.thread_pool import ThreadPool


@asynccontextmanager
async def checkup(seconds: float = 30.0) -> AsyncGenerator[Callable[..., Any]]:
    threads = ThreadPool(2)
    made = HealthChecks(threads, seconds)

    async def states(*targets: object) -> dict[str, str]:
        return await made.states([each for target in targets for each in definitions_of(target)])

    try:
        yield states
    finally:
        await made.close()
        threads.close()


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"status": "healthy"}, "healthy"),
        ({"status": "degraded", "why": "slow"}, "degraded"),
        ({"status": "unhealthy"}, "unhealthy"),
        ("unhealthy", "unhealthy"),
        ({"status": "so so"}, "degraded"),
        ({"status": ["healthy"]}, "degraded"),
        (None, "degraded"),
        (RuntimeError("down"), "unhealthy"),
    ],
)
async def test_health_checks_report_toolkit_status(said: Any, state: str) -> None:
    example = ExampleTool()
    example.health = said
    async with checkup() as states:
        assert await states(example, Kit) == {"example-tool": state, "Kit": "healthy"}


async def test_health_checks_hanging_check_is_unhealthy_and_not_repeated() -> None:
    example, asked = ExampleTool(), 0
    gate = asyncio.Event()

    async def health_check() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:  # as careless authors do
                continue
        return {"status": "healthy"}

    example.health_check = health_check  # type: ignore[method-assign]
    async with checkup(0.02) as states:
        assert await states(example) == {"example-tool": "unhealthy"}
        assert await states(example) == {"example-tool": "unhealthy"}
        assert asked == 1
        gate.set()
        assert await states(example) == {"example-tool": "healthy"}


async def test_health_checks_sync_check_runs_in_thread() -> None:
    example, gate = ExampleTool(), threading.Event()
    vars(example)["health_check"] = lambda: gate.wait(patience()) and {"status": "degraded"}
    async with checkup(0.02) as states:
        assert await states(example) == {"example-tool": "unhealthy"}
        gate.set()


async def test_health_checks_concurrent_requests_share_one_check() -> None:
    example, asked = ExampleTool(), 0

    async def health_check() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return {"status": "healthy"}

    example.health_check = health_check  # type: ignore[method-assign]
    async with checkup() as states:
        found = await asyncio.gather(*(states(example) for _ in range(20)))
        assert {each["example-tool"] for each in found} == {"healthy"}
        await states(example)
    assert asked == 1


async def test_health_checks_toolkit_without_check_is_healthy() -> None:
    class Mute(BaseTool):
        async def handle_request(self, request: Any) -> Any: ...

        async def _handle_a(self, params: Any) -> None: ...

    async with checkup() as states:
        assert await states(Mute("mute", "1.0.0")) == {"mute": "healthy"}
