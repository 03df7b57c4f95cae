"""Calls that are right, and the types of what comes back; both type checkers must agree with every line."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

from toolhall import Context, Given, Image, Reply, Text, Toolkit, tool
from toolhall.testing import Client


@dataclass
class Forecast:
    city: str
    degrees: float


@tool
def plain(city: str, days: int = 3) -> Forecast:
    return Forecast(city, days)


@tool(effect="reads", level=2, tags=["weather"])
async def later(city: str, *, days: int = 3) -> list[Forecast]:
    return [Forecast(city, days)]


@tool
async def connected(ctx: Context, city: str, days: int = 3) -> dict[str, Forecast]:
    ctx.progress(1, 2)
    return {city: Forecast(city, days)}


@tool()
def connected_in_a_thread(ctx: Context, city: str) -> Image | Text:
    ctx.log(city)
    return Text(city)


@tool
async def nothing() -> None: ...


@tool(returns=Forecast)
def everything() -> Reply:
    return Reply((Text("mild"),), Forecast("Oslo", 12))


@tool(input={"type": "object"})
async def raw(**arguments: Any) -> int:
    return len(arguments)


class Calendar(Toolkit, version="1.2.0", level=5, tags=("time",)):
    @tool(effect="writes")
    async def create(self, ctx: Context, title: str, minutes: int = 30) -> Forecast:
        return Forecast(title, minutes)

    @tool
    def count(self, title: str) -> int:
        return len(title)


async def calls(client: Client, calendar: Calendar) -> None:
    assert_type(await client.call(plain, "Oslo"), Forecast)
    assert_type(await client.call(plain, city="Oslo", days=1), Forecast)
    assert_type(await client.call(later, "Oslo", days=1), list[Forecast])
    assert_type(await client.call(connected, "Oslo", 1), dict[str, Forecast])
    assert_type(await client.call(connected, city="Oslo"), dict[str, Forecast])
    assert_type(await client.call(connected_in_a_thread, city="Oslo"), Image | Text)
    assert_type(await client.call(nothing), None)
    assert_type(await client.call(everything), Reply)
    assert_type(await client.call(raw, anything=1, goes="here"), int)
    assert_type(await client.call(calendar.create, "Lunch", minutes=60), Forecast)
    assert_type(await client.call(calendar.create, title="Lunch"), Forecast)
    assert_type(await client.call(calendar.count, title="Lunch"), int)


def functions_stay_functions(calendar: Calendar) -> None:
    assert_type(plain("Oslo", days=1), Forecast)
    ordinary: Callable[[str, int], Forecast] = plain
    waiting: Coroutine[Any, Any, dict[str, Forecast]] = connected(Context(), "Oslo")
    waiting.close()
    assert_type(calendar.count("Lunch"), int)
    assert_type(ordinary("Oslo", 1), Forecast)


async def contexts(ctx: Context) -> None:
    assert_type(await ctx.ask("Which?", Forecast), Given[Forecast])
    assert_type((await ctx.ask("Which?", Forecast)).value, Forecast)
    assert_type((await ctx.ask("Which?", {"type": "object"})).value, dict[str, Any])
    assert_type(await ctx.visit("Please", "https://example.org", key="k"), bool)
    assert_type(ctx.can("roots"), bool)
