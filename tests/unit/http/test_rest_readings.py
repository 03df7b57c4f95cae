"""`/resources`, `/resources/read`, `/prompts` and `/complete`: the REST forms of what MCP reads."""

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from tests.harness.asgi_client import FORWARDED, AsgiRequest, send, send_json
from tests.harness.patience import patience
from toolhall import Config, Context, Image, Message, Resource, ToolFailed, Toolhall, Toolkit, prompt, resource
from toolhall.stores.audit.journal import MemoryJournal


class Shop(Toolkit, version="1.2.0", level=0):
    """Orders and letters."""

    @resource("shop://policy", mime_type="text/markdown", fresh=300, shared=True, title="Rules")
    async def policy(self) -> str:
        """Our rules for refunds."""
        return "# Rules — all of them"

    @resource("shop://mine", fresh=60)
    async def mine(self) -> str:
        """What is only mine."""
        return "mine"

    @resource("shop://linked", listed=False)
    async def linked(self) -> str:
        """Only linked to."""
        return "linked"

    @resource("shop://picture", mime_type="image/png")
    async def picture(self) -> bytes:
        """A picture."""
        return b"\x89PNG\x00"

    @resource("shop://empty")
    async def empty(self) -> str:
        """Nothing."""
        return ""

    @resource("shop://several")
    async def several(self) -> list[Resource]:
        """Two contents."""
        return [Resource(uri="shop://a", content="a"), Resource(uri="shop://b", content=b"b", mime_type="image/png")]

    @resource("shop://orders/{number}")
    async def order(self, number: int) -> dict[str, Any] | None:
        """One order."""
        return {"number": number} if number < 100 else None

    @order.complete("number")
    async def numbers(self) -> list[str]:
        return ["17", "170", "18"]

    @resource("shop://closed")
    async def closed(self) -> str:
        """It is closed."""
        raise ToolFailed("the shop is closed", retry_after=5)

    @resource("shop://broken")
    async def broken(self) -> str:
        """It is broken."""
        raise ValueError("secret")

    @resource("shop://ask")
    async def ask(self, ctx: Context) -> str:
        """It asks."""
        return str(await ctx.ask("Really?", {"type": "object", "properties": {}}))

    @resource("shop://guarded", level=8, fresh=60)
    async def guarded(self) -> str:
        """A person has to agree."""
        return "guarded"

    @prompt(title="Write a letter")
    async def refund(self, number: int, tone: Literal["kind", "short"] = "kind") -> list[Message]:
        """Draft a letter."""
        return [Message.user(f"A {tone} letter about {number + 1}."), Message.assistant(Image(b"png"))]


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    with Toolhall(Shop) as hall:
        yield hall


async def read(hall: Toolhall, uri: str, method: str = "GET", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await send(hall, method, f"/resources/read?uri={uri}", headers=named)


async def test_resources_are_listed_in_pages() -> None:
    with Toolhall(Shop, config=Config(page_size=4)) as hall:
        _, first = await send_json(hall, "/resources")
        assert first["resources"][0] == {
            "uri": "shop://policy",
            "name": "Shop_policy",
            "title": "Rules",
            "description": "Our rules for refunds.",
            "mimeType": "text/markdown",
            "_meta": {"dev.toolhall/id": "Shop.policy@1.2.0", "dev.toolhall/level": 0},
        }
        uris, cursor = [each["uri"] for each in first["resources"]], first["nextCursor"]
        while cursor:
            _, page = await send_json(hall, f"/resources?cursor={cursor}")
            uris += [each["uri"] for each in page["resources"]]
            cursor = page.get("nextCursor")
        assert uris == [f"shop://{name}" for name in
            ("policy", "mine", "picture", "empty", "several", "closed", "broken", "ask", "guarded")]  # fmt: skip
        _, templates = await send_json(hall, "/resources?templates=true")
        assert [each["uriTemplate"] for each in templates["resourceTemplates"]] == ["shop://orders/{number}"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/resources?colour=red", 400, "use cursor, templates"),
        ("/resources?templates=yes", 400, "true, for URI templates"),
        ("/resources?cursor=!", 404, "nextCursor"),
        ("/prompts?templates=true", 400, "use cursor"),
        ("/prompts?cursor=!", 404, "nextCursor"),
        ("/resources/read", 400, "?uri="),
        ("/resources/read?uri=", 400, "?uri="),
        ("/resources/read?uri=shop://policy&version=1", 400, "use uri"),
        ("/resources/read?uri=a&uri=b", 400, "twice"),
        ("/resources/read?uri=shop://none", 404, "unknown resource: shop://none; GET /resources lists them"),
        ("/resources/read?uri=shop://orders/100", 404, "unknown resource: shop://orders/100; GET /resources"),
        ("/resources/read?uri=shop://orders/x", 404, "unknown resource: shop://orders/x; GET /resources"),
        ("/resources/read?uri=Shop.policy@1.2.0", 404, "unknown resource"),
        ("/resources/read?uri=shop://closed", 409, "the shop is closed"),
        ("/resources/read?uri=shop://ask", 400, "elicitation"),
        ("/resources/read?uri=shop://guarded", 403, "shop://guarded"),
    ],
)
async def test_bad_request_names_the_fix(hall: Toolhall, path: str, status: int, said: str) -> None:
    found, body = await send_json(hall, path)
    assert (found, said in body["error"]["message"]) == (status, said != "shop://guarded"), body
    if path.startswith("/resources/read"):
        reply = await send(hall, "GET", path)
        assert reply.headers.get("cache-control") == "no-store" or status == 400


