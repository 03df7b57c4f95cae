"""Resources and prompts in dialects that know only tools: told by the hub, called by none, tools by a setting."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.asgi_client import send, send_json
from tests.harness.dialect_clients import DIALECT_CLIENTS, Call
from tests.harness.http_client import Response
from toolhall import Config, Toolhall, Toolkit, prompt, resource, tool
from toolhall.dialects.catalogs import DIALECTS
from toolhall.registry.registry import Conflict


class Shop(Toolkit, version="1.2.0", level=1):
    """Orders."""

    @tool
    async def sell(self) -> str:
        """Sell."""
        return "sold"

    @resource("shop://policy", mime_type="text/markdown")
    async def policy(self) -> str:
        """Rules."""
        return "# Rules"

    @resource("shop://secret", listed=False)
    async def secret(self) -> str:
        """Not listed."""
        return "secret"

    @resource("shop://orders/{number}{?detail,tags}")
    async def order(self, number: int, detail: bool = False, tags: str | None = None) -> dict[str, Any] | None:
        """One order."""
        return {"number": number, "detail": detail, "tags": tags} if number < 100 else None

    @resource("shop://orders/7")
    async def seventh(self) -> str:
        """The seventh order is special."""
        return "seven"

    @resource("shop://pictures/{name}", mime_type="image/png")
    async def picture(self, name: str) -> bytes:
        """A picture."""
        return name.encode()

    @prompt
    async def letter(self) -> str:
        """Write a letter."""
        return "Dear"


class Local:
    """A hall, for dialect clients on this machine."""

    def __init__(self, hall: Toolhall) -> None:
        self._hall = hall

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Response:
        usual = {"content-type": "application/json", "content-length": str(len(body))}
        return await send(self._hall, "POST", path, body, usual | headers)


@pytest.fixture
def plain() -> Iterator[Toolhall]:
    """Resources are no tools."""
    with Toolhall(Shop) as hall:
        yield hall


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    """Resources are tools, too."""
    with Toolhall(Shop, config=Config(resources_as_tools=True)) as hall:
        yield hall


def names(text: str) -> set[str]:
    """Which of the toolkit's things a text names."""
    return {each for each in ("sell", "policy", "secret", "order", "seventh", "picture", "letter") if each in text}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_no_dialect_lists_resources_or_prompts_as_tools(plain: Toolhall, dialect: str) -> None:
    _, body = await send_json(plain, f"/tools?dialect={dialect}")
    assert names(str(body)) == {"sell"}


async def test_lists_of_dialects_hold_only_tools(plain: Toolhall) -> None:
    for path in ("/oxp/tools", "/machine/tools"):
        assert names(str(await send_json(plain, path))) == {"sell"}, path


@pytest.mark.parametrize("make", DIALECT_CLIENTS)
@pytest.mark.parametrize("name", ["policy", "order", "letter"])
@pytest.mark.parametrize("as_tools", [False, True])
async def test_call_of_resource_or_prompt_is_answered_like_an_unknown_tool(
    make: Any, name: str, *, as_tools: bool
) -> None:
    if as_tools and name == "order":
        return  # it is a tool then
    with Toolhall(Shop, config=Config(resources_as_tools=as_tools)) as hall:
        way, place = make(), Local(hall)
        for version in (None, "1.2.0"):
            said = [
                way.read(await way.send(place, Call(None, "Shop", each, {}, version)), "text")
                for each in (name, "unknown")
            ]
            assert said[0].word == said[1].word, said
            assert str(said[0].what).replace(name, "unknown") == said[1].what


async def test_hub_tells_resources_of_the_toolkit(plain: Toolhall) -> None:
    asked = {"type": "request", "id": "1", "method": "get_tool", "params": {"name": "Shop"}}
    _, reply = await send_json(plain, "/hub", "POST", asked)
    capabilities = reply["result"]["tool"]["capabilities"]
    assert [each["name"] for each in capabilities["methods"]] == ["sell"]
    assert capabilities["resources"] == [
        {"name": "shop://policy", "type": "text/markdown", "description": "Rules."},
        {"name": "shop://orders/{number}{?detail,tags}", "type": "application/json", "description": "One order."},
        {"name": "shop://orders/7", "type": "text/plain", "description": "The seventh order is special."},
        {"name": "shop://pictures/{name}", "type": "image/png", "description": "A picture."},
    ]


async def test_hub_declaration_keeps_its_resources_as_told(plain: Toolhall) -> None:
    told = [{"name": "file:///tmp/x", "type": "string", "description": "X."}]
    declared = {"name": "Far", "version": "1.0.0", "capabilities": {"methods": ["look"], "resources": told}}
    asked = {"type": "request", "id": "1", "method": "register_tool", "params": declared}
    assert (await send_json(plain, "/hub", "POST", asked))[1]["error"] is None
    record = plain.registration.find("Far.look")
    await plain.registration.activate(record.id, "ada", record.document_digest)
    _, listed = await send_json(plain, "/hub", "POST", {**asked, "method": "list_tools", "params": {}})
    (far,) = [each["tool"] for each in listed["result"]["tools"] if each["tool"]["name"] == "Far"]
    assert far["capabilities"]["resources"] == told
    assert "file:///tmp/x" not in str(await send_json(plain, "/resources"))
    assert (await send_json(plain, "/resources/read?uri=file:///tmp/x"))[0] == 404


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_setting_lists_templates_and_two_tools_in_every_dialect(hall: Toolhall, dialect: str) -> None:
    _, body = await send_json(hall, f"/tools?dialect={dialect}")
    told = str(body["tools"])
    assert names(told) == {"sell", "order", "picture"}, told
    assert "Resources" in told
    assert "number" in told


