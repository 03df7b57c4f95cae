"""Resources, prompts and completions of every kind, for the tests of the wire; see probe.py for tools."""

from typing import Annotated, Literal, TypedDict

from toolhall import (
    Config,
    Context,
    Icon,
    Image,
    Message,
    Notes,
    Resource,
    ResourceLink,
    ToolFailed,
    Toolhall,
    Toolkit,
    prompt,
    resource,
    tool,
)

PAGE_SIZE = 3
MANY = 250


class Name(TypedDict):
    """One field to ask for."""

    name: str


class Shop(Toolkit, version="1.2.0", level=1):
    """Orders and letters."""

    @resource(
        "shop://policy",
        mime_type="text/markdown",
        title="Policy",
        fresh=300,
        shared=True,
        size=9,
        notes=Notes(audience=("user",), priority=0.5, last_modified="2026-01-01T00:00:00Z"),
        icons=[Icon(src="https://example.com/i.png", mime_type="image/png", sizes=("48x48",))],
        meta={"com.example/kind": "rules"},
    )
    async def policy(self) -> str:
        """Our rules for refunds."""
        return "# Be kind"

    @resource("shop://logo", mime_type="image/png")
    def logo(self) -> bytes:
        """A picture."""
        return b"\x89PNG\x00\xff"

    @resource("shop://both")
    async def both(self) -> list[Resource]:
        """Two contents."""
        return [
            Resource(uri="shop://both/1", content="one", mime_type="text/plain"),
            Resource(uri="shop://both/2", content=b"\x00", meta={"com.example/part": 2}),
        ]

    @resource("shop://hidden", listed=False)
    async def hidden(self) -> str:
        """Is only linked to."""
        return "hidden"

    @resource("shop://orders/{number}")
    async def order(self, number: int) -> dict[str, int] | None:
        """One order, if there is one."""
        return {"number": number} if number < MANY else None

    @order.complete("number")
    async def numbers(self, typed: str, given: dict[str, str]) -> list[str]:
        return [f"{number}{given.get('suffix', '')}" for number in range(MANY) if str(number).startswith(typed)]

    @resource("shop://orders{?status,limit}", mime_type="application/json")
    async def orders(self, status: Literal["open", "shut"] = "open", limit: int = 2) -> dict[str, int | str]:
        """Orders by status."""
        return {"status": status, "limit": limit}

    @resource("shop://asks")
    async def asks(self, ctx: Context) -> str:
        """Asks before it is read."""
        given = await ctx.ask("Your name?", Name, key="name")
        return f"For {given.value['name']}." if given.accepted else given.action

    @resource("shop://fails")
    async def fails(self) -> str:
        """Says why it fails."""
        raise ToolFailed("the shop is shut")

    @resource("shop://crashes")
    async def crashes(self) -> str:
        """Fails with an exception."""
        raise RuntimeError("a secret detail")

    @resource("shop://secret", level=9)
    async def secret(self) -> str:
        """Needs a person."""
        return "secret"

    @prompt(title="Write a letter", icons=[Icon(src="data:image/png;base64,AA==")])
    async def letter(
        self, number: Annotated[int, "The order"], tone: Literal["kind", "stern"] = "kind", urgent: bool = False
    ) -> list[Message]:
        """Drafts a letter for one order."""
        link = ResourceLink(uri=f"shop://orders/{number}", name="order")
        return [
            Message.user(link),
            Message.assistant("Which tone?"),
            Message.user(f"{tone}, {'now' if urgent else 'soon'}"),
        ]

    @letter.complete("number")
    async def letter_numbers(self) -> list[str]:
        return ["17", "18", "203"]

    @prompt
    async def picture(self, ctx: Context) -> Image:
        """A picture only."""
        ctx.log("writing")
        return Image(b"\x89PNG")

    @prompt
    async def asking(self, ctx: Context) -> str:
        """Asks before it is written."""
        given = await ctx.ask("Your name?", Name, key="name")
        return f"For {given.value['name']}." if given.accepted else given.action

    @prompt
    async def failing(self) -> str:
        """Fails."""
        raise ToolFailed("no letter today")

    @tool(effect="writes")
    async def touch(self, ctx: Context, uri: str) -> str:
        """Tell that a resource has changed."""
        ctx.changed(uri)
        return "told"


class Fleeting(Toolkit):
    """What is there only while it is toggled on."""

    @resource("fleeting://here")
    async def here(self) -> str:
        """Here for now."""
        return "here"

    @prompt
    async def now(self) -> str:
        """Here for now."""
        return "now"


class Changes(Toolkit, name="changes"):
    """What changes the lists."""

    def __init__(self, hall: Toolhall) -> None:
        self._hall = hall

    @tool(effect="writes")
    async def toggle(self) -> str:
        """Add a resource and a prompt, or remove them if they are there."""
        removed = [self._hall.remove(f"Fleeting.{name}@0.1.0") for name in ("here", "now")]
        if not any(removed):
            self._hall.add(Fleeting)
        return "toggled"


hall = Toolhall(Shop, config=Config(page_size=PAGE_SIZE))
hall.add(Changes(hall))
