"""Resources and prompts of all kinds: texts, JSON, pictures, several contents, questions, what fails and hurts."""

from dataclasses import dataclass
from typing import Annotated, Literal

from toolhall import Context, Image, Message, Resource, Text, ToolFailed, prompt, resource

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)
PAGE = "<!doctype html><title>x</title><script>alert(1)</script><img src=x onerror=alert(1)>"
ORDERS = {number: ["tea", "rope", "lamp"][number % 3] for number in range(17, 30)}
FORM = {"type": "object", "properties": {"tone": {"type": "string"}}, "required": ["tone"]}


@dataclass
class Order:
    """An order of the shop."""

    number: int
    ware: str


@resource("shop://orders/{number}{?part}", mime_type="application/json")
async def order(number: Annotated[int, "The number of the order."], part: str = "") -> Order:
    """An order of the shop, by its number."""
    if number not in ORDERS:
        raise ToolFailed(f"there is no order {number}")
    return Order(number, ORDERS[number])


@order.complete("number")
async def order_numbers() -> list[str]:
    return [str(number) for number in ORDERS]


@resource("shop://terms", mime_type="text/plain", fresh=60, shared=True)
async def terms() -> str:
    """The terms of the shop."""
    return "Pay before you sail.\n<script>alert(1)</script> p\u0430ypal"


@resource("shop://logo", mime_type="image/png")
async def logo() -> bytes:
    """The sign above the door."""
    return PIXEL


@resource("shop://page", mime_type="text/html")
async def page() -> str:
    """A page, which is never shown as one."""
    return PAGE


@resource("shop://drawing", mime_type="image/svg+xml")
async def drawing() -> bytes:
    """A drawing that could run scripts."""
    return b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@resource("shop://ledger", mime_type="application/octet-stream", level=8)
async def ledger() -> bytes:
    """What only a person may open."""
    return b"\x00\x01"


@resource("shop://shelf/{name}")
async def shelf(name: str) -> list[Resource]:
    """Several contents at once."""
    return [
        Resource(uri=f"shop://shelf/{name}/note", content=f"beside {name}", mime_type="text/plain"),
        Resource(uri=f"shop://shelf/{name}/photo", content=PIXEL, mime_type="image/png"),
    ]


@prompt(name="write_letter")
async def write_letter(
    customer: Annotated[str, "Who gets the letter."],
    order_number: int = 17,
    tone: Literal["kind", "strict"] = "kind",
) -> list[Message]:
    """A letter about an order."""
    return [
        Message.user(f"Write a {tone} letter to {customer} about order {order_number}. <b>Now.</b>"),
        Message.assistant("Which sign does it carry?"),
        Message.user(Image(PIXEL)),
    ]


@write_letter.complete("customer")
async def customers() -> list[str]:
    return ["Ada", "Adele", "Bram"]


@prompt
async def greet(ctx: Context) -> str:
    """A greeting that asks for its tone."""
    given = await ctx.ask("Which tone?", FORM, key="tone")
    return f"Greet in a {given.value['tone']} tone." if given.accepted else "Do not greet."


@prompt
async def plain() -> list[Text]:
    """A prompt without arguments."""
    return [Text("Say nothing.")]
