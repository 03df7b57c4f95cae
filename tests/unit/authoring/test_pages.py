"""Pages of MCP Apps: how they and the tools that show them are declared, and what clients get."""

from typing import Any

import pytest

from tests.harness.local_mcp import ask, listed
from toolhall import BadDeclaration, Csp, Resource, Toolhall, resource, tool
from toolhall.model.page import origin_problem

HTML = (
    "<!doctype html>\n<html lang='en'><title>\u200bOrders \u202e</title>\r\n<script>let a = '\\u0000'</script></html>"
)
CSP = Csp(connect=["https://api.example.com"], resources=["https://*.cdn.example"], frames=[], base_uris=())
STATED = {"csp": {"connectDomains": ["https://api.example.com"], "resourceDomains": ["https://*.cdn.example"]}}


@resource(
    "ui://shop/orders", csp=CSP, permissions=["camera", "clipboard_write"], prefers_border=False, domain="a.example"
)
async def orders_page() -> str:
    """Shows orders."""
    return HTML


@tool(page="ui://shop/orders", effect="reads")
async def orders() -> list[str]:
    """The orders."""
    return ["a"]


@tool(page="ui://shop/orders", page_only=True, effect="reads", meta={"com.example/a": 1})
async def more() -> str:
    """More orders, for the page."""
    return "more"


async def test_page_has_its_type_and_policy_in_the_list_and_in_what_is_read() -> None:
    ui = {
        **STATED, "permissions": {"camera": {}, "clipboardWrite": {}}, "domain": "a.example", "prefersBorder": False,
    }  # fmt: skip
    with Toolhall(orders_page) as hall:
        (page,) = await listed(hall, "resources/list", "resources")
        assert (page["mimeType"], page["_meta"]["ui"]) == ("text/html;profile=mcp-app", ui)
        (read,) = (await ask(hall, "resources/read", uri="ui://shop/orders"))["contents"]
        assert read == {
            "uri": "ui://shop/orders", "mimeType": "text/html;profile=mcp-app", "text": HTML, "_meta": {"ui": ui},
        }  # fmt: skip


async def test_tools_name_their_page_and_return_text_to_every_client() -> None:
    with Toolhall(orders_page, orders, more) as hall:
        tools = {each["name"]: each for each in await listed(hall, "tools/list", "tools")}
        assert tools["orders"]["_meta"]["ui"] == {"resourceUri": "ui://shop/orders"}
        assert tools["more"]["_meta"]["ui"] == {"resourceUri": "ui://shop/orders", "visibility": ["app"]}
        assert tools["more"]["_meta"]["com.example/a"] == 1
        called = await ask(hall, "tools/call", name="more", arguments={})
        assert called["content"] == [{"type": "text", "text": "more"}]


async def test_page_may_be_bytes_or_a_resource_with_words_of_its_own() -> None:
    @resource("ui://a/bytes")
    async def plain() -> bytes:
        """Bytes."""
        return b"<html>"

    @resource("ui://a/own", prefers_border=True)
    async def own() -> Resource:
        """A resource."""
        return Resource(uri="ui://a/own", content="<html>", meta={"com.example/a": 1})

    with Toolhall(plain, own) as hall:
        (read,) = (await ask(hall, "resources/read", uri="ui://a/bytes"))["contents"]
        assert read == {"uri": "ui://a/bytes", "mimeType": "text/html;profile=mcp-app", "blob": "PGh0bWw+"}
        (read,) = (await ask(hall, "resources/read", uri="ui://a/own"))["contents"]
        assert read["mimeType"] == "text/html;profile=mcp-app"
        assert read["_meta"] == {"ui": {"prefersBorder": True}, "com.example/a": 1}


def test_a_tool_whose_page_is_not_served_is_refused() -> None:
    with pytest.raises(BadDeclaration) as caught:
        Toolhall(orders)
    assert "test_pages.py" in str(caught.value)
    assert (
        "tool 'orders' has the page ui://shop/orders, and nothing serves that; add a function with @resource("
        in str(caught.value)
    )

    async def other() -> None:
        """Another tool."""

    with Toolhall(orders, orders_page) as hall:
        hall.add(more)
        with pytest.raises(BadDeclaration, match="ui://shop/other"):
            hall.add(tool(page="ui://shop/other")(other))


