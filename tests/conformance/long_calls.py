"""The tools of the official MCP conformance suite whose calls are tasks, for `everything.py`."""

import asyncio
from typing import TypedDict

from toolhall import Context, Task, ToolFailed, tool
from toolhall.model.json import JsonObject
from toolhall.model.messages import Filled, Form

JOB_SECONDS = 1.0


class Confirmed(TypedDict):
    """A yes or a no."""

    confirm: bool


class Named(TypedDict):
    """A name."""

    name: str


NAME_FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
CONFIRM_FORM: JsonObject = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}


@tool(effect="reads")
async def greet(name: str) -> str:
    """Greet somebody, in line."""
    return f"Hello, {name}!"


@tool(effect="reads", task=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some seconds."""
    await asyncio.sleep(seconds)
    return f"{label or 'it'} took {seconds:g} seconds"


@tool(effect="reads", task=Task(required=True))
async def failing_job() -> None:
    """Fail after a while, by the tool's own error."""
    await asyncio.sleep(JOB_SECONDS)
    raise ToolFailed("this job fails, always")


@tool(effect="reads", task=True)
async def protocol_error_job(ctx: Context) -> str:
    """Fail at once, by an error of the protocol."""
    ctx.need("roots")
    return "the client has folders"


@tool(effect="destroys", level=1, task=True)
async def confirm_delete(ctx: Context, filename: str) -> str:
    """Ask before a file would be deleted."""
    given = await ctx.ask(f"Really delete {filename}?", Confirmed, key="confirm")
    return f"{filename} deleted" if given.accepted and given.value["confirm"] else f"{filename} kept"


@tool(effect="reads", task=True)
async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    answers = await ctx.ask_all({"name": Form("Your name?", NAME_FORM), "confirm": Form("Sure?", CONFIRM_FORM)})
    return ", ".join(f"{key}: {given.action}" for key, given in answers.items() if isinstance(given, Filled))


@tool(name="test_tool_with_task", effect="reads", task=Task(required=True, after_questions=True))
async def tool_with_task(ctx: Context) -> str:
    """Ask for a name in line, then go on as a task."""
    given = await ctx.ask("What is your name?", Named, key="user_name")
    await ctx.detach()
    await asyncio.sleep(JOB_SECONDS / 10)
    return f"Hello, {given.value['name']}!" if given.accepted else "Hello, whoever you are!"


LONG_CALLS = (greet, slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input, tool_with_task)
