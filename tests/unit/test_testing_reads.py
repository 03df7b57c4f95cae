"""The client for tests reads resources, gets prompts and completes their arguments."""

import datetime
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pytest

from toolhall import Context, Message, Resource, Text, Toolkit, prompt, resource, tool
from toolhall.model.errors import BadArguments, NotFound
from toolhall.model.messages import LogEvent
from toolhall.testing import Client


class Order(msgspec.Struct):
    number: int
    day: datetime.date


DAY = datetime.date(2026, 12, 1)


class Shop(Toolkit, version="1.2.0"):
    @resource("shop://policy", mime_type="application/json")
    def policy(self) -> str:
        return '{"days": 14}'

    @resource("shop://logo", mime_type="image/png")
    async def logo(self) -> bytes:
        return b"\x89PNG"

    @resource("shop://orders/{number}")
    async def order(self, ctx: Context, number: int) -> Order | None:
        ctx.log(f"order {number}")
        return Order(number, DAY) if number < 100 else None

    @order.complete("number")
    async def numbers(self) -> list[str]:
        return ["17", "18", "2"]

    @resource("shop://orders/{status}/all{?day,tags}")
    def orders(self, status: str = "open", day: datetime.date = DAY, tags: str = "") -> list[Order]:
        return [Order(len(status + tags), day)]

    @resource("shop://files{/path*}", listed=False)
    def files(self, path: list[str]) -> list[Resource]:
        return [Resource(uri=f"shop://files/{name}", content=name) for name in path]

    @resource("shop://anything/{kind}")
    def anything(self, kind: str) -> Any:
        return {"kind": kind} if kind == "json" else kind

    @prompt
    async def refund(self, number: int, day: datetime.date, tone: Literal["firm", "kind"] = "kind") -> list[Message]:
        return [Message.user(f"A {tone} letter about {number} of {day}"), Message.assistant("Dear customer,")]

    @refund.complete("number")
    def refundable(self, typed: str, given: Mapping[str, str]) -> list[str]:
        return [typed, *(f"{name}={value}" for name, value in given.items())]

    @tool(effect="writes")
    def sell(self, ctx: Context) -> None:
        ctx.changed("shop://orders/17")


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_client_read_of_a_uri_gives_text_bytes_or_resources(shop: Shop) -> None:
    async with Client(shop) as client:
        assert await client.read("shop://policy") == '{"days": 14}'
        assert await client.read("shop://logo") == b"\x89PNG"
        assert await client.read("shop://files/a/b") == [
            Resource(uri="shop://files/a", content="a"),
            Resource(uri="shop://files/b", content="b"),
        ]


async def test_client_read_of_a_function_gives_what_it_returns(shop: Shop) -> None:
    async with Client(shop) as client:
        assert await client.read(shop.policy) == '{"days": 14}'
        assert await client.read(shop.logo) == b"\x89PNG"
        assert await client.read(shop.order, 17) == Order(17, DAY)
        assert await client.read(shop.files, path=["a"]) == [Resource(uri="shop://files/a", content="a")]
        assert await client.read(shop.anything, kind="json") == {"kind": "json"}
        assert await client.read(shop.anything, kind="text") == "text"


async def test_client_read_of_a_function_fills_the_path_and_leaves_the_query_out(shop: Shop) -> None:
    async with Client(shop) as client:
        assert await client.read(shop.orders) == [Order(4, DAY)]
        assert await client.read(shop.orders, "a/b c", datetime.date(2027, 1, 2), "x&y") == [
            Order(8, datetime.date(2027, 1, 2))
        ]


async def test_client_read_of_what_is_not_there_raises_not_found(shop: Shop) -> None:
    async with Client(shop) as client:
        with pytest.raises(NotFound, match="unknown resource: shop://orders/100"):
            await client.read(shop.order, number=100)
        with pytest.raises(NotFound, match="unknown resource: shop://nothing"):
            await client.read("shop://nothing")


async def test_client_prompt_by_name_and_by_function_gives_messages(shop: Shop) -> None:
    async with Client(shop) as client:
        said = await client.prompt(shop.refund, number=17, day=DAY)
        assert said == [
            Message.user("A kind letter about 17 of 2026-12-01"),
            Message("assistant", Text("Dear customer,")),
        ]
        assert await client.prompt("Shop_refund", number="17", day=DAY) == said
        with pytest.raises(BadArguments, match="/day"):
            await client.prompt("Shop_refund", number=17)
        with pytest.raises(NotFound, match="unknown prompt: Shop_sell"):
            await client.prompt("Shop_sell")


async def test_client_complete_takes_a_function_a_name_or_a_template(shop: Shop) -> None:
    async with Client(shop) as client:
        assert await client.complete(shop.order, "number", "1") == ["17", "18"]
        assert await client.complete("shop://orders/{number}", "number") == ["17", "18", "2"]
        assert await client.complete("Shop_refund", "tone", "k") == ["kind"]
        assert await client.complete(shop.refund, "number", "9", day=DAY) == ["9", "day=2026-12-01"]
        with pytest.raises(BadArguments, match="this prompt has no argument of this name"):
            await client.complete(shop.refund, "colour")
        with pytest.raises(NotFound, match="unknown prompt: nothing"):
            await client.complete("nothing", "tone")


async def test_client_lists_resources_templates_and_prompts(shop: Shop) -> None:
    async with Client(shop) as client:
        assert [each.name for each in await client.resources()] == ["Shop_policy", "Shop_logo"]
        uris = [each.resource.uri for each in await client.templates() if each.resource]
        assert uris == ["shop://orders/{number}", "shop://orders/{status}/all{?day,tags}", "shop://anything/{kind}"]
        assert [each.name for each in await client.prompts()] == ["Shop_refund"]
        assert [each.name for each in await client.list_tools()] == ["Shop_sell"]


async def test_client_collects_events_and_changes(shop: Shop) -> None:
    async with Client(shop) as client:
        await client.read(shop.order, number=1)
        await client.call(shop.sell)
        client.hall.changed("shop://policy")
        assert client.events == [LogEvent("info", "order 1", "Shop_order")]
        assert client.changes == ["shop://orders/17", "shop://policy"]


async def test_client_method_for_another_kind_raises_type_error(shop: Shop) -> None:
    loose: Any = shop
    async with Client(shop) as client:
        with pytest.raises(TypeError, match=r"Shop\.order@1\.2\.0 is a resource: use client\.read\(\.\.\.\)"):
            await client.call(loose.order, number=1)
        with pytest.raises(TypeError, match=r"Shop\.refund@1\.2\.0 is a prompt: use client\.prompt\(\.\.\.\)"):
            await client.read(loose.refund, number=1)
        with pytest.raises(TypeError, match=r"Shop\.sell@1\.2\.0 is a tool: use client\.call\(\.\.\.\)"):
            await client.prompt(loose.sell)


async def test_client_supplies_what_a_resource_requires() -> None:
    @resource("vault://balance", secrets=["BANK_KEY"])
    def balance(ctx: Context) -> str:
        return f"{len(ctx.secret('BANK_KEY'))}"

    async with Client(balance, supplies={"BANK_KEY": "hunter2"}) as client:
        assert await client.read(balance) == await client.read("vault://balance") == "7"
