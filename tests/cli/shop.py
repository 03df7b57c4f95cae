"""Resources and prompts that the tests of the command line read and get; it also prints where it must not."""

from dataclasses import dataclass
from typing import Annotated, Literal

from toolhall import Context, Icon, Image, Message, Resource, Toolkit, prompt, resource, tool


@dataclass
class Order:
    """What was ordered."""

    number: int
    what: str


@dataclass
class Guest:
    """Who asks."""

    name: str


class Shop(Toolkit, version="1.2.0", level=2):
    """Orders and letters."""

    @resource("shop://policy", mime_type="text/markdown", title="Refunds", fresh=60, shared=True)
    async def policy(self) -> str:
        """Our rules for refunds.

        And a second paragraph.
        """
        print("printed while it is read")  # noqa: T201
        return "# Refunds\nå\u202e"

    @resource("shop://logo", mime_type="image/png", icons=[Icon(src="https://shop.example/logo.png")])
    async def logo(self) -> bytes:
        """Our logo."""
        return b"\x89PNG\xff"

    @resource("shop://files")
    async def files(self) -> list[Resource]:
        """Several files."""
        return [Resource(uri="shop://files/a", content="A"), Resource(uri="shop://files/b", content=b"B")]

    @resource("shop://greeting")
    async def greeting(self, ctx: Context) -> str:
        """Ask who reads."""
        given = await ctx.ask("Who reads?", Guest, key="who")
        return f"Hello {given.value.name}" if given.accepted else "Hello stranger"

    @resource("shop://balance", secrets=["BANK_KEY"])
    async def balance(self, ctx: Context) -> str:
        """Needs a secret."""
        return f"a key of {len(ctx.secret('BANK_KEY'))} characters"

    @resource("shop://crash")
    async def crash(self) -> str:
        """Fail with a secret in the message."""
        raise RuntimeError("canary-5f1c")

    @resource("shop://hidden", listed=False)
    async def hidden(self) -> str:
        """Is only linked to."""
        return "found"

    @resource("shop://orders/{number}")
    async def order(self, ctx: Context, number: int) -> Order | None:
        """One order."""
        ctx.log(f"order {number}")
        return Order(number, "tea") if number < 100 else None

    @prompt(title="Write a refund letter")
    async def refund(
        self, number: Annotated[int, "Which order"], tone: Literal["kind", "firm"] = "kind"
    ) -> list[Message]:
        """Draft a letter for one order."""
        carried = Resource(uri=f"shop://orders/{number}", content='{"what":"tea"}', mime_type="application/json")
        return [Message.user(carried), Message.user(Image(b"\x89PNG")), Message.assistant(f"A {tone} letter.\u202e")]

    @prompt(level=4)
    async def greet(self, name: str = "you") -> str:
        """Greet somebody."""
        return f"Say hello to {name}."

    @tool(effect="reads")
    async def count(self) -> int:
        """Count the orders."""
        return 99
