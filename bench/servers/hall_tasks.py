"""Tasks of an empty tool in a hall on SQLite, one after the other: `python -m bench.servers.hall_tasks FOLDER COUNT`.

Each is created, durable, and read once it has completed; `--bare` calls the same tool in line. Prints CPU and times.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable

from toolhall import Config, Toolhall, tool
from toolhall.model.caller import LOCAL
from toolhall.model.messages import NULL_LINK, CallTool, CompletedCall, TaskView
from toolhall.pipeline.tasks.rows import TaskTerms

WARM_UP = 20
_AT_ONCE = TaskTerms(at_once=True)


@tool(effect="reads", task=True)
async def work(number: int) -> int:
    """Do nothing."""
    return number


async def main(folder: str, count: int, *, bare: bool) -> None:
    """Run so many, and print what one cost on average."""
    logging.disable(logging.CRITICAL)
    hall = Toolhall(work, config=Config(data=folder, calls_per_second=1e6, call_burst=1e6))
    hall.without_pages()
    async with hall:
        run: Callable[[int], Awaitable[None]] = _caller(hall) if bare else _starter(hall)
        for number in range(WARM_UP):
            await run(number)
        cpu, seconds = time.process_time(), time.perf_counter()
        for number in range(count):
            await run(number)
        used = time.process_time() - cpu, time.perf_counter() - seconds
    print(json.dumps({"cpu_ms": used[0] / count * 1e3, "wall_ms": used[1] / count * 1e3}))


def _starter(hall: Toolhall) -> Callable[[int], Awaitable[None]]:
    async def run(number: int) -> None:
        view = await hall.tasks.start(CallTool("work", {"number": number}, "bench"), LOCAL, NULL_LINK, _AT_ONCE)
        if not isinstance(view, TaskView) or (await hall.tasks.wait(view.id, LOCAL)).state != "completed":
            raise RuntimeError(f"no task was completed: {view}")

    return run


def _caller(hall: Toolhall) -> Callable[[int], Awaitable[None]]:
    async def run(number: int) -> None:
        answer = await hall.dispatcher.answer(CallTool("work", {"number": number}, "bench"), LOCAL)
        if not isinstance(answer, CompletedCall):
            raise TypeError(f"no call was completed: {answer}")

    return run


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), bare="--bare" in sys.argv))
