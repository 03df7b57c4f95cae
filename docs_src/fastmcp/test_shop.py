import json

from fastmcp import Client
from shop import mcp


async def test_an_order_is_paid() -> None:
    async with Client(mcp) as client:
        result = await client.call_tool("pay", {"number": 17})
        assert result.data == "order 17 is paid"
        (content,) = await client.read_resource("shop://orders/17")
        assert json.loads(content.text) == {"number": 17, "what": "tea", "paid": True}
        got = await client.get_prompt("refund", {"number": "17"})
        assert got.messages[0].content.text == "Write a kind refund letter for order 17."