async def value(hall: Toolhall, name: str, arguments: Any) -> Any:
    status, body = await send_json(hall, f"/tools/{name}", "POST", arguments)
    return body if status == 200 else (status, body["error"]["message"])


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("Resources/read", {"uri": "shop://policy"}, "# Rules"),
        ("Resources/read", {"uri": "shop://secret"}, "secret"),
        ("Resources/read", {"uri": "shop://orders/7"}, "seven"),
        ("Resources/read", {"uri": "shop://orders/8"}, {"number": 8, "detail": False, "tags": None}),
        ("Resources/read", {"uri": "shop://none"}, (409, "unknown resource: shop://none")),
        ("Shop/order", {"number": 8}, {"number": 8, "detail": False, "tags": None}),
        ("Shop/order", {"number": 8, "detail": True, "tags": "a&b"}, {"number": 8, "detail": True, "tags": "a&b"}),
        ("Shop/order", {"number": 8, "tags": None}, {"number": 8, "detail": False, "tags": None}),
        ("Shop/order", {"number": 800}, (409, "unknown resource: shop://orders/800")),
        ("Shop/picture", {"name": "a/b?c"}, "data:image/png;base64,YS9iP2M="),
    ],
)
async def test_call_reads_the_resource(hall: Toolhall, name: str, arguments: Any, wanted: Any) -> None:
    assert await value(hall, name, arguments) == wanted


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("Resources/read", {}, "/uri"),
        ("Resources/read", {"uri": 1}, "/uri"),
        ("Resources/read", {"uri": ""}, "/uri"),
        ("Resources/list", {"page": 1}, "page"),
        ("Shop/order", {}, "/number"),
        ("Shop/order", {"number": "8"}, "/number"),
        ("Shop/order", {"number": 8, "more": 1}, "more"),
        ("Shop/order", {"number": 7}, "no URI of this template"),  # this URI is another resource's
        ("Shop/order", {"number": 8.0}, "no URI of this template"),
        ("Shop/picture", {"name": "x" * 9_000}, "no URI of this template"),
        ("Shop/picture", {"name": "x" * 70_000}, "no URI is longer"),
    ],
)
async def test_call_with_wrong_arguments_names_them(hall: Toolhall, name: str, arguments: Any, said: str) -> None:
    status, message = await value(hall, name, arguments)
    assert (status, said in message) == (422, True), message


async def test_list_tool_lists_what_the_caller_may_read() -> None:
    with Toolhall(Shop, config=Config(resources_as_tools=True, page_size=2)) as hall:
        first = await value(hall, "Resources/list", {})
        assert first["resources"] == [
            {"name": "Shop_policy", "uri": "shop://policy", "description": "Rules.", "mimeType": "text/markdown"},
            {
                "name": "Shop_order",
                "uriTemplate": "shop://orders/{number}{?detail,tags}",
                "tool": "Shop_order",
                "description": "One order.",
                "mimeType": "application/json",
            },
        ]
        rest = await value(hall, "Resources/list", {"cursor": first["nextCursor"]})
        assert [each["name"] for each in rest["resources"]] == ["Shop_seventh", "Shop_picture"]
        assert "nextCursor" not in rest


@pytest.mark.parametrize("make", DIALECT_CLIENTS)
async def test_templates_are_called_in_every_dialect(hall: Toolhall, make: Any) -> None:
    reply = await make().send(Local(hall), Call(None, "Shop", "picture", {"name": "a"}))
    assert reply.status == 200
    assert b"YQ==" in reply.body


async def test_template_is_one_record_of_the_resource(hall: Toolhall) -> None:
    await value(hall, "Shop/order", {"number": 8})
    await value(hall, "Resources/read", {"uri": "shop://policy"})
    records: Any = hall.journal
    assert [(each.tool, each.outcome) for each in records.records] == [
        ("Shop.order@1.2.0", "ok"),
        ("Shop.policy@1.2.0", "ok"),
    ]


def test_template_and_tool_of_one_published_name_conflict() -> None:
    @tool(name="Shop_order")
    async def other() -> str:
        """Another tool."""
        return ""

    with pytest.raises(Conflict, match="Shop"):
        Toolhall(Shop, other)


async def test_management_lists_every_kind(plain: Toolhall) -> None:
    _, everything = await send_json(plain, "/api/tools")
    assert everything["facets"]["kind"] == {"resource": 5, "tool": 1, "prompt": 1}
    for kind, wanted in (("tool", ["Shop.sell@1.2.0"]), ("prompt", ["Shop.letter@1.2.0"])):
        _, body = await send_json(plain, f"/api/tools?kind={kind}")
        assert [(each["id"], each["kind"]) for each in body["tools"]] == [(wanted[0], kind)]
        status, detail = await send_json(plain, f"/api/tools/{wanted[0]}")
        assert (status, detail["kind"]) == (200, kind)
    status, body = await send_json(plain, "/api/tools/Shop.order")
    assert (status, body["kind"], body["served"]) == (200, "resource", True)
    status, body = await send_json(plain, "/api/tools?kind=page")
    assert (status, "use one of tool, resource, prompt" in body["error"]["message"]) == (400, True)
