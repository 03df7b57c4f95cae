"""Every way that a call can take to its tool, and in one place what is different on which, and why."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

from tests.harness.server_process import ROOT, ServerProcess, bare_environment, server_process, toolhall
from tests.interfaces.running.typescript import built_kit

HERE = Path(__file__).parent

# What may differ; the tests look here, and nowhere else.
KILLED = "a tool that is stopped does not see it"
NO_BIG_INTEGERS = "integers beyond 2**53 are not exact"

_KILLED = {KILLED: "its process is killed, so that nothing in it can hold up the hall"}
_NO_BIG_INTEGERS = {NO_BIG_INTEGERS: "JavaScript reads every number as a double"}


class Place(NamedTuple):
    """A hall that runs, with the tools behind it, and the logs of its processes: last that of who runs the tools."""

    origin: str
    logs: tuple[Path, ...]
    differs: Mapping[str, str]

    def logged(self) -> list[str]:
        """What each log says so far."""
        return [log.read_text(errors="replace") for log in self.logs]


Opened: TypeAlias = Callable[[Path], AbstractContextManager[tuple[str, tuple[Path, ...]]]]


class Way(NamedTuple):
    """How to open a place, and what is different there, each with the reason."""

    opened: Opened
    differs: Mapping[str, str] = {}

    @contextmanager
    def place(self, folder: Path) -> Generator[Place]:
        """A hall and its tools, until the block ends."""
        with self.opened(folder) as (origin, logs):
            yield Place(origin, logs, self.differs)


def _in_hall(file: str) -> Opened:
    @contextmanager
    def opened(folder: Path) -> Generator[tuple[str, tuple[Path, ...]]]:
        log = folder / "hall.log"
        with _hall(log, str(HERE / file)) as origin:
            yield origin, (log,)

    return opened


def _joined(command: Callable[[Path, str], list[str]]) -> Opened:
    @contextmanager
    def opened(folder: Path) -> Generator[tuple[str, tuple[Path, ...]]]:
        log, tools_log = folder / "hall.log", folder / "tools.log"
        with _hall(log, "toolhall.examples.calculator") as origin, _running(command(folder, origin), tools_log, {}):
            yield origin, (log, tools_log)

    return opened


@contextmanager
def _hall(log: Path, target: str) -> Generator[str]:
    """A hall whose data folder lies apart: folders that are made later beside it are hidden from isolated tools."""
    with TemporaryDirectory() as data:
        settings = {"TOOLHALL_DATA": data, "TOOLHALL_ACCEPT_CREDENTIALS": "*"}
        with _running(toolhall("serve", target, "--port", "0", "--json"), log, settings) as server:
            yield server.origin


@contextmanager
def _running(command: list[str], log: Path, settings: Mapping[str, str]) -> Generator[ServerProcess]:
    """A server that is ready; at the end it stops on SIGTERM, with code 0."""
    with server_process(command, ROOT, env=bare_environment(settings), log=log) as server:
        yield server
        assert server.stop() == 0, server.log


def _python(*options: str) -> Callable[[Path, str], list[str]]:
    return lambda _, hall: toolhall("serve", str(HERE / "kit.py"), "--join", hall, "--json", *options)


def _typescript(*options: str) -> Callable[[Path, str], list[str]]:
    return lambda folder, hall: ["node", "--enable-source-maps", str(built_kit(folder)), hall, *options]


WAYS: dict[str, Way] = {
    "function": Way(_in_hall("kit.py")),
    "process": Way(_in_hall("apart.py"), _KILLED),
    "http python": Way(_joined(_python())),
    "socket python": Way(_joined(_python("--socket"))),
    "http typescript": Way(_joined(_typescript()), _NO_BIG_INTEGERS),
    "socket typescript": Way(_joined(_typescript("--socket")), _NO_BIG_INTEGERS),
}
