"""A process killed while it registers tools has lost nothing that it acknowledged, and left nothing half done."""

import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.registering_process import expected, expected_event
from tests.harness.seeds import count, seeds
from tests.interfaces.tool_records import changed
from tests.interfaces.tool_stores import open_store

ROOT = Path(__file__).parents[2]
ROUNDS = 100
NEW_FILES = count(25, 100)
OPENING, CHANGING = 0.03, 0.004  # seconds that each takes, and a little more

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


class Death(NamedTuple):
    """How a process ended, and the last step that it acknowledged."""

    acknowledged: int | None
    code: int


class Killer:
    """Has processes started in a folder, and kills them at random."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._asks, self._lines = process.stdin, process.stdout

    def kill_one(self, folder: Path, steps: int, moment: float) -> Death:
        """Start one, and kill it this moment after so many steps, wherever that finds it."""
        self._asks.write(f"{folder}\n".encode())
        self._asks.flush()
        seen: dict[bytes, int] = {}
        last = None
        while b"ended" not in seen and (b"pid" not in seen or len(seen) <= steps):
            last = self._see(seen, last)
        select.select([], [], [], moment)
        if b"ended" not in seen:
            os.kill(seen[b"pid"], signal.SIGKILL)
        while b"ended" not in seen:
            last = self._see(seen, last)
        return Death(last, seen[b"ended"])

    def _see(self, seen: dict[bytes, int], last: int | None) -> int | None:
        """Read a line: `pid 7`, `ended -9`, or the number of a step, which is then the last one."""
        word, *number = self._lines.readline().split()
        seen[word] = int(number[0] if number else word)
        return last if number else seen[word]


@pytest.fixture
def killer() -> Iterator[Killer]:
    command = [sys.executable, "-m", "tests.faults.registering_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        yield Killer(process)


async def steps_in(folder: Path) -> int:
    """How many steps are in the store, after checking that they are there whole and nothing else is."""
    store = open_store(folder)  # at once: the dead process's lock is free
    history = await store.history(limit=10**9)
    rows = [changed(row, serial=0) for row in await store.all()]
    store.close()
    assert history == tuple(expected_event(step) for step in reversed(range(len(history))))
    assert rows == expected(len(history))
    return len(history)


@pytest.mark.parametrize("seed", seeds(4))
async def test_registration_killed_keeps_every_acknowledged_step_and_none_by_half(
    tmp_path: Path, killer: Killer, seed: int
) -> None:
    chance, done = random.Random(seed), 0
    for _ in range(ROUNDS):
        steps = chance.randrange(7)
        death = killer.kill_one(tmp_path, steps, chance.uniform(0, CHANGING if steps else OPENING))
        assert death.code == -signal.SIGKILL
        acknowledged = done if death.acknowledged is None else death.acknowledged
        done = await steps_in(tmp_path)
        assert done - acknowledged in (0, 1), "only the step that was being done may be there unacknowledged"
    assert done > ROUNDS


async def test_registration_killed_while_creating_its_file_leaves_one_that_opens(
    tmp_path: Path, killer: Killer
) -> None:
    """However little of it is there, the next process opens it."""
    chance = random.Random(0)
    for number in range(NEW_FILES):
        folder = tmp_path / str(number)
        death = killer.kill_one(folder, 0, chance.uniform(0, OPENING))
        assert death.code == -signal.SIGKILL
        assert await steps_in(folder) >= (death.acknowledged or 0)
