"""The benchmark's tool with a delay and no CPU time, like most tools that call another service."""

import asyncio
from typing import TypedDict

from toolhall import tool

NAP_SECONDS = 0.1


class Sum(TypedDict):
    """What every server here returns."""

    result: float


@tool
async def add(a: float, b: float) -> Sum:
    """Add two numbers, slowly."""
    await asyncio.sleep(NAP_SECONDS)
    return {"result": a + b}
