"""Tools whose calls may be tasks, for the tests of what is on the wire."""

import asyncio
import itertools

from toolhall import Config, Context, Task, ToolFailed, Toolhall, tool
from toolhall.model.json import JsonObject

_numbers = itertools.count(1)
NAME_FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(effect="reads")
async def plain() -> str:
    """Answer at once; never a task."""
    return "plain"


@tool(effect="reads", task=Task(poll=0.01))
async def offered(text: str = "done") -> str:
    """Answer after a moment."""
    await asyncio.sleep(0.05)
    return text


@tool(effect="reads", task=Task(required=True, poll=0.01))
async def required() -> str:
    """Answer as a task only."""
    return "required"


@tool(effect="reads", task=Task(poll=0.01))
async def fails() -> None:
    """Fail, in the tool's own words."""
    raise ToolFailed("no luck")


@tool(effect="reads", task=Task(poll=0.01))
async def lacks(ctx: Context) -> str:
    """Fail by an error of the protocol, for clients without folders."""
    ctx.need("roots")
    return "folders"


@tool(effect="reads", task=Task(poll=0.01))
async def endless(ctx: Context) -> None:
    """Never end."""
    ctx.progress(1, 2, "half done")
    await asyncio.Event().wait()


@tool(effect="reads", task=Task(poll=0.01))
async def asks(ctx: Context) -> str:
    """Ask for two names, one after the other."""
    first = await ctx.ask("First name?", NAME_FORM, key="first")
    last = await ctx.ask("Last name?", NAME_FORM, key="last")
    if not (first.accepted and last.accepted):
        return f"{first.action}, {last.action}"
    return f"Hello, {first.value['name']} {last.value['name']}!"


@tool(effect="reads", task=True)
async def remembers(ctx: Context, size: int = 1) -> str:
    """Count once, whatever is asked between."""
    number = await ctx.once("number", next, _numbers)
    await ctx.once("more", "x".__mul__, size)
    await ctx.ask("Go on?", NAME_FORM, key="go_on")
    return str(number)


hall = Toolhall(
    remembers,
    plain,
    offered,
    required,
    fails,
    lacks,
    endless,
    asks,
    config=Config(calls_per_second=10_000, call_burst=10_000),
)
