"""`GET /tools`: any dialect's documents, searched and paged, with what the dialect cannot say."""

import pytest

from tests.harness.asgi_client import send_json
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.dialects.catalogs import ALIASES, DIALECTS
from toolhall.http.request import MAX_QUERY_PARAMETERS


class Shop(Toolkit, version="2.0.0", level=3, tags=["trade"]):
    """Sells things."""

    @tool(tags=["fast"])
    def sell(self, item: str, count: int = 1) -> str:
        """Sell an item."""
        return f"{count} {item}"

    @tool
    def burn(self) -> None:
        """Burn the shop."""


@tool
def greet(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_list_in_every_dialect(dialect: str) -> None:
    with Toolhall(Shop, greet) as hall:
        status, body = await send_json(hall, f"/tools?dialect={dialect}")
    assert status == 200
    assert body["dialect"] == ALIASES.get(dialect, dialect)
    assert body["tools"]
    assert all(set(loss) == {"tool", "path", "reason"} for loss in body["losses"])


@tool
def label(labels: dict[str, str]) -> int:
    """Count labels of any name."""
    return len(labels)


async def test_list_in_strict_dialect_names_refused_tools() -> None:
    with Toolhall(Shop, greet, label) as hall:
        _, body = await send_json(hall, "/tools?dialect=openai@strict")
    assert [each["function"]["name"] for each in body["tools"]] == ["Shop_sell", "Shop_burn", "greet"]
    (refused,) = body["refused"]
    assert refused["tool"] == "label"
    assert any("/inputSchema/properties/labels" in reason for reason in refused["reasons"])


async def test_strict_call_drops_nulls() -> None:
    """The dialect of the arguments is said in the query: without it, null is refused as it always was."""
    with Toolhall(Shop, greet) as hall:
        sent = {"item": "hat", "count": None}
        status, body = await send_json(hall, "/tools/Shop/sell?dialect=openai@strict", "POST", sent)
        assert (status, body) == (200, "1 hat")
        assert (await send_json(hall, "/tools/Shop/sell?dialect=openai@strict", "POST", {"item": "hat", "count": 3}))[
            1
        ] == "3 hat"
        assert (await send_json(hall, "/tools/Shop/sell?dialect=openai@strict", "POST", {"item": None}))[0] == 422
        assert (await send_json(hall, "/tools/Shop/sell", "POST", sent))[0] == 422
        status, body = await send_json(hall, "/tools/Shop/sell?dialect=gemini", "POST", sent)
        assert status == 400
        assert "openai@strict" in body["error"]["message"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["Shop_sell", "Shop_burn", "greet"]),
        ("query=SHOP+burn", ["Shop_burn", "Shop_sell"]),
        ("query=item", ["Shop_sell"]),
        ("toolkit=Shop", ["Shop_sell", "Shop_burn"]),
        ("toolkit=shop", []),
        ("tag=fast", ["Shop_sell"]),
        ("tool=Shop_burn", ["Shop_burn"]),
        ("tool=Shop.burn", ["Shop_burn"]),
        ("tool=Shop.burn@2.0.0", ["Shop_burn"]),
        ("tool=Shop.burn@1.0.0", []),
        ("tool=", []),
    ],
)
async def test_list_with_query_is_ranked(query: str, names: list[str]) -> None:
    with Toolhall(Shop, greet) as hall:
        status, body = await send_json(hall, f"/tools?{query}")
    assert (status, [each["name"] for each in body["tools"]]) == (200, names)


async def test_list_pages_hold_every_tool_once() -> None:
    names: list[str] = []
    with Toolhall(Shop, greet, config=Config(page_size=2)) as hall:
        _, body = await send_json(hall, "/tools?dialect=anthropic")
        names += [each["name"] for each in body["tools"]]
        _, body = await send_json(hall, f"/tools?dialect=anthropic&cursor={body['nextCursor']}")
        names += [each["name"] for each in body["tools"]]
    assert names == ["Shop_sell", "Shop_burn", "greet"]
    assert "nextCursor" not in body


@pytest.mark.parametrize(
    ("query", "status", "word"),
    [
        ("dialect=esperanto", 400, "use one of mcp"),
        ("colour=red", 400, "there is no parameter 'colour'"),
        ("tag=a&tag=b", 400, "twice"),
        ("&".join(f"a{number}=1" for number in range(MAX_QUERY_PARAMETERS + 1)), 400, "more than"),
        ("cursor=!", 404, "nextCursor"),
    ],
)
async def test_list_bad_parameter_names_fix(query: str, status: int, word: str) -> None:
    with Toolhall(greet) as hall:
        found, body = await send_json(hall, f"/tools?{query}")
    assert found == status
    assert word in body["error"]["message"]


async def test_wrong_method_names_allowed_methods() -> None:
    with Toolhall(greet) as hall:
        assert await send_json(hall, "/tools", "DELETE") == (
            405,
            {"error": {"code": "wrong_method", "message": "use GET"}},
        )
        status, body = await send_json(hall, "/mcp", "PUT")
        assert (status, body["error"]["message"]) == (405, "use POST or GET or DELETE")
