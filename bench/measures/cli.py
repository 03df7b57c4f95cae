"""CPU of commands from start to exit, beside the same commands of an earlier revision."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.launch import PYTHON, SERVERS
from bench.process import Place
from bench.report import Section
from bench.revision import THIS, Tree, checked_out
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

TOOLS = str(SERVERS / "tools.py")
COMMANDS = {
    "version": ("--version",),
    "help": ("--help",),
    "list": ("list", TOOLS),
    "call": ("call", "add", "a=1", "b=2.5", TOOLS, "--yes"),
}
BARE = "interpreter alone"

ABOUT = """CPU milliseconds of the whole process, children included, with bytecode written before. `before` runs the
sources of revision {before} with the same interpreter and packages. `interpreter alone` is `python -c pass`."""


def measure_cli(options: Options) -> Section:
    """Every command of both trees in turn."""
    with checked_out(options.before) as before, tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        lanes: dict[str, Callable[[], float]] = {
            BARE: partial(_cpu_ms, [str(PYTHON), "-c", "pass"], THIS.place(Path(folder)))
        }
        for name, arguments in COMMANDS.items():
            more = ("--data", folder) if name == "call" else ()
            for kind, tree in (("now", THIS), ("before", before)):
                lanes[f"{name} {kind}"] = _lane(tree, (*arguments, *more), Path(folder))
        seen = interleaved(lanes, options.rounds * 2)
    times = {name: ratios(seen[f"{name} now"], seen[f"{name} before"]) for name in COMMANDS}
    rows = [[f"`{_shown(name)}`", *_cells(name, seen), times[name].text(2)] for name in COMMANDS]
    rows.append([BARE, Spread.of(seen[BARE]).text(), "", ""])
    verdicts = [TARGETS[f"cli.{name}"].verdict(spread) for name, spread in times.items()]
    columns = ["command", "CPU ms now", "CPU ms before", "times before"]
    return Section("Commands", ABOUT.format(before=options.before), columns, rows, verdicts, seen)


def _lane(tree: Tree, arguments: tuple[str, ...], folder: Path) -> Callable[[], float]:
    return partial(_cpu_ms, tree.command(*arguments), tree.place(folder))


def _cpu_ms(command: list[str], place: Place) -> float:
    """User and system time of one process, by the kernel's accounts when it has ended."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=place.folder,
            env=dict(place.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            said = output.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(command[3:])} ended with {process.returncode}: {said}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def _cells(name: str, seen: dict[str, list[float]]) -> list[str]:
    return [Spread.of(seen[f"{name} {kind}"]).text() for kind in ("now", "before")]


def _shown(name: str) -> str:
    return " ".join("FILE" if word == TOOLS else word for word in ("toolhall", *COMMANDS[name]))
