"""`HealthChecks`: runs the `health_check` of toolkits, with a timeout, and caches each result for a second.

At most one run of each check is in progress: a check that hangs is not started again, and its toolkit is unhealthy.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from toolhall.authoring.definition import Definition
from toolhall.execution.thread_pool import ThreadPool

HEALTHY, DEGRADED, UNHEALTHY = STATES = ("healthy", "degraded", "unhealthy")
CHECK_SECONDS = 1.5  # a hall waits 2 seconds for the whole health response (PROBE_TIMEOUT_SECONDS)
_CACHE_SECONDS = 1.0  # the health endpoint needs no credential; checks run no more often than this
_log = logging.getLogger("toolhall.health")


def worst_state(states: Iterable[str]) -> str:
    """The worst of these states; healthy if there are none."""
    return max(states, key=STATES.index, default=HEALTHY)


class HealthChecks:
    """Runs health checks; one that raises or hangs is unhealthy, one with an unknown result degraded."""

    def __init__(self, threads: ThreadPool, seconds: float = CHECK_SECONDS) -> None:
        self._threads = threads
        self._seconds = seconds
        self._checks: dict[Callable[[], Any], _CheckState] = {}

    async def states(self, definitions: Iterable[Definition]) -> dict[str, str]:
        """The state of each toolkit; one without a check is healthy."""
        by_toolkit: dict[str, dict[Callable[[], Any], str]] = {}
        for definition in definitions:
            checks = by_toolkit.setdefault(definition.tool.id.toolkit, {})
            if definition.health_check is not None:
                checks[definition.health_check] = definition.tool.id.toolkit
        names = {check: name for checks in by_toolkit.values() for check, name in checks.items()}
        states = dict(zip(names, await asyncio.gather(*map(self._current_state, names, names.values())), strict=True))
        return {toolkit: worst_state(states[check] for check in checks) for toolkit, checks in by_toolkit.items()}

    async def close(self) -> None:
        """Cancel the checks that still run."""
        hanging = [check.running for check in self._checks.values() if check.running is not None]
        for task in hanging:
            task.cancel()
        if hanging:
            await asyncio.wait(hanging, timeout=self._seconds)

    async def _current_state(self, health: Callable[[], Any], name: str) -> str:
        check = self._checks.get(health)
        if check is None:
            check = self._checks[health] = _CheckState(name)
        now = asyncio.get_running_loop().time()
        if check.fresh_until <= now and check.running is None:
            check.running = asyncio.create_task(self._run_check(health, check))
        if check.running is not None:
            await asyncio.wait({check.running}, timeout=self._seconds)
        if check.running is not None:
            check.running.cancel()
            if check.state != UNHEALTHY:
                _log.warning("the health_check of %s takes more than %g seconds", name, self._seconds)
            check.state = UNHEALTHY
        return check.state

    async def _run_check(self, health: Callable[[], Any], check: "_CheckState") -> None:
        state = UNHEALTHY
        try:
            state = _parse_status(await self._call_check(health, check.name))
        except Exception:  # noqa: BLE001 - the author's own code may raise anything
            if check.state != UNHEALTHY:
                _log.exception("the health_check of %s failed", check.name)
        finally:
            check.state, check.running = state, None
            check.fresh_until = asyncio.get_running_loop().time() + _CACHE_SECONDS

    async def _call_check(self, health: Callable[[], Any], name: str) -> object:
        """Call the check; one that is no coroutine function may block, so it runs in a thread."""
        running: Awaitable[object]
        if inspect.iscoroutinefunction(health):
            running = health()
        else:
            running = self._threads.run(f"the health_check of {name}", health, lambda: 0.0)
        result = await running
        return await result if inspect.isawaitable(result) else result


class _CheckState:
    """The last result of one check, until when it is fresh, and the run in progress."""

    __slots__ = ("fresh_until", "name", "running", "state")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = HEALTHY
        self.fresh_until = 0.0
        self.running: asyncio.Task[None] | None = None


def _parse_status(result: object) -> str:
    """The state that a check returned; degraded for an unknown one, which is no reason to keep calls away."""
    state = result.get("status") if isinstance(result, dict) else result
    return state if isinstance(state, str) and state in STATES else DEGRADED
