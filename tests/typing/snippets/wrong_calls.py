"""Calls that are wrong; both type checkers must find each marked line, and no other."""

from toolhall import Context, Message, Toolkit, prompt, resource, tool
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


@resource("weather://{city}/chart{?days}")
async def weather_chart(city: str, days: int = 3) -> bytes | None:
    return city.encode() * days


@prompt
def explain(city: str) -> str:
    return city


class Shop(Toolkit):
    @resource("shop://orders/{number}")
    async def order(self, ctx: Context, number: int) -> str:
        return "*" * number

    @order.complete(17)  # expect-error
    async def numbers(self, typed: str) -> list[str]:
        return [typed]

    @prompt(title="Refund")
    async def refund(self, ctx: Context, number: int) -> list[Message]:
        return [Message.user("*" * number)]


async def calls(client: Client, calendar: Calendar) -> None:
    await client.call(plain, city=3)  # expect-error
    await client.call(plain)  # expect-error
    await client.call(plain, "Oslo", "three")  # expect-error
    await client.call(plain, town="Oslo")  # expect-error
    await client.call(later, city=3)  # expect-error
    await client.call(later, "Oslo", 3)  # expect-error
    await client.call(connected, city=3)  # expect-error
    await client.call(connected)  # expect-error
    await client.task(connected, city=3)  # expect-error
    await client.call(calendar.create, title=3)  # expect-error
    await client.call(calendar.create)  # expect-error
    await client.call(calendar.count, title=3)  # expect-error
    await client.call("plain", city="Oslo")  # expect-error


async def reads(client: Client, shop: Shop) -> None:
    await client.read(weather_chart)  # expect-error
    await client.read(weather_chart, town="Oslo")  # expect-error
    await client.read(shop.order, number="17")  # expect-error
    await client.read(shop.order)  # expect-error
    await client.read("shop://orders/17", number=17)  # expect-error
    text: str = await client.read("shop://orders/17")  # expect-error
    number: int = await client.read(shop.order, number=17)  # expect-error
    del text, number


async def prompts(client: Client, shop: Shop) -> None:
    await client.prompt(explain, city=3)  # expect-error
    await client.prompt(explain)  # expect-error
    await client.prompt(shop.refund, number="17")  # expect-error
    await client.prompt(shop.refund, 17, "firm")  # expect-error
    await client.complete(shop.refund, 17)  # expect-error
    text: str = await client.prompt(shop.refund, number=17)  # expect-error
    del text


async def resources_and_prompts_stay_functions(shop: Shop) -> None:
    explain(3)  # expect-error
    await shop.order(Context(), number="17")  # expect-error
    await shop.refund(17)  # expect-error


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

    @resource("shop://policy", effect="reads")  # expect-error
    def effect_of_a_resource() -> str:
        return ""

    @resource  # expect-error
    def without_uri() -> str:
        return ""

    @prompt(mime_type="text/plain")  # expect-error
    def type_of_a_prompt() -> str:
        return ""

    del effect_of_a_resource, without_uri, type_of_a_prompt
    del wrong_effect, unknown_option, wrong_level


class Wrong(Toolkit, level="high"):  # expect-error
    pass


async def contexts(ctx: Context) -> None:
    ctx.log("hello", "loud")  # expect-error
    ctx.can("teleport")  # expect-error
    number: int = (await ctx.ask("Which?", {"type": "object"})).value  # expect-error
    del number
