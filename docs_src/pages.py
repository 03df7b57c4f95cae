"""A tool whose results a client shows by a page."""

from toolhall import Csp, Toolkit, resource, tool

PAGE = """<!doctype html>
<html lang="en">
<title>Orders</title>
<ul id="orders"></ul>
<script type="module">
// The results come from the client by postMessage: see the App class of @modelcontextprotocol/ext-apps.
</script>
</html>
"""


class Shop(Toolkit, version="1.2.0", level=1):
    """Orders."""

    @resource("ui://shop/orders", csp=Csp(connect=["https://api.example.com"]), prefers_border=True)
    async def orders_page(self) -> str:
        """Shows orders as a list."""
        return PAGE

    @tool(effect="reads", page="ui://shop/orders")
    async def orders(self) -> list[str]:
        """Orders that are open."""
        return ["17", "18"]

    @tool(effect="writes", page="ui://shop/orders", page_only=True)
    async def mark_read(self, number: int) -> str:
        """Marks an order as read; the page calls it."""
        return f"{number} is read"