def test_a_page_may_be_one_of_a_template() -> None:
    @resource("ui://shop/{name}")
    async def page(name: str) -> str:
        """Any page."""
        return name

    with Toolhall(orders, page) as hall:
        assert hall.registry.snapshot.find("orders")


@pytest.mark.parametrize(
    ("uri", "options", "reason"),
    [
        ("ui://a", {"csp": "x"}, "csp is 'x'; use Csp(...)"),
        ("ui://a", {"csp": Csp(connect="https://a.example")}, "use a list such as"),  # type: ignore[arg-type]
        ("ui://a", {"csp": Csp(frames=["https://a.example"] * 65)}, "frames has 65 origins; 64 are enough"),
        ("ui://a", {"permissions": ["root"]}, "use a list of camera, microphone, geolocation, clipboard_write"),
        ("ui://a", {"permissions": "camera"}, "use a list of camera"),
        ("ui://a", {"prefers_border": 1}, "use True or False"),
        ("ui://a", {"domain": "a.example/x"}, "use a host"),
        ("ui://a", {"domain": "*.example"}, "use a host"),
        ("ui://a", {"mime_type": "text/html"}, "a page is text/html;profile=mcp-app; leave mime_type out"),
        ("ui://a", {"csp": Csp(), "meta": {"ui": {}}}, "meta has 'ui', which csp=... writes"),
        (
            "shop://a",
            {"csp": Csp()},
            "csp is for pages, and shop://a is none; give it a URI such as 'ui://shop/orders'",
        ),
        ("shop://a", {"domain": "a.example"}, "domain is for pages"),
    ],
)
def test_refuses_pages_with_the_reason(uri: str, options: dict[str, Any], reason: str) -> None:
    async def page() -> str:
        """A page."""
        return ""

    with pytest.raises(BadDeclaration) as caught:
        resource(uri, **options)(page)
    assert reason in str(caught.value)
    assert "test_pages.py" in str(caught.value)


def test_refuses_a_page_that_is_a_value() -> None:
    async def page() -> dict[str, str]:
        """A page."""
        return {}

    with pytest.raises(BadDeclaration, match="a page is an HTML document; return it as str"):
        resource("ui://a")(page)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"page": "https://a.example"}, "use the URI of a page, such as 'ui://shop/orders'"),
        ({"page": "ui://"}, "use the URI of a page"),
        ({"page": None}, "use the URI of a page"),
        ({"page_only": True}, "page_only is True without a page"),
        ({"page": "ui://a", "page_only": 1}, "use True or False"),
        ({"page": "ui://a", "meta": {"ui": {}}}, "meta has 'ui', which page=... writes"),
    ],
)
def test_refuses_tools_with_the_reason(options: dict[str, Any], reason: str) -> None:
    async def shown() -> str:
        """A tool."""
        return ""

    with pytest.raises(BadDeclaration) as caught:
        tool(**options)(shown)
    assert reason in str(caught.value)


@pytest.mark.parametrize("origin", [
    "https://a.example", "https://api.a-b.example:8443", "https://*.a.example", "wss://a.example", "HTTPS://A.Example",
    "http://localhost:3000", "ws://127.0.0.1:1",
])  # fmt: skip
def test_origins_are_taken(origin: str) -> None:
    assert origin_problem(origin) is None


@pytest.mark.parametrize("origin", [
    "", "*", "a.example", "http://a.example", "https://", "https://*", "https://a.example/", "https://a.example/x?y",
    "https://a.example; script-src *", "https://a.example https://b.example", "https://a.example,b", "'unsafe-inline'",
    "data:", "blob:", "javascript:alert(1)", "https://a.example\n", "https://a.example\nx", "https://user@a.example",
    "https://a..example", "https://-a.example", "https://a.example:0", "https://a.example:999999", "https://ä.example",
    "https://a.*.example", "https://[::1]", "https://a.example'", 'https://a.example"', "https://a.example\t", 7, None,
])  # fmt: skip
def test_what_could_change_a_policy_is_no_origin(origin: object) -> None:
    assert "is no origin; write https:// and a host" in str(origin_problem(origin))
