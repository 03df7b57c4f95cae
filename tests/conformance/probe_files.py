"""A folder of files, skills and a page, for the tests of the wire; the folder is PROBE_FOLDER's."""

import os
from pathlib import Path

from toolhall import Config, Csp, Folder, Skills, Toolhall, Toolkit, resource, tool

HERE = Path(__file__).parent
PAGE = "<!doctype html>\n<title>\u200bOrders</title>\r\n"


class Shop(Toolkit, version="1.2.0", level=1):
    """Orders and manuals."""

    manuals = Folder("shop://manuals/{+path}", os.environ["PROBE_FOLDER"], fresh=60)

    @resource("ui://shop/orders", csp=Csp(connect=["https://api.example.com"]), prefers_border=True)
    async def page(self) -> str:
        """Shows orders."""
        return PAGE

    @tool(page="ui://shop/orders", effect="reads")
    async def orders(self) -> list[str]:
        """The orders."""
        return ["one"]

    @tool(page="ui://shop/orders", page_only=True, effect="reads")
    async def more(self) -> str:
        """More orders, for the page."""
        return "two"


hall = Toolhall(Shop, Skills(HERE / "skills", prefix="acme", shared=True), config=Config(page_size=2))
