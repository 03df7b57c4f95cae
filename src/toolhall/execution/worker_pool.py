"""`WorkerPool`: keeps worker processes warm per module, and replaces those whose call ended badly.

A worker is never shared by two modules. A tool that lost a worker gets workers of its own from then on, and new ones
are started with an exponential delay (`RestartBackoff`).
"""

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable

from toolhall.authoring.context import PausableDeadline
from toolhall.execution.function_ref import FunctionRef
from toolhall.execution.lifespan import LEAVE_SECONDS
from toolhall.execution.sandbox import is_hidden, worker_environment
from toolhall.execution.thread_pool import FairScheduler, SchedulerLimits
from toolhall.execution.worker_process import OutputReader, WorkerExited, WorkerHandle
from toolhall.execution.worker_protocol import ImportFailure, WorkerLimits, WorkerReady
from toolhall.model.errors import Unavailable

_HALF_LIFE_SECONDS = 10.0  # after so long, a death counts half
_FREE_RESTARTS = 3.0
_MIN_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.05, 5.0


class RestartBackoff:
    """Counts the deaths of each tool's workers, and forgets them slowly."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._exits: dict[str, tuple[float, float]] = {}  # how many, and when that was

    def __contains__(self, tool: str) -> bool:
        """Whether this tool ever lost a worker."""
        return tool in self._exits

    def record_exit(self, tool: str) -> None:
        """One more."""
        self._exits[tool] = self._recent_exits(tool) + 1, self._clock()

    def delay(self, tool: str) -> float:
        """How many seconds the next worker has to wait: none at first, then twice as long with each death."""
        over = self._recent_exits(tool) - _FREE_RESTARTS
        return min(_MIN_DELAY_SECONDS * 2 ** min(over, 10), _MAX_DELAY_SECONDS) if over > 0 else 0.0

    def _recent_exits(self, tool: str) -> float:
        count, at = self._exits.get(tool, (0.0, 0.0))
        return count * 0.5 ** ((self._clock() - at) / _HALF_LIFE_SECONDS) if count else 0.0


DEFAULT_POOL_SIZE = 8
_RESERVE_FACTOR = 4  # times as many, so that every tool can have its first one
_START_SECONDS = 30.0
_REAP_SECONDS = 0.02
_log = logging.getLogger("toolhall.run")


class WorkerPool:
    """At most so many warm ones; a tool that lost one gets workers of its own from then on.

    A worker is never shared by two modules, so what one leaves behind in it cannot reach the other.
    """

    def __init__(
        self,
        limits: WorkerLimits,
        *,
        size: int = DEFAULT_POOL_SIZE,
        environment_variables: tuple[str, ...] = (),
        hidden_paths: tuple[str, ...] = (),
    ) -> None:
        self.limits = limits
        self.lost = 0
        self._size = size
        self._environment_variables = environment_variables
        self._hidden_paths = hidden_paths
        self._temp_dir: tempfile.TemporaryDirectory[str] | None = None
        self._output = OutputReader()
        self._warned: set[str] = set()
        self._scheduler = FairScheduler(
            SchedulerLimits(shared=size, per_tool=max(1, size // 2), total=size * _RESERVE_FACTOR)
        )
        self._idle: list[tuple[str, WorkerHandle]] = []  # the one used last comes last
        self._busy: set[WorkerHandle] = set()
        self._exiting: set[WorkerHandle] = set()
        self._backoff = RestartBackoff(time.monotonic)
        self._closed = False

    @property
    def running(self) -> int:
        """How many work now."""
        return len(self._busy)

    async def acquire(self, ref: FunctionRef, tool: str, deadline: PausableDeadline) -> WorkerHandle:
        """A worker that has imported the module; the tool's time stands still while one is started."""
        await self._scheduler.acquire(tool)
        try:
            child = self._pop_idle(self._affinity_key(ref, tool))
            if child is None:
                with deadline.hold():
                    child = await self._start_worker(ref, tool)
        except BaseException:
            self._scheduler.release(tool)
            raise
        return child

    def release(self, worker: WorkerHandle, ref: FunctionRef, tool: str, *, healthy: bool) -> None:
        """Take a worker back; one whose call was cut short is ended, with everything it started."""
        self._busy.discard(worker)
        home = self._affinity_key(ref, tool)
        if not healthy:
            self.lost += 1
            self._backoff.record_exit(tool)
        if healthy and not self._closed:
            self._idle.append((home, worker))
        else:
            self._kill(worker)
        self._trim()
        self._scheduler.release(tool)

    def close(self) -> None:
        """End every worker, also in the middle of its work; an idle one leaves its toolkits first."""
        self._closed = True
        for child in self._busy:
            child.kill()
        idle = [child for _, child in self._idle]
        for child in idle:
            child.disconnect()
        for child in idle:
            if not child.reap(wait=True):
                child.kill()
        self._exiting |= {*idle, *self._busy}
        self._idle.clear()
        for child in self._exiting:
            child.kill()
            child.reap(wait=True)
        self._exiting.clear()
        self._output.close()
        if self._temp_dir is not None:
            self._temp_dir.cleanup()

    def _affinity_key(self, ref: FunctionRef, tool: str) -> str:
        return f"{ref.module}\n{ref.file}\n{tool if tool in self._backoff else ''}"

    def _pop_idle(self, key: str) -> WorkerHandle | None:
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place][0] == key:
                _, child = self._idle.pop(place)
                if child.is_alive():
                    self._busy.add(child)
                    return child
                self._kill(child)
        return None

    async def _start_worker(self, ref: FunctionRef, tool: str) -> WorkerHandle:
        if self._closed:
            raise Unavailable("the hall is closing")
        await asyncio.sleep(self._backoff.delay(tool))
        child = WorkerHandle(ref, self.limits, self._environment(), self._hidden_paths)
        self._output.follow(child.output_fd, child.output)
        self._busy.add(child)
        self._trim()
        try:
            async with asyncio.timeout(_START_SECONDS):
                report = await child.handshake()
        except (TimeoutError, WorkerExited):
            report = ImportFailure("it did not start")
        except BaseException:
            self._discard(child)
            raise
        if isinstance(report, WorkerReady):
            self._warn_missing(report.missing)
            return child
        self._discard(child)
        reason = getattr(report, "trace", report)
        if is_hidden(self._hidden_paths, ref.file):
            reason = f"{ref.file} is in the hall's data folder, which such tools cannot read; move it elsewhere"
        _log.error("tool %s cannot be run in a process of its own: %s", tool, reason)
        raise Unavailable("the tool's module cannot be imported in a process of its own; the server's log says why")

    def _environment(self) -> dict[str, str]:
        """What it sees; with files for a while elsewhere, where the usual place leads to what is hidden."""
        environment = worker_environment(os.environ, self._environment_variables)
        usual = tempfile.gettempdir()
        if self._temp_dir is None and any(is_hidden((usual,), each) for each in self._hidden_paths):
            self._temp_dir = tempfile.TemporaryDirectory(prefix="toolhall-", ignore_cleanup_errors=True)
        return environment if self._temp_dir is None else environment | {"TMPDIR": self._temp_dir.name}

    def _warn_missing(self, missing: tuple[str, ...]) -> None:
        """Once for each restriction that this kernel does not have."""
        for each in missing:
            if each not in self._warned:
                self._warned.add(each)
                _log.warning("an isolated tool is confined less than it could be: %s", each)

    def _trim(self) -> None:
        while self._idle and len(self._idle) + len(self._busy) > self._size:
            self._retire(self._idle.pop(0)[1])

    def _retire(self, worker: WorkerHandle) -> None:
        """End a worker that is idle: it has time to leave its toolkits."""
        worker.disconnect()
        self._exiting.add(worker)
        with contextlib.suppress(RuntimeError):  # no loop: close() does it
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, worker.kill)
        self._reap()

    def _discard(self, worker: WorkerHandle) -> None:
        self._busy.discard(worker)
        self._kill(worker)

    def _kill(self, worker: WorkerHandle) -> None:
        worker.kill()
        self._exiting.add(worker)
        self._reap()

    def _reap(self) -> None:
        """Nobody waits for a killed process; it is looked after until it is gone."""
        self._exiting = {child for child in self._exiting if not child.reap()}
        if self._exiting:
            with contextlib.suppress(RuntimeError):  # no loop: close() does it
                asyncio.get_running_loop().call_later(_REAP_SECONDS, self._reap)
