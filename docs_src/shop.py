"""A shop: resources, a URI template with completion, a prompt, and a tool that changes a resource."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from toolhall import Context, Message, Resource, Toolkit, prompt, resource, tool

Status = Literal["open", "paid"]


@dataclass
class Order:
    number: int
    what: str
    status: Status = "open"


class Shop(Toolkit, version="1.2.0", level=2):
    """Orders and letters."""

    def __init__(self) -> None:
        self.known = {17: Order(17, "tea"), 18: Order(18, "cups", "paid")}

    @resource("shop://policy", mime_type="text/markdown", fresh=300, shared=True)
    async def policy(self) -> str:
        """Our rules for refunds."""
        return "# Refunds\nWithin 14 days."

    @resource("shop://orders/{number}")
    async def order(self, number: int) -> Order | None:
        """One order."""
        return self.known.get(number)

    @order.complete("number")
    async def numbers(self) -> list[str]:
        return [str(number) for number in self.known]

    @resource("shop://orders{?status,limit}")
    async def orders(self, status: Status = "open", limit: int = 20) -> list[Order]:
        """Orders by status."""
        return [order for order in self.known.values() if order.status == status][:limit]

    @prompt(title="Write a refund letter")
    async def refund(
        self, number: Annotated[int, "Which order"], tone: Literal["firm", "kind"] = "kind"
    ) -> list[Message]:
        """Drafts a letter for one order."""
        order = self.known[number]
        carried = Resource(uri=f"shop://orders/{number}", content=f"{order.what}, {order.status}")
        return [Message.user(carried), Message.user(f"Write a {tone} letter about this refund.")]

    @refund.complete("number")
    async def refundable(self, typed: str, given: Mapping[str, str]) -> list[str]:
        wanted: Status = "open" if given.get("tone") == "firm" else "paid"
        found = (str(order.number) for order in self.known.values() if order.status == wanted)
        return [number for number in found if number.startswith(typed)]

    @tool(effect="writes")
    async def pay(self, ctx: Context, number: int) -> Order:
        """Marks an order as paid."""
        self.known[number].status = "paid"
        ctx.changed(f"shop://orders/{number}")
        return self.known[number]
