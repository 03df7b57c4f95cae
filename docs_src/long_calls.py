"""Tools whose calls take minutes or wait for days: as tasks, they outlive their request and the server's process."""

import asyncio
from typing import TypedDict

from toolhall import Context, Task, Toolkit, tool


class Sure(TypedDict):
    sure: bool


async def collect(year: int) -> list[int]:
    """Stand for something slow and costly."""
    await asyncio.sleep(0)
    return [year * 100 + month for month in range(1, 13)]


class Orders(Toolkit, version="1.0.0"):
    """Orders of a shop."""

    @tool(effect="writes", task=True)
    async def export(self, ctx: Context, year: int) -> str:
        """Export a year of orders; takes minutes."""
        months = await ctx.once("months", collect, year)
        for done, month in enumerate(months):
            ctx.progress(done, len(months), f"writing {month}")
        return f"{len(months)} months exported"

    @tool(effect="destroys", level=1, task=Task(required=True, after_questions=True))
    async def purge(self, ctx: Context, year: int) -> str:
        """Delete a year of orders, after asking."""
        given = await ctx.ask(f"Really all orders of {year}?", Sure, key="sure")
        if not (given.accepted and given.value["sure"]):
            return "nothing was deleted"
        await ctx.detach()
        return f"the orders of {year} are deleted"
