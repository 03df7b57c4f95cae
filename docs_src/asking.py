"""A tool that asks the person before it goes on."""

from dataclasses import dataclass
from typing import Literal

from toolhall import Context, ToolFailed, tool


@dataclass
class Order:
    size: Literal["small", "large"]
    quantity: int = 1


@tool(effect="writes")
async def order_pizza(ctx: Context, kind: str) -> str:
    """Order a pizza, after asking for its size."""
    reply = await ctx.ask(f"How do you want your {kind}?", Order, key="order")
    if not reply.accepted:
        raise ToolFailed("the order was not confirmed")
    return f"{reply.value.quantity} {reply.value.size} {kind}"
