"""A toolkit that real clients are run against: sums, failures, slow work, questions, a list that changes, many pages.

Serve it with `toolhall serve tests/conformance/accept.py`.
"""

import asyncio
from collections.abc import Callable
from typing import TypedDict

from toolhall import Context, ToolFailed, Toolhall, Toolkit, tool

STEPS = 10
BULK = 120


class Sum(TypedDict):
    """What `accept_add` returns."""

    sum: int


class Count(TypedDict):
    """What `accept_cancelled` returns."""

    count: int


class Name(TypedDict):
    """What `accept_ask` asks for."""

    name: str


@tool(name="accept_dynamic", effect="reads")
async def dynamic() -> str:
    """Is there only while it is toggled on."""
    return "here"


class Accept(Toolkit, name="accept"):
    """Works on the hall that serves it, because one of its tools changes the list of tools."""

    def __init__(self, hall: Toolhall) -> None:
        self._hall = hall
        self._cancelled = 0

    @tool(effect="reads")
    async def add(self, a: int, b: int) -> Sum:
        """Add two whole numbers."""
        return {"sum": a + b}

    @tool(effect="reads")
    async def fail(self) -> None:
        """Fail, always."""
        raise ToolFailed("accept_fail fails, as it promised")

    @tool(effect="reads")
    async def slow(self, ctx: Context, seconds: float = 1.0) -> str:
        """Sleep in ten steps, and say so at the start of each."""
        try:
            for step in range(1, STEPS + 1):
                ctx.progress(step, STEPS, f"step {step}")
                await asyncio.sleep(seconds / STEPS)
        except asyncio.CancelledError:
            self._cancelled += 1
            raise
        return "done"

    @tool(effect="reads")
    async def cancelled(self) -> Count:
        """Count the calls of accept_slow that were cancelled."""
        return {"count": self._cancelled}

    @tool(effect="reads")
    async def ask(self, ctx: Context) -> str:
        """Ask the user for a name and greet them."""
        given = await ctx.ask("Your name?", Name, key="name")
        return f"Hello, {given.value['name']}!" if given.accepted else f"declined: the user chose to {given.action}"

    @tool(effect="writes")
    async def toggle(self) -> str:
        """Add the tool accept_dynamic, or remove it if it is there."""
        if self._hall.remove("accept_dynamic"):
            return "accept_dynamic is gone"
        self._hall.add(dynamic)
        return "accept_dynamic is there"


def filler(number: int) -> Callable[..., object]:
    """One of many tools that fill the pages of a list."""

    @tool(name=f"accept_bulk_{number:03}", effect="reads")
    async def bulk(x: int = 0) -> int:
        """Give back x."""
        return x

    return bulk


def accept_tools(hall: Toolhall) -> list[object]:
    """Everything in this file, for this hall."""
    return [Accept(hall), *(filler(number) for number in range(BULK))]


hall = Toolhall()
hall.add(*accept_tools(hall))
