"""A process that is killed while long calls run loses no task that it gave out, and repeats no effect of one."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Timer

import pytest

from tests.harness.lateness import measured_lateness
from tests.harness.patience import patience
from tests.harness.seeds import count

KILLS = count(20, 500)
OF_ONE_FOLDER = 20
SETTLED_SECONDS = 5.0
SETTLING = 1.0  # seconds of computing, at most, that it takes
ROOT = Path(__file__).parents[2]


@contextmanager
def process(folder: Path, *options: str) -> Generator["subprocess.Popen[str]"]:
    """A process with long calls on this folder."""
    command = [sys.executable, "-m", "tests.faults.task_process", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as running:
        watchdog = Timer(patience(), running.kill)
        watchdog.start()
        try:
            yield running
        finally:
            watchdog.cancel()
            running.kill()


class Told:
    """What the processes of one folder have said."""

    def __init__(self) -> None:
        self.given: set[str] = set()
        self.states: dict[str, str] = {}
        self.settled: list[tuple[float, float]] = []  # seconds, and the moment when that was told

    def hear(self, line: str) -> str:
        """Note a line, and return its first word."""
        kind, *words = line.split()
        match kind:
            case "given":
                self.given.add(words[0])
            case "settled":
                assert self.states.setdefault(words[0], words[1]) == words[1], "a task ended twice"
            case "ready":
                self.settled.append((float(words[0]), time.monotonic()))
            case "started":
                pass
            case _:
                raise AssertionError(line)
        return kind


def killed_at_random(folder: Path, told: Told, chance: Random) -> None:
    """Start a process, and kill it at some moment of its work."""
    with process(folder) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for line in running.stdout:
            if told.hear(line) == "ready":
                break
        else:
            raise AssertionError(running.stderr.read())
        killer = Timer(chance.uniform(0.0, 0.2), running.kill)
        killer.start()
        for line in running.stdout:  # whatever it said before it was gone
            if line.endswith("\n"):
                told.hear(line)
        killer.join()
        assert running.wait() == -signal.SIGKILL, running.stderr.read()


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(KILLS // OF_ONE_FOLDER))
def test_tasks_survive_kills(tmp_path: Path, seed: int) -> None:
    """No task that was given out is lost, no effect of a tool that writes is repeated, and all settle in seconds."""
    told, chance = Told(), Random(seed)
    with measured_lateness() as lateness:
        for _ in range(OF_ONE_FOLDER):
            killed_at_random(tmp_path, told, chance)
        with process(tmp_path, "--settle") as last:
            said, failed = last.communicate()
            assert last.returncode == 0, failed
        for line in said.splitlines():
            told.hear(line)
    assert told.given, "no task was ever given out"
    assert told.given <= told.states.keys(), "a task was lost"
    assert set(told.states.values()) <= {"completed", "failed"}
    for seconds, end in told.settled:
        assert seconds < SETTLED_SECONDS + lateness.late(SETTLING, end - seconds, end)
    effects = Counter((tmp_path / "effects").read_text().splitlines())
    writes = {effect: times for effect, times in effects.items() if effect.startswith("write ")}
    assert max(writes.values()) == 1, "an effect of a tool that writes was repeated"
    for task_id, state in told.states.items():
        done = sum(effect.split()[1] == task_id for effect in effects)
        assert state == "failed" or done == 3, "a task was completed without its effects"
