from typing import Any, Literal

from toolhall import Context, ToolFailed, Toolkit, prompt, resource, tool


class Shop(Toolkit, version="1.0.0"):
    """Orders and letters."""

    def __init__(self) -> None:
        self.orders = {17: "tea", 18: "cups"}
        self.paid: set[int] = set()

    @tool(effect="writes")
    async def pay(self, ctx: Context, number: int) -> str:
        """Mark an order as paid."""
        if number not in self.orders:
            raise ToolFailed(f"there is no order {number}")
        ctx.progress(1, 1)
        ctx.log("paid")
        self.paid.add(number)
        ctx.changed(f"shop://orders/{number}")
        return f"order {number} is paid"

    @resource("shop://policy", mime_type="text/markdown")
    def policy(self) -> str:
        """Our rules for refunds."""
        return "# Refunds\nWithin 14 days."

    @resource("shop://orders/{number}")
    def order(self, number: int) -> dict[str, Any] | None:
        """One order."""
        if number not in self.orders:
            return None
        return {"number": number, "what": self.orders[number], "paid": number in self.paid}

    @order.complete("number")
    def numbers(self) -> list[str]:
        return [str(number) for number in self.orders]

    @prompt
    def refund(self, number: int, tone: Literal["firm", "kind"] = "kind") -> str:
        """Draft a refund letter."""
        return f"Write a {tone} refund letter for order {number}."
