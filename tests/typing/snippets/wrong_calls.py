"""Calls that are wrong; both type checkers must find each marked line, and no other."""

from toolhall import Context, Toolkit, tool
from toolhall.testing import Client


@tool
def plain(city: str, days: int = 3) -> str:
    return city * days


@tool
async def later(city: str, *, days: int = 3) -> list[str]:
    return [city] * days


@tool
async def connected(ctx: Context, city: str) -> str:
    return city


class Calendar(Toolkit):
    @tool
    async def create(self, ctx: Context, title: str) -> int:
        return len(title)

    @tool
    def count(self, title: str) -> int:
        return len(title)


async def calls(client: Client, calendar: Calendar) -> None:
    await client.call(plain, city=3)  # expect-error
    await client.call(plain)  # expect-error
    await client.call(plain, "Oslo", "three")  # expect-error
    await client.call(plain, town="Oslo")  # expect-error
    await client.call(later, city=3)  # expect-error
    await client.call(later, "Oslo", 3)  # expect-error
    await client.call(connected, city=3)  # expect-error
    await client.call(connected)  # expect-error
    await client.call(calendar.create, title=3)  # expect-error
    await client.call(calendar.create)  # expect-error
    await client.call(calendar.count, title=3)  # expect-error
    await client.call("plain", city="Oslo")  # expect-error


async def results(client: Client, calendar: Calendar) -> None:
    number: int = await client.call(plain, "Oslo")  # expect-error
    text: str = await client.call(later, "Oslo")  # expect-error
    other: list[str] = await client.call(connected, "Oslo")  # expect-error
    count: str = await client.call(calendar.count, "Lunch")  # expect-error
    del number, text, other, count


def functions_stay_functions() -> None:
    plain(3)  # expect-error
    number: int = plain("Oslo")  # expect-error
    connected("Oslo")  # expect-error
    del number


def options() -> None:
    @tool(effect="read")  # expect-error
    def wrong_effect() -> None: ...

    @tool(colour="red")  # expect-error
    def unknown_option() -> None: ...

    @tool(level="high")  # expect-error
    def wrong_level() -> None: ...

    del wrong_effect, unknown_option, wrong_level


class Wrong(Toolkit, level="high"):  # expect-error
    pass


async def contexts(ctx: Context) -> None:
    ctx.log("hello", "loud")  # expect-error
    ctx.can("teleport")  # expect-error
    number: int = (await ctx.ask("Which?", {"type": "object"})).value  # expect-error
    del number
