"""The benchmark's tool with some work of its own: beside it, the load generator takes little of the machine."""

from typing import TypedDict

from toolhall import tool

STEPS = 20_000  # about 0.4 ms


class Sum(TypedDict):
    """What every server here returns."""

    result: float


@tool
async def add(a: float, b: float) -> Sum:
    """Add two numbers, and a few more."""
    sum(range(STEPS))
    return {"result": a + b}
