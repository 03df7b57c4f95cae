"""The benchmark's tool for Toolhall: `add`, and as many more like it as BENCH_TOOLS says."""

import os
from collections.abc import Awaitable, Callable
from typing import TypedDict

from toolhall import tool


class Sum(TypedDict):
    """What every server here returns."""

    result: float


@tool(level=int(os.environ.get("BENCH_LEVEL", "1")))
async def add(a: float, b: float) -> Sum:
    """Add two numbers."""
    return {"result": a + b}


def _another(number: int) -> Callable[..., Awaitable[Sum]]:
    async def body(a: float, b: float) -> Sum:
        return {"result": a + b}

    body.__name__ = body.__qualname__ = f"tool_{number:05d}"
    body.__doc__ = f"Tool number {number}: adds two numbers and returns the sum."
    return tool(body)


for _number in range(1, int(os.environ.get("BENCH_TOOLS", "1"))):
    globals()[f"tool_{_number:05d}"] = _another(_number)
