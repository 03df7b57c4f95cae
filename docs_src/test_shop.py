from docs_src.shop import Order, Shop
from toolhall import Message
from toolhall.testing import Client


async def test_a_paid_order_is_read() -> None:
    shop = Shop()
    async with Client(shop) as client:
        assert await client.read(shop.order, number=17) == Order(17, "tea")
        assert await client.read("shop://orders?status=paid") == '[{"number":18,"what":"cups","status":"paid"}]'
        await client.call(shop.pay, number=17)
        assert client.changes == ["shop://orders/17"]


async def test_a_letter_is_drafted() -> None:
    shop = Shop()
    async with Client(shop) as client:
        assert await client.complete(shop.refund, "number", "1", tone="kind") == ["18"]
        messages = await client.prompt(shop.refund, number=18)
        assert messages[-1] == Message.user("Write a kind letter about this refund.")
