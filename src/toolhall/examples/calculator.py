"""Arithmetic: a toolkit with a version of its own."""

import math
from typing import Annotated

from toolhall import ToolFailed, Toolkit, tool


class Calculator(Toolkit, version="1.0.0", level=1, tags=["math"]):
    """Adds and subtracts."""

    @tool(name="Add", title="Add", effect="reads")
    async def add(
        self,
        a: Annotated[float, "The first number to add."],
        b: Annotated[float, "The second number to add."],
    ) -> Annotated[float, "The sum of the two numbers."]:
        """Adds two numbers together."""
        return _finite(a + b)

    @tool(name="Subtract", title="Subtract", effect="reads")
    async def subtract(
        self,
        a: Annotated[float, "The number to subtract from."],
        b: Annotated[float, "The number to subtract."],
    ) -> Annotated[float, "The first number minus the second."]:
        """Subtracts the second number from the first."""
        return _finite(a - b)


def _finite(result: float) -> float:
    """JSON has no infinity: what is too large is no result."""
    if math.isinf(result):
        raise ToolFailed("the result is too large for a number; use smaller ones")
    return result
