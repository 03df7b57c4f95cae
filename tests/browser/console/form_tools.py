"""Tools whose arguments are of every shape, and one that asks, waits, or fails."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolhall import Context, ResourceLink, Text, ToolFailed, tool


class Popup(Struct, tag="popup", tag_field="kind"):
    """A reminder on the screen."""

    minutes: Annotated[int, Meta(ge=1)]


class Letter(Struct, tag="letter", tag_field="kind"):
    """A reminder by letter."""

    address: Annotated[str, Meta(min_length=3)]


class Place(Struct):
    """Where it is."""

    city: Annotated[str, Meta(min_length=2)]
    floor: int | None = None


class Folder(Struct):
    """A folder in folders."""

    name: Annotated[str, Meta(min_length=1)]
    folders: list["Folder"] = []


@dataclass
class Order:
    """What a person answers."""

    size: Literal["small", "large"]
    quantity: int = 1


@dataclass
class Row:
    """A row of a table."""

    number: int
    text: str


@tool(effect="writes", level=3)
def book(  # noqa: PLR0913, PLR0917 - each is a kind of field
    title: str,
    place: Place,
    guests: list[Annotated[str, Meta(pattern="^.+@.+$")]],
    reminder: Popup | Letter | None = None,
    labels: dict[str, int] | None = None,
    folder: Folder | None = None,
    note: str | None = "none",
) -> dict[str, str]:
    """Books a room."""
    return {"title": title, "place": repr(place), "guests": repr(guests), "note": repr(note), "labels": repr(labels)}


@tool(effect="reads", level=1)
def repeat(text: str, number: float = 0, flags: list[bool] | None = None) -> list[str]:
    """Says again what it was given."""
    return [text, repr(number), repr(flags)]


@tool(effect="writes", level=1)
async def order(ctx: Context, kind: str) -> str:
    """Orders something, after asking for its size."""
    ctx.progress(1, 2, "asking")
    reply = await ctx.ask(f"How do you want your {kind}?", Order, key="order")
    if not reply.accepted:
        raise ToolFailed("the order was not confirmed")
    return f"{reply.value.quantity} {reply.value.size} {kind}"


@tool(effect="reads", level=1)
async def wait(seconds: float = 600) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return "over"


@tool(effect="reads", level=1)
def rows() -> list[Row]:
    """Many rows."""
    return [Row(number, "<b>bold</b><script>alert(1)</script>") for number in range(3)]


@tool(effect="reads", level=1)
def links() -> list[Text | ResourceLink]:
    """Links, of which one is none."""
    return [
        Text("<img src=x onerror=alert(1)>"),
        ResourceLink(uri="https://example.org/a", name="good"),
        ResourceLink(uri="javascript:alert(1)", name="bad"),
    ]