async def test_crash_says_nothing(hall: Toolhall) -> None:
    status, body = await send_json(hall, "/resources/read?uri=shop://broken")
    assert (status, "secret" in str(body)) == (500, False)


@pytest.mark.parametrize(
    ("uri", "body", "content_type", "cache"),
    [
        ("shop://policy", "# Rules — all of them".encode(), "text/markdown; charset=utf-8", "private, max-age=300"),
        ("shop://mine", b"mine", "text/plain; charset=utf-8", "private, max-age=60"),
        ("shop://linked", b"linked", "text/plain; charset=utf-8", "private, no-cache"),
        ("shop://picture", b"\x89PNG\x00", "image/png", "private, no-cache"),
        ("shop://empty", b"", "text/plain; charset=utf-8", "private, no-cache"),
        ("shop://orders/17", b'{"number":17}', "application/json", "private, no-cache"),
    ],
)
async def test_body_is_the_content(hall: Toolhall, uri: str, body: bytes, content_type: str, cache: str) -> None:
    reply = await read(hall, uri)
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, body, content_type)
    assert reply.headers.get_list("content-type") == [content_type]
    assert (reply.headers["content-length"], reply.headers["cache-control"]) == (str(len(body)), cache)
    assert "toolhall-contents" not in reply.headers
    head = await read(hall, uri, "HEAD")
    assert (head.status, head.body, dict(head.headers)) == (200, b"", dict(reply.headers))


async def test_several_contents_are_json(hall: Toolhall) -> None:
    reply = await read(hall, "shop://several")
    assert (reply.headers["content-type"], reply.headers["toolhall-contents"]) == ("application/json", "2")
    assert reply.json == {
        "contents": [
            {"uri": "shop://a", "text": "a"},
            {"uri": "shop://b", "mimeType": "image/png", "blob": "Yg=="},
        ]
    }


async def test_etag_is_answered_by_304(hall: Toolhall) -> None:
    reply = await read(hall, "shop://policy")
    etag = reply.headers["etag"]
    for sent in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        kept = await read(hall, "shop://policy", if_none_match=sent)
        assert (kept.status, kept.body, kept.headers["etag"]) == (304, b"", etag)
        assert "content-type" not in kept.headers
    assert (await read(hall, "shop://policy", if_none_match='"x"')).status == 200
    assert (await read(hall, "shop://mine", if_none_match=etag)).status == 200
    assert (await read(hall, "shop://none", if_none_match="*")).status == 404


async def test_shared_resource_is_public_only_if_anybody_may_read_it() -> None:
    config = Config(profile="server", allow_anonymous=True)
    with Toolhall(Shop, config=config) as hall:
        await hall.open()
        reply = await read(hall, "shop://policy", **FORWARDED)
        assert reply.headers["cache-control"] == "public, max-age=300"
        assert (await read(hall, "shop://mine", **FORWARDED)).headers["cache-control"] == "private, max-age=60"
        hidden = await read(hall, "shop://guarded", **FORWARDED)
        assert (hidden.status, hidden.headers["cache-control"]) == (401, "no-store")


