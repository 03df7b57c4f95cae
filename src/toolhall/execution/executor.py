"""`FunctionExecutor`: owns the thread pool, the worker pool and the watchdog, and makes a runner for each tool.

Async functions run in the event loop, sync ones in the thread pool, isolated ones in worker processes. A function that
is found to block the loop or to hang in threads continues in a worker process, if it keeps no state in memory.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import msgspec

from toolhall.authoring.definition import Definition
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.function_ref import FunctionRef, function_ref_for, stateless_function_ref_for
from toolhall.execution.function_runner import FunctionRunner
from toolhall.execution.lifespan import Lifespans
from toolhall.execution.loop_watchdog import CallActivity, Watchdog
from toolhall.execution.thread_pool import ThreadPool
from toolhall.execution.worker_protocol import WorkerLimits
from toolhall.registry.snapshot import Runner
from toolhall.telemetry import Metric

if TYPE_CHECKING:
    from toolhall.execution.process_runner import ProcessRunner
    from toolhall.execution.worker_pool import WorkerPool

_SECRET_FILE = re.compile(r"TOOLHALL_[A-Z_]+_FILE")


class ExecutorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of everything that runs functions."""

    threads: int
    default_timeout: float  # for a tool that states no timeout
    worker_limits: WorkerLimits = WorkerLimits()
    egress_allow: tuple[str, ...] = ()  # private hosts that tools may reach through the egress client
    environment_variables: tuple[str, ...] = ()  # names that worker processes inherit besides the usual ones
    hidden_paths: tuple[str, ...] = ()  # paths that worker processes cannot open


class FunctionExecutor:
    """Makes the runner of every definition, and owns what the runners share."""

    def __init__(self, limits: ExecutorLimits, tool_of_frame: Callable[[FrameType], str | None]) -> None:
        self.thread_pool = ThreadPool(limits.threads)
        self._limits = limits
        self.activity = CallActivity()
        self.watchdog = Watchdog(self.activity, tool_of_frame, self._on_loop_blocked)
        self.egress = LazyEgressClient(limits.egress_allow)
        self._functions: dict[str, tuple[Definition, FunctionRunner]] = {}
        self.lifespans = Lifespans()
        self.allows_fallback = True  # a function that blocks the loop may continue in a worker process

    @cached_property
    def worker_pool(self) -> "WorkerPool":
        """The worker processes; built for the first tool that runs in one."""
        from toolhall.execution.worker_pool import WorkerPool  # lazy: the sandbox, for isolated tools only

        limits = self._limits
        return WorkerPool(
            limits.worker_limits, environment_variables=limits.environment_variables, hidden_paths=limits.hidden_paths
        )

    def runner_for(self, definition: Definition, code_sha256: str = "") -> Runner:
        """The runner of this definition; raises BadDeclaration for an isolated tool that a worker cannot import.

        If `code_sha256` is given, a worker process refuses to run code with another digest.
        """
        if definition.body.isolated:
            return self._process_runner(function_ref_for(definition.body), code_sha256)
        make_fallback = partial(self._fallback_runner, definition, code_sha256)
        runner = FunctionRunner(definition.body, self.thread_pool, make_fallback, self.egress)
        self._functions[str(definition.tool.id)] = definition, runner
        return runner

    def completion_runner(self, definition: Definition, argument: str) -> Runner:
        """The runner of the function that completes an argument, in a worker process if the definition runs in one."""
        if definition.body.isolated:
            return self._process_runner(function_ref_for(definition.body), "").completion_runner(argument)
        return FunctionRunner(definition.completions[argument], self.thread_pool, None, self.egress)

    def metrics(self) -> Iterator[Metric]:
        """The metrics of calls, threads and worker processes."""
        yield Metric("toolhall_calls_running", "gauge", "Tools that run now.", lambda: self.activity.running)
        yield Metric(
            "toolhall_loop_stalls_total", "counter", "Times the loop stood still.", lambda: self.watchdog.stalls
        )
        yield Metric(
            "toolhall_lost_threads", "gauge", "Threads that hang in a tool.", lambda: self.thread_pool.abandoned
        )
        yield Metric("toolhall_workers_running", "gauge", "Worker processes at work.", lambda: self.worker_pool.running)
        yield Metric("toolhall_workers_lost_total", "counter", "Worker processes ended.", lambda: self.worker_pool.lost)

    def close(self) -> None:
        """Stop the watchdog, kill the workers, and let idle threads end."""
        self.watchdog.close()
        if "worker_pool" in self.__dict__:  # it was built
            self.worker_pool.close()
        self.thread_pool.close()

    def _fallback_runner(self, definition: Definition, code_sha256: str) -> Runner | None:
        """A process runner for a tool without state in memory, which would be lost; None for any other."""
        ref = stateless_function_ref_for(definition.body) if self.allows_fallback else None
        return None if ref is None else self._process_runner(ref, code_sha256)

    def _process_runner(self, ref: FunctionRef, code_sha256: str) -> "ProcessRunner":
        from toolhall.execution.process_runner import ProcessRunner  # lazy: as in worker_pool

        return ProcessRunner(ref, self.worker_pool, self._limits.default_timeout, self.egress, code_sha256)

    def _on_loop_blocked(self, tool: str) -> None:
        if tool in self._functions:
            definition, runner = self._functions[tool]
            runner.record_loop_block(definition.tool)


class ExecutorSettings(Protocol):
    """The settings that `limits_from_config` reads from `Config`, which lies above this package."""

    @property
    def threads(self) -> int:
        """How many sync tools run at once."""
        ...

    @property
    def call_timeout(self) -> float:
        """Seconds for a tool that states no timeout."""
        ...

    @property
    def max_output_bytes(self) -> int:
        """The largest result of a tool."""
        ...

    @property
    def data(self) -> str | None:
        """The data folder of the hall."""
        ...

    @property
    def egress_allow(self) -> tuple[str, ...]:
        """Private hosts that tools may reach."""
        ...


def limits_from_config(settings: ExecutorSettings) -> ExecutorLimits:
    """The limits that follow from the configuration and the environment of this process."""
    return ExecutorLimits(
        threads=settings.threads,
        default_timeout=settings.call_timeout,
        # Twice the result, because bytes grow when they are written as text.
        worker_limits=WorkerLimits(result_bytes=2 * settings.max_output_bytes + 65_536),
        egress_allow=settings.egress_allow,
        hidden_paths=hidden_paths(settings.data, os.environ),
    )


def hidden_paths(data: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Real paths of the data folder, and of the files and credentials from which the hall reads its secrets."""
    named = [value for name, value in environment.items() if _SECRET_FILE.fullmatch(name)]
    paths = [data, environment.get("CREDENTIALS_DIRECTORY"), *named]
    return tuple(os.path.realpath(path) for path in paths if path)
