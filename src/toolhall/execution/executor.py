"""`FunctionExecutor`: owns the thread pool, the worker pool and the watchdog, and makes a runner for each tool."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType
from typing import Protocol

import msgspec

from toolhall.authoring.definition import Definition
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.function_ref import FunctionRef, function_ref_for, stateless_function_ref_for
from toolhall.execution.function_runner import FunctionRunner
from toolhall.execution.lifespan import Lifespans
from toolhall.execution.process_runner import ProcessRunner
from toolhall.execution.thread_pool import ThreadPool
from toolhall.execution.watchdog import CallActivity, Watchdog
from toolhall.execution.worker_pool import WorkerPool
from toolhall.execution.worker_protocol import WorkerLimits
from toolhall.registry.snapshot import Runner
from toolhall.telemetry.metrics import Metric

_SECRET_FILE = re.compile(r"TOOLHALL_[A-Z_]+_FILE")


class ExecutorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything there is."""

    threads: int
    default_timeout: float  # for a tool that states no timeout
    worker_limits: WorkerLimits = WorkerLimits()
    egress_allow: tuple[str, ...] = ()  # private hosts that tools may reach by the hall's own client
    environment_variables: tuple[str, ...] = ()  # of the environment, that worker processes see besides the usual ones
    hidden_paths: tuple[str, ...] = ()  # paths that worker processes cannot open


class ExecutorSettings(Protocol):
    """What the configuration says of it."""

    @property
    def threads(self) -> int:
        """How many sync tools run at once."""
        ...

    @property
    def call_timeout(self) -> float:
        """Seconds for a tool that states none."""
        ...

    @property
    def max_output_bytes(self) -> int:
        """The largest result that is passed on."""
        ...

    @property
    def data(self) -> str | None:
        """The folder that the hall keeps its own files in."""
        ...

    @property
    def egress_allow(self) -> tuple[str, ...]:
        """Private hosts that may be reached from here."""
        ...


def limits_from_config(settings: ExecutorSettings) -> ExecutorLimits:
    """As configured."""
    limits = WorkerLimits(
        result_bytes=2 * settings.max_output_bytes + 65_536
    )  # bytes grow when they are written as text
    allow = settings.egress_allow
    return ExecutorLimits(
        threads=settings.threads,
        default_timeout=settings.call_timeout,
        worker_limits=limits,
        egress_allow=allow,
        hidden_paths=hidden_paths(settings.data, os.environ),
    )


def hidden_paths(data: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The data folder, and the files and credentials that the hall is told its secrets by; all absolute."""
    named = [value for name, value in environment.items() if _SECRET_FILE.fullmatch(name)]
    paths = [data, environment.get("CREDENTIALS_DIRECTORY"), *named]
    return tuple(os.path.realpath(path) for path in paths if path)


class FunctionExecutor:
    """Finds for every definition who runs it."""

    def __init__(self, limits: ExecutorLimits, tool_of_frame: Callable[[FrameType], str | None]) -> None:
        self.thread_pool = ThreadPool(limits.threads)
        self.worker_pool = WorkerPool(
            limits.worker_limits, environment_variables=limits.environment_variables, hidden_paths=limits.hidden_paths
        )
        self.activity = CallActivity()
        self.watchdog = Watchdog(self.activity, tool_of_frame, self._on_loop_blocked)
        self._default_timeout = limits.default_timeout
        self.egress = LazyEgressClient(limits.egress_allow)
        self._functions: dict[str, tuple[Definition, FunctionRunner]] = {}
        self.lifespans = Lifespans()
        self.allows_fallback = True  # a function that blocks the loop may go on in a process of its own

    def runner_for(self, definition: Definition, code_sha256: str = "") -> Runner:
        """Who runs it; BadDeclaration for an isolated tool that no other process can find.

        A process of its own runs only code of this digest, where there is one.
        """
        if definition.body.isolated:
            return self._process_runner(function_ref_for(definition.body), code_sha256)
        elsewhere = partial(self._fallback_runner, definition, code_sha256)
        runner = FunctionRunner(definition.body, self.thread_pool, elsewhere, self.egress)
        self._functions[str(definition.tool.id)] = definition, runner
        return runner

    def metrics(self) -> Iterator[Metric]:
        """What an operator can watch of it."""
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
        """End the watch, the workers, and the threads that are idle."""
        self.watchdog.close()
        self.worker_pool.close()
        self.thread_pool.close()

    def _fallback_runner(self, definition: Definition, code_sha256: str) -> Runner | None:
        """A process of its own, for a tool that would not notice: what it keeps in memory would be lost."""
        address = stateless_function_ref_for(definition.body) if self.allows_fallback else None
        return None if address is None else self._process_runner(address, code_sha256)

    def _process_runner(self, ref: FunctionRef, code_sha256: str) -> ProcessRunner:
        return ProcessRunner(ref, self.worker_pool, self._default_timeout, self.egress, code_sha256)

    def _on_loop_blocked(self, tool: str) -> None:
        if tool in self._functions:
            definition, runner = self._functions[tool]
            runner.record_loop_block(definition.tool)