async def test_read_is_recorded_like_any_call(hall: Toolhall) -> None:
    await read(hall, "shop://policy")
    await read(hall, "shop://none")
    await send(hall, "GET", "/resources/read")
    await send_json(hall, "/prompts/Shop_refund", "POST", {"number": 1})
    assert isinstance(hall.journal, MemoryJournal)
    recorded = [(each.tool, each.dialect, each.outcome) for each in hall.journal.records]
    assert recorded == [
        ("Shop.policy@1.2.0", "openapi", "ok"),
        ("shop://none", "openapi", "NotFound"),
        ("", "openapi", "Malformed"),
        ("Shop.refund@1.2.0", "openapi", "ok"),
    ]


async def test_read_ends_when_its_client_leaves() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @resource("slow://thing")
    async def thing() -> str:
        """Never ends."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    with Toolhall(thing) as hall:
        asked = AsgiRequest(hall, "GET", "/resources/read?uri=slow://thing", b"", {"host": "localhost"}, None).start()
        async with asyncio.timeout(patience()):
            await started.wait()
            await asked.disconnect()
            await ended.wait()


async def test_prompts_are_listed_with_their_schema(hall: Toolhall) -> None:
    _, body = await send_json(hall, "/prompts")
    (listed,) = body["prompts"]
    assert (listed["name"], listed["title"]) == ("Shop_refund", "Write a letter")
    assert listed["arguments"] == [{"name": "number", "required": True}, {"name": "tone"}]
    assert listed["inputSchema"]["properties"]["number"] == {"type": "integer"}


@pytest.mark.parametrize("arguments", [{"number": 16}, {"number": "16"}, {"number": 16, "tone": "kind"}])
@pytest.mark.parametrize("name", ["Shop_refund", "Shop.refund", "Shop.refund@1.2.0", "Shop.refund@^1"])
async def test_prompt_takes_values_and_texts(hall: Toolhall, name: str, arguments: Any) -> None:
    status, body = await send_json(hall, f"/prompts/{name}", "POST", arguments)
    assert (status, body["description"]) == (200, "Draft a letter.")
    assert body["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "A kind letter about 17."}},
        {"role": "assistant", "content": {"type": "image", "data": "cG5n", "mimeType": "image/png"}},
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/prompts/Shop_refund", {}, 422, "/number"),
        ("/prompts/Shop_refund", {"number": 1, "tone": "rude"}, 422, "/tone"),
        ("/prompts/Shop_refund", [], 400, "must be an object"),
        ("/prompts/Shop_refund?version=1", {"number": 1}, 400, "send none"),
        ("/prompts/none", {}, 404, "unknown prompt: none; GET /prompts lists them"),
        ("/prompts/", {}, 404, "/prompts/NAME"),
        ("/prompts/a/b", {}, 404, "/prompts/NAME"),
        ("/complete", {"argument": "number"}, 400, "name one prompt or one resource"),
        ("/complete", {"prompt": "a", "resource": "b", "argument": "number"}, 400, "name one prompt or one resource"),
        ("/complete", {"prompt": "a", "argument": "x", "more": 1}, 400, "more"),
        ("/complete", {"prompt": "none", "argument": "number"}, 404, "unknown prompt: none"),
        ("/complete", {"resource": "shop://none", "argument": "number"}, 404, "unknown resource: shop://none"),
        ("/complete", {"prompt": "Shop_refund", "argument": "none"}, 422, "no argument of this name"),
    ],
)
async def test_bad_prompt_or_completion_names_the_fix(
    hall: Toolhall, path: str, body: Any, status: int, said: str
) -> None:
    found, reply = await send_json(hall, path, "POST", body)
    assert (found, said in reply["error"]["message"]) == (status, True), reply


@pytest.mark.parametrize(
    ("asked", "values"),
    [
        ({"resource": "shop://orders/{number}", "argument": "number", "typed": "17"}, ["17", "170"]),
        ({"resource": "shop://orders/{number}", "argument": "number"}, ["17", "170", "18"]),
        ({"prompt": "Shop_refund", "argument": "tone", "typed": "K", "given": {"number": "1"}}, ["kind"]),
        ({"prompt": "Shop_refund", "argument": "number"}, []),
    ],
)
async def test_completions(hall: Toolhall, asked: Any, values: list[str]) -> None:
    assert await send_json(hall, "/complete", "POST", asked) == (
        200,
        {"values": values, "total": len(values), "hasMore": False},
    )


async def test_tools_of_no_dialect_are_resources_or_prompts(hall: Toolhall) -> None:
    assert (await send_json(hall, "/tools"))[1]["tools"] == []
    for path, method in (("/resources", "POST"), ("/prompts", "POST"), ("/complete", "GET"), ("/prompts/a", "GET")):
        assert (await send(hall, method, path)).status == 405
