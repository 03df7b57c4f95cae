"""Everything that runs the functions of a hall: its threads, its worker processes, and the watchdog over its loop."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType
from typing import Protocol

import msgspec

from toolhall.authoring.definition import Definition
from toolhall.egress.outside import Outside
from toolhall.registry.entry import Runner
from toolhall.runners.address import Address, address_of, stateless_address_of
from toolhall.runners.function import FunctionRunner
from toolhall.runners.lifespan import Lifespans
from toolhall.runners.process import ProcessRunner
from toolhall.runners.threads import Threads
from toolhall.runners.watchdog import Activity, Watchdog
from toolhall.runners.wire import Limits
from toolhall.runners.workers import Workers
from toolhall.telemetry.figures import Gauge

_SECRET_FILE = re.compile(r"TOOLHALL_[A-Z_]+_FILE")


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything there is."""

    threads: int
    seconds: float  # for a tool that states no timeout
    limits: Limits = Limits()
    allow: tuple[str, ...] = ()  # private hosts that tools may reach by the hall's own client
    variables: tuple[str, ...] = ()  # of the environment, that worker processes see besides the usual ones
    hidden: tuple[str, ...] = ()  # paths that worker processes cannot open


class Settings(Protocol):
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


def means_of(settings: Settings) -> Means:
    """As configured."""
    limits = Limits(result_bytes=2 * settings.max_output_bytes + 65_536)  # bytes grow when they are written as text
    allow = settings.egress_allow
    return Means(
        threads=settings.threads,
        seconds=settings.call_timeout,
        limits=limits,
        allow=allow,
        hidden=hidden_paths(settings.data, os.environ),
    )


def hidden_paths(data: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The data folder, and the files and credentials that the hall is told its secrets by; all absolute."""
    named = [value for name, value in environment.items() if _SECRET_FILE.fullmatch(name)]
    paths = [data, environment.get("CREDENTIALS_DIRECTORY"), *named]
    return tuple(os.path.realpath(path) for path in paths if path)


class Staff:
    """Finds for every definition who runs it."""

    def __init__(self, means: Means, named: Callable[[FrameType], str | None]) -> None:
        self.threads = Threads(means.threads)
        self.workers = Workers(means.limits, variables=means.variables, hidden=means.hidden)
        self.activity = Activity()
        self.watchdog = Watchdog(self.activity, named, self._blocked)
        self._seconds = means.seconds
        self.outside = Outside(means.allow)
        self._functions: dict[str, tuple[Definition, FunctionRunner]] = {}
        self.lifespans = Lifespans()
        self.moves = True  # a function that blocks the loop may go on in a process of its own

    def runner(self, definition: Definition, code_sha256: str = "") -> Runner:
        """Who runs it; BadDeclaration for an isolated tool that no other process can find.

        A process of its own runs only code of this digest, where there is one.
        """
        if definition.body.isolated:
            return self._process(address_of(definition.body), code_sha256)
        elsewhere = partial(self._elsewhere, definition, code_sha256)
        runner = FunctionRunner(definition.body, self.threads, elsewhere, self.outside)
        self._functions[str(definition.tool.id)] = definition, runner
        return runner

    def figures(self) -> Iterator[Gauge]:
        """What an operator can watch of it."""
        yield Gauge("toolhall_calls_running", "gauge", "Tools that run now.", lambda: self.activity.running)
        yield Gauge(
            "toolhall_loop_stalls_total", "counter", "Times the loop stood still.", lambda: self.watchdog.stalls
        )
        yield Gauge("toolhall_lost_threads", "gauge", "Threads that hang in a tool.", lambda: self.threads.lost)
        yield Gauge("toolhall_workers_running", "gauge", "Worker processes at work.", lambda: self.workers.running)
        yield Gauge("toolhall_workers_lost_total", "counter", "Worker processes ended.", lambda: self.workers.deaths)

    def close(self) -> None:
        """End the watch, the workers, and the threads that are idle."""
        self.watchdog.close()
        self.workers.close()
        self.threads.close()

    def _elsewhere(self, definition: Definition, code_sha256: str) -> Runner | None:
        """A process of its own, for a tool that would not notice: what it keeps in memory would be lost."""
        address = stateless_address_of(definition.body) if self.moves else None
        return None if address is None else self._process(address, code_sha256)

    def _process(self, address: Address, code_sha256: str) -> ProcessRunner:
        return ProcessRunner(address, self.workers, self._seconds, self.outside, code_sha256)

    def _blocked(self, tool: str) -> None:
        if tool in self._functions:
            definition, runner = self._functions[tool]
            runner.blocked(definition.tool)
