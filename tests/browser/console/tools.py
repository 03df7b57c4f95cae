"""Tools of all kinds: they read, write, destroy, fail, report progress, need a secret, show pictures."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from toolhall import Context, Image, Reply, Text, ToolFailed, Toolkit, tool

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


@dataclass
class Tide:
    """The water level of a harbour."""

    harbour: str
    metres: float


class Calculator(Toolkit, version="1.0.0", level=1):
    """Arithmetic."""

    @tool(effect="reads")
    def Add(self, a: Annotated[float, "The first number."], b: Annotated[float, "The second number."]) -> float:  # noqa: N802
        """Adds two numbers together."""
        return a + b


class Harbour(Toolkit, version="1.1.0"):
    """Ships and tides."""

    @tool(effect="reads", level=2)
    def get_tide(self, harbour: str, unit: Literal["m", "ft"] = "m") -> Tide:
        """Tells the water level of a harbour."""
        return Tide(harbour, 2.4 if unit == "m" else 7.9)

    @tool(effect="reads", level=1)
    async def watch(self, ctx: Context, steps: int = 3) -> str:
        """Watches the water, and tells how far it is."""
        for step in range(steps):
            ctx.progress(step + 1, steps, f"step {step + 1}")
            await asyncio.sleep(0)
        return "calm"

    @tool(effect="writes", level=6)
    def open_lock(self, lock: str, reason: str = "") -> str:
        """Opens a lock for a ship."""
        return f"opened {lock}"

    @tool(effect="writes", level=8)
    def close_harbour(self, harbour: str, days: int = 1) -> str:
        """Closes a harbour for all ships."""
        return f"closed {harbour} for {days} days"

    @tool(effect="destroys", level=9)
    def scrap(self, ship: str, why: str = "") -> str:
        """Scraps a ship."""
        return f"scrapped {ship}"

    @tool(effect="reads", level=1)
    def sink(self, ship: str) -> str:
        """Always fails."""
        raise ToolFailed(f"{ship} has sunk")

    @tool(effect="reads", level=1)
    def crash(self) -> str:
        """Always breaks."""
        raise RuntimeError("a bug of the tool")

    @tool(effect="reads", level=1, secrets=["HARBOUR_KEY"])
    def camera(self, ctx: Context) -> Reply:
        """Shows a picture; needs a key of the harbour."""
        return Reply(content=(Text("the quay"), Image(PIXEL)))

    @tool(effect="reads", level=1)
    def picture(self) -> list[Text | Image]:
        """Shows a picture."""
        return [Text("the quay"), Image(PIXEL)]


class Strange(Toolkit, version="0.1.0", level=1):
    """Text that must stay text."""

    @tool(effect="reads")
    def echo(self, text: str = "<img src=x onerror=alert(1)>") -> str:
        """Says <script>alert(1)</script> \u202ereversed\u202c, p\u0430ypal, and [a link](javascript:alert(1))."""
        return text
