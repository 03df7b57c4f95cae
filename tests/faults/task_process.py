"""A process that runs long calls on a folder until it is killed; before, it settles what the last one left.

It writes one line for each task that it was given, and for each that it found settled. What its tools do is a line in
the file `effects`, written at once.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from tests.harness.long_calls import PersonLink
from toolhall import Config, Context, Task, Toolhall, tool
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool, TaskView

TASKS = 20
EFFECTS = 3
PAUSE = 0.02
FOLDER = Path(sys.argv[1])
_effects = os.open(FOLDER / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


async def _effect(kind: str, ctx: Context, number: int) -> int:
    os.write(_effects, f"{kind} {ctx.task_id} {number}\n".encode())
    os.fsync(_effects)
    await asyncio.sleep(PAUSE)
    return number


@tool(effect="writes", task=True)
async def write(ctx: Context) -> str:
    """Do each effect; never again."""
    for number in range(EFFECTS):
        await _effect("write", ctx, number)
    return "written"


@tool(effect="writes", task=Task(again=True))
async def repeat(ctx: Context) -> str:
    """Do each effect once, as far as a process can."""
    for number in range(EFFECTS):
        await ctx.once(f"step {number}", _effect, "repeat", ctx, number)
    return "repeated"


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def _main() -> None:
    hall = Toolhall(write, repeat, config=Config(data=str(FOLDER / "data"), calls_per_second=10_000, call_burst=10_000))
    hall.without_pages()
    began = time.monotonic()
    async with hall:
        for row in await hall.tasks.rows_of_all(limit=1_000):
            view = await hall.tasks.wait(row.id, LOCAL)
            _say("settled", view.id, view.state)
        _say("ready", round(time.monotonic() - began, 3))
        if "--settle" in sys.argv:
            return
        requests = [CallTool(("write", "repeat")[number % 2], {}, "memory") for number in range(TASKS)]
        for made in asyncio.as_completed([hall.tasks.start(each, LOCAL, PersonLink()) for each in requests]):
            given = await made
            _say(*(("given", given.id) if isinstance(given, TaskView) else ("refused", given)))
        _say("started")
        await asyncio.Event().wait()


asyncio.run(_main())
