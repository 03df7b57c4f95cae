"""`WorkerPool`: keeps worker processes warm per module, and replaces those whose call ended badly.

Theory of operation
-------------------
One call runs in one worker at a time. A worker imports one module and is reused for the tools of that module only, so
that nothing which one module leaves behind in the process can reach another. `FairScheduler` limits how many run at
once: `size` shared ones, at most half of them for one tool, and a reserve (`_RESERVE_FACTOR`), so that every tool can
have its first worker.

A call that ended badly (killed, crashed, timed out, out of memory) costs its worker: `release(healthy=False)` kills the
worker and everything it started. From then on that tool has workers of its own (`_affinity_key`), so that it cannot
take down the calls of its module's other tools, and after three recent deaths new workers are started with an
exponential delay (`RestartBackoff`).

Ending: an idle worker that is no longer needed is disconnected, and has LEAVE_SECONDS to leave its toolkits before it
is killed (`_retire`). A killed process is polled until it can be reaped (`_reap`), because nothing waits for it.
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
from toolhall.execution.sandbox import is_hidden
from toolhall.execution.thread_pool import FairScheduler, SchedulerLimits
from toolhall.execution.worker_process import OutputReader, WorkerExited, WorkerHandle
from toolhall.execution.worker_protocol import ImportFailure, WorkerLimits, WorkerReady
from toolhall.model.errors import Unavailable
from toolhall.process_supervisor import inherited_environment

DEFAULT_POOL_SIZE = 8
_RESERVE_FACTOR = 4  # times the size, so that every tool can have its first worker
_START_SECONDS = 30.0
_REAP_SECONDS = 0.02
_HALF_LIFE_SECONDS = 10.0  # after which an exit counts half
_FREE_RESTARTS = 3.0
_MIN_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.05, 5.0
_log = logging.getLogger("toolhall.run")


class WorkerPool:
    """Hands out workers and takes them back; keeps at most `size` of them, busy and idle ones together, warm."""

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
        self._idle: list[tuple[str, WorkerHandle]] = []  # by affinity key; the one used last comes last
        self._busy: set[WorkerHandle] = set()
        self._exiting: set[WorkerHandle] = set()
        self._backoff = RestartBackoff(time.monotonic)
        self._closed = False

    @property
    def running(self) -> int:
        """How many workers run a call now."""
        return len(self._busy)

    async def acquire(self, ref: FunctionRef, tool: str, deadline: PausableDeadline) -> WorkerHandle:
        """A worker that has imported the module; the deadline is on hold while a new one starts."""
        await self._scheduler.acquire(tool)
        try:
            worker = self._pop_idle(self._affinity_key(ref, tool))
            if worker is None:
                with deadline.hold():
                    worker = await self._start_worker(ref, tool)
        except BaseException:
            self._scheduler.release(tool)
            raise
        return worker

    def release(self, worker: WorkerHandle, ref: FunctionRef, tool: str, *, healthy: bool) -> None:
        """Take a worker back; an unhealthy one is killed, with everything it started."""
        self._busy.discard(worker)
        key = self._affinity_key(ref, tool)  # before the exit is recorded: it says which workers the tool shares
        if not healthy:
            self.lost += 1
            self._backoff.record_exit(tool)
        if healthy and not self._closed:
            self._idle.append((key, worker))
        else:
            self._kill(worker)
        self._trim()
        self._scheduler.release(tool)

    def close(self) -> None:
        """End every worker: busy ones are killed, idle ones may leave their toolkits first."""
        self._closed = True
        for worker in self._busy:
            worker.kill()
        idle = [worker for _, worker in self._idle]
        for worker in idle:
            worker.disconnect()
        for worker in idle:
            if not worker.reap(wait=True):
                worker.kill()
        self._exiting |= {*idle, *self._busy}
        self._idle.clear()
        for worker in self._exiting:
            worker.kill()
            worker.reap(wait=True)
        self._exiting.clear()
        self._output.close()
        if self._temp_dir is not None:
            self._temp_dir.cleanup()

    def _affinity_key(self, ref: FunctionRef, tool: str) -> str:
        return f"{ref.module}\n{ref.file}\n{tool if tool in self._backoff else ''}"

    def _pop_idle(self, key: str) -> WorkerHandle | None:
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index][0] == key:
                _, worker = self._idle.pop(index)
                if worker.is_alive():
                    self._busy.add(worker)
                    return worker
                self._kill(worker)
        return None

    async def _start_worker(self, ref: FunctionRef, tool: str) -> WorkerHandle:
        if self._closed:
            raise Unavailable("the hall is closing")
        await asyncio.sleep(self._backoff.delay(tool))
        worker = WorkerHandle(ref, self.limits, self._environment(), self._hidden_paths)
        self._output.follow(worker.output_fd, worker.output)
        self._busy.add(worker)
        self._trim()
        try:
            async with asyncio.timeout(_START_SECONDS):
                report = await worker.handshake()
        except (TimeoutError, WorkerExited):
            report = ImportFailure("it did not start")
        except BaseException:
            self._discard(worker)
            raise
        if isinstance(report, WorkerReady):
            self._warn_missing(report.missing)
            return worker
        self._discard(worker)
        reason = getattr(report, "trace", report)
        if is_hidden(self._hidden_paths, ref.file):
            reason = f"{ref.file} is in the hall's data folder, which such tools cannot read; move it elsewhere"
        _log.error("tool %s cannot be run in a process of its own: %s", tool, reason)
        raise Unavailable("the tool's module cannot be imported in a process of its own; the server's log says why")

    def _environment(self) -> dict[str, str]:
        """The environment of a worker; TMPDIR is a folder of its own if a hidden path is below the usual one."""
        environment = inherited_environment(os.environ, self._environment_variables)
        default = tempfile.gettempdir()
        if self._temp_dir is None and any(is_hidden((default,), each) for each in self._hidden_paths):
            self._temp_dir = tempfile.TemporaryDirectory(prefix="toolhall-", ignore_cleanup_errors=True)
        return environment if self._temp_dir is None else environment | {"TMPDIR": self._temp_dir.name}

    def _warn_missing(self, missing: tuple[str, ...]) -> None:
        """Log each restriction that this kernel does not have, once."""
        for each in missing:
            if each not in self._warned:
                self._warned.add(each)
                _log.warning("an isolated tool is confined less than it could be: %s", each)

    def _trim(self) -> None:
        while self._idle and len(self._idle) + len(self._busy) > self._size:
            self._retire(self._idle.pop(0)[1])

    def _retire(self, worker: WorkerHandle) -> None:
        """End an idle worker, with time to leave its toolkits."""
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
        """Reap the processes that have ended; comes again while some have not."""
        self._exiting = {worker for worker in self._exiting if not worker.reap()}
        if self._exiting:
            with contextlib.suppress(RuntimeError):  # no loop: close() does it
                asyncio.get_running_loop().call_later(_REAP_SECONDS, self._reap)


class RestartBackoff:
    """Counts the bad ends of each tool's workers, with a half-life, and delays new workers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._exits: dict[str, tuple[float, float]] = {}  # by tool: the decayed count, and when it was computed

    def __contains__(self, tool: str) -> bool:
        """Whether this tool ever lost a worker."""
        return tool in self._exits

    def record_exit(self, tool: str) -> None:
        """Count one more bad end of this tool's workers."""
        self._exits[tool] = self._recent_exits(tool) + 1, self._clock()

    def delay(self, tool: str) -> float:
        """Seconds until the next worker may start: none for the first three exits, then doubling with each."""
        excess = self._recent_exits(tool) - _FREE_RESTARTS
        return min(_MIN_DELAY_SECONDS * 2 ** min(excess, 10), _MAX_DELAY_SECONDS) if excess > 0 else 0.0

    def _recent_exits(self, tool: str) -> float:
        count, at = self._exits.get(tool, (0.0, 0.0))
        return count * 0.5 ** ((self._clock() - at) / _HALF_LIFE_SECONDS) if count else 0.0
