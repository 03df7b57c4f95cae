from typing import Any, Literal

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("Shop")
ORDERS = {17: "tea", 18: "cups"}
paid: set[int] = set()


@mcp.tool(annotations={"readOnlyHint": False, "destructiveHint": False})
async def pay(number: int, ctx: Context) -> str:
    """Mark an order as paid."""
    if number not in ORDERS:
        raise ToolError(f"there is no order {number}")
    await ctx.report_progress(1, 1)
    await ctx.info("paid")
    paid.add(number)
    return f"order {number} is paid"


@mcp.resource("shop://policy", mime_type="text/markdown")
def policy() -> str:
    """Our rules for refunds."""
    return "# Refunds\nWithin 14 days."


@mcp.resource("shop://orders/{number}", mime_type="application/json")
def order(number: int) -> dict[str, Any]:
    """One order."""
    return {"number": number, "what": ORDERS[number], "paid": number in paid}


@mcp.prompt
def refund(number: int, tone: Literal["firm", "kind"] = "kind") -> str:
    """Draft a refund letter."""
    return f"Write a {tone} refund letter for order {number}."


@mcp.completion
def complete(ref: Any, argument: Any, context: Any) -> list[str] | None:
    if isinstance(ref, mcp_types.ResourceTemplateReference) and ref.uri == "shop://orders/{number}":
        return [str(number) for number in ORDERS if str(number).startswith(argument.value)]
    if isinstance(ref, mcp_types.PromptReference) and ref.name == "refund" and argument.name == "tone":
        return [tone for tone in ("firm", "kind") if tone.startswith(argument.value)]
    return None


if __name__ == "__main__":
    mcp.run()
