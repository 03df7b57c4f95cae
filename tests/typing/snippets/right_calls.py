"""Calls that are right, and the types of what comes back; both type checkers must agree with every line."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, assert_type

from toolhall import Context, Given, Image, Message, Reply, Resource, Text, Toolkit, prompt, resource, tool
from toolhall.model.content import Result
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


@resource("weather://today", mime_type="text/markdown", fresh=60, shared=True)
def today() -> str:
    return "mild"


@resource("weather://{city}/chart{?days}")
async def weather_chart(city: str, days: int = 3) -> bytes | None:
    return city.encode() * days


@weather_chart.complete("city")
async def cities(ctx: Context, typed: str) -> list[str]:
    return [typed]


@prompt
def explain(city: str, tone: Literal["kind", "firm"] = "kind") -> str:
    return f"{city}: {tone}"


class Shop(Toolkit, version="1.0.0"):
    @resource("shop://orders/{number}")
    async def order(self, ctx: Context, number: int) -> Forecast | None:
        return Forecast("Oslo", number)

    @order.complete("number")
    async def numbers(self, typed: str) -> list[str]:
        return [typed]

    @resource("shop://files/{name}")
    def files(self, name: str) -> list[Resource]:
        return [Resource(uri=name, content="")]

    @prompt(title="Refund")
    async def refund(self, ctx: Context, number: int, tone: str = "kind") -> list[Message]:
        return [Message.user(f"{number} {tone}")]

    @refund.complete("number")
    def refundable(self, ctx: Context, typed: str, given: dict[str, str]) -> list[str]:
        return [typed, *given]


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


async def long_calls(client: Client, calendar: Calendar) -> None:
    assert_type(await client.task("plain", {"city": "Oslo"}), Result)
    assert_type(await client.task(plain, "Oslo", days=1), Forecast)
    assert_type(await client.task(connected, city="Oslo"), dict[str, Forecast])
    assert_type(await client.task(nothing), None)
    assert_type(await client.task(calendar.create, "Lunch", minutes=60), Forecast)


async def reads(client: Client, shop: Shop) -> None:
    assert_type(await client.read("weather://today"), str | bytes | list[Resource])
    assert_type(await client.read(today), str)
    assert_type(await client.read(weather_chart, city="Oslo"), bytes)
    assert_type(await client.read(weather_chart, "Oslo", 5), bytes)
    assert_type(await client.read(shop.order, number=17), Forecast)
    assert_type(await client.read(shop.order, 17), Forecast)
    assert_type(await client.read(shop.files, name="a"), list[Resource])


async def prompts(client: Client, shop: Shop) -> None:
    assert_type(await client.prompt("explain", city="Oslo"), list[Message])
    assert_type(await client.prompt(explain, city="Oslo", tone="firm"), list[Message])
    assert_type(await client.prompt(shop.refund, number=17), list[Message])
    assert_type(await client.prompt(shop.refund, 17, "firm"), list[Message])
    assert_type(await client.complete(shop.refund, "number", "1", tone="kind"), list[str])
    assert_type(await client.complete("shop://orders/{number}", "number"), list[str])


async def resources_and_prompts_stay_functions(shop: Shop) -> None:
    assert_type(today(), str)
    assert_type(explain("Oslo"), str)
    assert_type(await weather_chart("Oslo", days=1), bytes | None)
    assert_type(await shop.order(Context(), 17), Forecast | None)
    assert_type(await shop.refund(Context(), number=17), list[Message])


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
