"""Tools that run in processes of their own, for `test_shared_tasks.py`."""

import os
import time

from toolhall import Context, tool

_counted: list[int] = []


def _count() -> int:
    _counted.append(1)
    return len(_counted)


@tool(effect="reads", isolated=True, task=True)
async def gather(ctx: Context) -> str:
    """Count once, and look twice."""
    first = await ctx.once("count", _count)
    second = await ctx.once("count", _count)
    return f"{first} {second} {ctx.task_id}"


@tool(effect="writes", isolated=True, task=True)
def hang(ctx: Context) -> None:
    """Say which process this is, and hang."""
    ctx.progress(0, message=str(os.getpid()))
    time.sleep(600)
