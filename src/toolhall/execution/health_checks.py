"""`HealthChecks`: runs the `health_check` of toolkits, each with a timeout, one at a time and cached for a second."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from toolhall.authoring.definition import Definition
from toolhall.execution.thread_pool import ThreadPool

HEALTHY, DEGRADED, UNHEALTHY = STATES = ("healthy", "degraded", "unhealthy")
CHECK_SECONDS = 1.5  # whoever asks how a server is waits 2 seconds for the whole answer
_CACHE_SECONDS = 1.0  # anybody may ask how a server is; the tools are not asked more often than this
_log = logging.getLogger("toolhall.health")


def worst_state(states: Iterable[str]) -> str:
    """The state of a whole that is made of these."""
    return max(states, key=STATES.index, default=HEALTHY)


class HealthChecks:
    """One that fails, hangs or says nothing of sense is not healthy; one that still hangs is not asked again."""

    def __init__(self, threads: ThreadPool, seconds: float = CHECK_SECONDS) -> None:
        self._threads = threads
        self._seconds = seconds
        self._checks: dict[Callable[[], Any], _CheckState] = {}

    async def states(self, definitions: Iterable[Definition]) -> dict[str, str]:
        """By toolkit; what has no check of its own is healthy."""
        found: dict[str, dict[Callable[[], Any], str]] = {}
        for definition in definitions:
            checks = found.setdefault(definition.tool.id.toolkit, {})
            if definition.health_check is not None:
                checks[definition.health_check] = definition.tool.id.toolkit
        each = {check: name for checks in found.values() for check, name in checks.items()}
        states = dict(zip(each, await asyncio.gather(*map(self._current_state, each, each.values())), strict=True))
        return {toolkit: worst_state(states[check] for check in checks) for toolkit, checks in found.items()}

    async def close(self) -> None:
        """End the checks that hang."""
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
        """A check that is no coroutine may take as long as it likes, so it runs in a thread."""
        asked: Awaitable[object]
        if inspect.iscoroutinefunction(health):
            asked = health()
        else:
            asked = self._threads.run(f"the health_check of {name}", health, lambda: 0.0)
        said = await asked
        return await said if inspect.isawaitable(said) else said


class _CheckState:
    """What was last heard, and until when that is good."""

    __slots__ = ("fresh_until", "name", "running", "state")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = HEALTHY
        self.fresh_until = 0.0
        self.running: asyncio.Task[None] | None = None


def _parse_status(result: object) -> str:
    """Its word for itself; one that nobody knows is no reason to keep calls away."""
    state = result.get("status") if isinstance(result, dict) else result
    return state if isinstance(state, str) and state in STATES else DEGRADED
