from docs_src.from_fastmcp import Shop
from toolhall import Message
from toolhall.testing import Client


async def test_an_order_is_paid() -> None:
    shop = Shop()
    async with Client(shop) as client:
        assert await client.call(shop.pay, number=17) == "order 17 is paid"
        assert await client.read(shop.order, number=17) == {"number": 17, "what": "tea", "paid": True}
        assert await client.prompt(shop.refund, number=17) == [Message.user("Write a kind refund letter for order 17.")]
        assert client.changes == ["shop://orders/17"]
