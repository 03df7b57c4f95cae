"""Tools that the tests of the command line call; it also prints where it must not."""

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from toolhall import Context, Toolkit, tool

print("printed while the module is imported")  # noqa: T201 - as careless authors do


@dataclass
class Guest:
    """Who comes."""

    name: str
    age: int
    vegetarian: bool = False


@tool(effect="reads")
async def echo(
    text: str = "", number: float = 0, count: int | None = None, tags: list[str] | None = None, loud: bool = False
) -> dict[str, str | float | int | bool | list[str] | None]:
    """Give back what came."""
    return {"text": text, "number": number, "count": count, "tags": tags, "loud": loud}


@tool(effect="reads")
async def chatter(ctx: Context, steps: int = 3, pause: float = 0.0) -> str:
    """Report progress and log lines.

    And a second paragraph.
    """
    print("printed while the tool runs")  # noqa: T201
    for step in range(steps):
        ctx.progress(step + 1, steps, f"step {step + 1}")
        ctx.log(f"line {step + 1}")
        await asyncio.sleep(pause)
    return "done"


@tool(effect="reads")
async def invite(ctx: Context) -> str:
    """Ask who comes."""
    given = await ctx.ask("Who comes?", Guest)
    return f"{given.value.name} ({given.value.age}, {given.value.vegetarian})" if given.accepted else given.action


@tool(effect="reads")
async def route(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
    """Take an argument that travels in a header too."""
    return f"to {region}"


@tool(effect="reads")
async def wait(seconds: float = 60) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@tool(effect="reads")
async def later(ctx: Context) -> str:
    """Let the client hang up and come back."""
    await ctx.detach(50)
    await asyncio.sleep(0.2)
    return "later"


@tool(effect="reads")
def hang(seconds: float = 60) -> str:
    """Wait in a thread, which nobody can stop."""
    time.sleep(seconds)
    return "hung"


@tool(effect="reads")
async def crash() -> str:
    """Fail with a secret in the message."""
    raise RuntimeError("canary-5f1c")


@tool
async def unsaid() -> str:
    """Say nothing about the effect."""
    return "ran"


@tool(effect="reads")
async def ugly() -> str:
    """Return what a terminal should not see."""
    return "a\u202eb"


class Shop(Toolkit, version="2.1.0", level=4, tags=["trade"]):
    """Sells."""

    @tool(effect="writes", timeout=5)
    async def sell(self, what: str, size: Literal["small", "large"] = "small") -> str:
        """Sell something."""
        return f"sold a {size} {what}"

    @tool(effect="destroys", level=9)
    async def burn(self, what: str) -> str:
        """Burn something down."""
        return f"burnt {what}"
