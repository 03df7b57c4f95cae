"""A process that registers tools until it is killed; run as a module it forks one for each line that it reads.

What a step does depends on its number alone, so that whoever knows the last step knows everything that must be there.
"""

import asyncio
import os
import random
import sys
import tempfile
from pathlib import Path

from tests.interfaces.tool_records import changed, event, kept
from tests.interfaces.tool_stores import open_store
from toolhall.stores.tools import ToolEvent, ToolRecord, ToolStore

ALIVE = 4  # toolkits that are there at a time
TURN = 3  # each is registered, activated, and an old one removed


def toolkit(number: int, state: str) -> list[ToolRecord]:
    """The tools of one registration; from one to nine, some of one document."""
    chance = random.Random(number)
    shared = b"{}" + b" " * chance.randrange(20_000)
    return [
        kept(
            f"t{tool}",
            toolkit=f"Kit{number}",
            state=state,
            document=shared if chance.random() < 0.5 else b"%d" % tool,
            registered_at=float(number),
        )
        for tool in range(chance.randint(1, 9))
    ]


def expected_event(step: int) -> ToolEvent:
    """The event that comes with each step."""
    return event(kept(toolkit=f"Kit{step // TURN}"), step=step)


def expected(steps: int) -> list[ToolRecord]:
    """Everything that is there after so many steps, but for the serials."""
    whole, rest = divmod(steps, TURN)
    first = max(0, whole - ALIVE)
    there = [row for number in range(first, whole) for row in toolkit(number, "active")]
    return [*there, *(toolkit(whole, "active" if rest == 2 else "registered") if rest else ())]


async def do(store: ToolStore, step: int) -> None:
    """One change: several rows and an event."""
    number, kind = divmod(step, TURN)
    rows = [row for row in await store.all() if row.toolkit == f"Kit{number - ALIVE if kind == 2 else number}"]
    match kind:
        case 0:
            await store.save(toolkit(number, "registered"), [expected_event(step)])
        case 1:
            await store.save([changed(row, state="active") for row in rows], [expected_event(step)])
        case _:
            await store.remove(rows, [expected_event(step)])


async def register(folder: Path) -> None:
    """Go on where the last one was killed; each step that is acknowledged is a line."""
    store = open_store(folder)
    step = len(await store.history(limit=10**9))
    while True:
        await do(store, step)
        step += 1
        os.write(1, b"%d\n" % step)


def main() -> None:
    """Load everything once; then each round costs a fork."""
    with tempfile.TemporaryDirectory() as scratch:
        open_store(Path(scratch)).close()
    for folder in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(register(Path(folder.strip())))
        os.write(1, b"pid %d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"ended %d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
