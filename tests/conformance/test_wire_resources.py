"""Resources, templates and subscriptions on the wire, in each revision and over each transport."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.conformance.conftest import StdioServers
from tests.conformance.serving import served, served_on_stdio
from tests.harness.http_client import Message
from tests.harness.mcp_client import (
    HttpMcpClient,
    McpClient,
    StdioMcpClient,
    http_mcp_client,
    shared_pipes,
    stateless_mcp_client,
    stdio_mcp_client,
)
from tests.harness.mcp_messages import JUNE, LEGACY, MODERN, NOVEMBER, REVISIONS, SUBSCRIPTION_KEY
from tests.harness.server_process import ServerProcess

PROBE = "probe_resources.py"
METHODS = (
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
)
ACCEPT: Message = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture(scope="module")
def shop() -> Iterator[ServerProcess]:
    """A server of probe_resources.py, for all tests of this file."""
    with served(PROBE) as server:
        yield server


@pytest.fixture(scope="module")
def shop_on_stdio() -> Iterator[StdioServers]:
    """Servers of probe_resources.py on standard input and output."""
    with served_on_stdio(PROBE) as legacy, served_on_stdio(PROBE) as modern:
        yield StdioServers(legacy, modern)


@pytest.fixture(
    params=[(transport, revision) for transport in ("http", "stdio") for revision in REVISIONS], ids="-".join
)
async def talk(
    request: pytest.FixtureRequest, shop: ServerProcess, shop_on_stdio: StdioServers
) -> AsyncIterator[McpClient]:
    """A conversation with the shop, in each revision and over each transport."""
    transport, revision = request.param
    if transport == "http":
        async with http_mcp_client(shop.origin, revision) as talk:
            yield talk
    else:
        async with shared_pipes(shop_on_stdio.for_revision(revision)) as line:
            yield await stdio_mcp_client(line, revision)


async def pages(talk: McpClient, method: str, member: str) -> list[Message]:
    """Every item of a list, over all pages."""
    found: list[Message] = []
    params: Message = {}
    while True:
        page = (await talk.ask(method, params)).result
        found.extend(page[member])
        if "nextCursor" not in page:
            return found
        assert len(page[member]) == 3, "the pages of this server hold three"
        params = {"cursor": page["nextCursor"]}


async def read(talk: McpClient, uri: str) -> Message:
    """The result of a read."""
    result: Message = (await talk.ask("resources/read", {"uri": uri})).result
    return result


async def error(talk: McpClient, method: str, params: Message) -> Message:
    """The error of a refused request."""
    found: Message = (await talk.ask(method, params)).message["error"]
    return found


@pytest.mark.requirement("RS-1", "PR-1", "CO-1", "SB-1", "SB-2")
async def test_capabilities_are_declared_where_something_is_served(talk: McpClient, shop: ServerProcess) -> None:
    if talk.modern:
        found = (await talk.ask("server/discover")).result["capabilities"]
    elif isinstance(talk, HttpMcpClient):
        async with http_mcp_client(shop.origin, talk.revision) as another:
            found = await another.start()
            found = found["capabilities"]
    else:
        return  # the handshake of the shared pipes is over
    assert found["resources"] == {"subscribe": True, "listChanged": True}
    assert found["prompts"] == {"listChanged": True}
    assert found["completions"] == {}


@pytest.mark.requirement("RS-1", "CO-1")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "method",
    [
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    ],
)
async def test_hall_without_resources_declares_none_and_has_no_such_method(
    probe: ServerProcess, revision: str, method: str
) -> None:
    async with http_mcp_client(probe.origin, revision) as talk:
        params = {"uri": "shop://policy"} if method == "resources/read" else {"name": "letter"}
        heard = await talk.ask(method, params)
        assert heard.message["error"]["code"] == -32601
        assert heard.status == (404 if talk.modern else 200)
    if revision == MODERN:
        async with stateless_mcp_client(probe.origin) as http:
            found = (await http.modern("server/discover")).result["capabilities"]
            assert not {"resources", "prompts", "completions"} & found.keys()


@pytest.mark.requirement("RS-3", "RS-4", "RS-12", "IC-1", "PG-1", "CA-1", "CA-2")
async def test_resources_list_has_every_listed_resource_and_no_template(talk: McpClient) -> None:
    listed = await pages(talk, "resources/list", "resources")
    uris = [each["uri"] for each in listed]
    assert uris == [
        "shop://policy",
        "shop://logo",
        "shop://both",
        "shop://asks",
        "shop://fails",
        "shop://crashes",
        "shop://secret",
    ], "in the order of registration, without what is not listed"
    policy = listed[0]
    assert (policy["name"], policy["title"], policy["size"]) == ("Shop_policy", "Policy", 9)
    assert policy["annotations"] == {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
    assert policy["_meta"]["com.example/kind"] == "rules"
    assert ("icons" in policy) == (talk.revision != JUNE)
    page = (await talk.ask("resources/list")).result
    assert ("ttlMs" in page, "cacheScope" in page) == (talk.modern, talk.modern)


@pytest.mark.requirement("PG-1")
@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list", "prompts/list"])
async def test_unknown_cursor_is_refused(talk: McpClient, method: str) -> None:
    assert (await error(talk, method, {"cursor": "nonsense"}))["code"] == -32602


@pytest.mark.requirement("RT-1")
async def test_templates_list_has_every_template(talk: McpClient) -> None:
    listed = await pages(talk, "resources/templates/list", "resourceTemplates")
    assert [each["uriTemplate"] for each in listed] == ["shop://orders/{number}", "shop://orders{?status,limit}"]
    assert [each["mimeType"] for each in listed] == ["application/json", "application/json"]
    assert not any("size" in each for each in listed)


@pytest.mark.requirement("RS-5")
async def test_read_returns_text_blobs_and_several_contents(talk: McpClient) -> None:
    assert (await read(talk, "shop://policy"))["contents"] == [
        {"uri": "shop://policy", "mimeType": "text/markdown", "text": "# Be kind"}
    ]
    (logo,) = (await read(talk, "shop://logo"))["contents"]
    assert base64.b64decode(logo["blob"]) == b"\x89PNG\x00\xff"
    assert logo["mimeType"] == "image/png"
    both = (await read(talk, "shop://both"))["contents"]
    assert [each["uri"] for each in both] == ["shop://both/1", "shop://both/2"]
    assert both[1]["_meta"] == {"com.example/part": 2}
    assert (await read(talk, "shop://hidden"))["contents"][0]["text"] == "hidden", "it is only not listed"


@pytest.mark.requirement("RT-6", "RT-7", "RT-9")
@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("shop://orders/17", '{"number":17}'),
        ("shop://orders", '{"status":"open","limit":2}'),
        ("shop://orders?limit=5", '{"status":"open","limit":5}'),
        ("shop://orders?limit=5&status=shut", '{"status":"shut","limit":5}'),
        ("shop://orders?status=shut&limit=5", '{"status":"shut","limit":5}'),
    ],
)
async def test_template_is_read_with_the_values_of_its_variables(talk: McpClient, uri: str, text: str) -> None:
    (content,) = (await read(talk, uri))["contents"]
    assert (content["uri"], content["text"]) == (uri, text)


@pytest.mark.requirement("RS-6", "RS-7", "RS-10")
@pytest.mark.parametrize(
    "uri",
    [
        "shop://nothing",
        "shop://orders/seventeen",
        "shop://orders/999",
        "shop://orders?status=unknown",
        "shop://orders?colour=red",
        "shop://orders?limit=1&limit=2",
        "shop://orders/1%00",
        "",
        "../etc/passwd",
        "file:///etc/passwd",
    ],
)
async def test_what_does_not_exist_is_not_found_with_its_uri(talk: McpClient, uri: str) -> None:
    found = await error(talk, "resources/read", {"uri": uri})
    assert found["code"] == (-32602 if talk.modern else -32002)
    assert found["data"] == {"uri": uri}
    assert found["message"] == f"unknown resource: {uri}"


@pytest.mark.requirement("RS-9")
async def test_read_whose_name_header_differs_is_refused(shop: ServerProcess) -> None:
    async with stateless_mcp_client(shop.origin) as http:
        for name in ("shop://logo", None):
            reply = await http.modern("resources/read", {"uri": "shop://policy"}, headers={"Mcp-Name": name})
            assert (reply.status, reply.answer["error"]["code"]) == (400, -32020)


@pytest.mark.requirement("CA-1", "CA-2", "CA-3", "RS-8")
async def test_read_says_how_long_it_may_be_kept_and_asks_in_rounds(talk: McpClient) -> None:
    policy = await read(talk, "shop://policy")
    heard = await talk.ask_in_rounds("resources/read", {"uri": "shop://asks"}, respond=lambda _: ACCEPT)
    assert heard.result["contents"][0]["text"] == "For Ada."
    assert len(heard.questions) == 1
    if talk.modern:
        assert (policy["ttlMs"], policy["cacheScope"]) == (300_000, "private"), (
            "it is shared, and not everybody may read it"
        )
        assert (heard.result["ttlMs"], heard.result["cacheScope"]) == (0, "private"), "it came after a question"
        first = (await talk.ask("resources/read", {"uri": "shop://asks"})).result
        assert first["resultType"] == "input_required"
        assert not {"ttlMs", "cacheScope", "contents"} & first.keys()
    else:
        assert not {"ttlMs", "cacheScope", "resultType"} & policy.keys()


@pytest.mark.requirement("RS-8")
@pytest.mark.parametrize("revision", LEGACY)
async def test_read_that_asks_a_client_without_questions_is_refused_in_older_revisions(
    shop: ServerProcess, revision: str
) -> None:
    async with http_mcp_client(shop.origin, revision, {}) as talk:
        heard = await talk.ask("resources/read", {"uri": "shop://asks"})
        assert (heard.status, heard.message["error"]["code"]) == (200, -32010), "-32021 exists since 2026-07-28"


@pytest.mark.requirement("RS-7")
async def test_failures_of_a_read_are_errors_without_details(talk: McpClient) -> None:
    failed = await error(talk, "resources/read", {"uri": "shop://fails"})
    assert (failed["code"], failed["message"]) == (-32603, "the shop is shut"), "the author's own words"
    crashed = await error(talk, "resources/read", {"uri": "shop://crashes"})
    assert crashed["code"] == -32603
    assert "secret detail" not in str(crashed)


@pytest.mark.requirement("RS-10")
@pytest.mark.parametrize("params", [{}, {"uri": 7}, {"uri": None}, {"uri": ["shop://policy"]}])
async def test_read_without_a_uri_is_invalid(talk: McpClient, params: Message) -> None:
    assert (await error(talk, "resources/read", params))["code"] == -32602


async def next_notice(talk: McpClient, stream: Any, asked: Message | None = None) -> Message:
    """The next notification."""
    if stream is not None:
        message: Message = await stream.message()
        talk.check(message, asked)
        return message
    assert isinstance(talk, StdioMcpClient)
    return await talk.read(asked)


async def touch(talk: McpClient, uri: str) -> list[Message]:
    """Tell that a resource has changed; what was told meanwhile on the same pipes."""
    heard = await talk.call("Shop_touch", {"uri": uri})
    return heard.notices


@pytest.mark.requirement("SB-1")
@pytest.mark.parametrize("revision", LEGACY)
async def test_subscriber_of_an_older_revision_is_told_of_changes_until_it_unsubscribes(
    shop: ServerProcess, revision: str
) -> None:
    async with http_mcp_client(shop.origin, revision) as talk:
        for uri in ("shop://policy", "shop://orders", "shop://policy"):
            assert (await talk.ask("resources/subscribe", {"uri": uri})).result == {}
        async with talk.http.open(None, talk.headers, "GET") as stream:
            await touch(talk, "shop://policy")
            told = await next_notice(talk, stream)
            assert told["method"] == "notifications/resources/updated"
            assert told["params"] == {"uri": "shop://policy"}
            await touch(talk, "shop://orders/17")
            assert (await next_notice(talk, stream))["params"] == {"uri": "shop://orders/17"}, (
                "below what was asked for"
            )
            assert (await talk.ask("resources/unsubscribe", {"uri": "shop://policy"})).result == {}
            await touch(talk, "shop://policy")
            await touch(talk, "shop://orders")
            assert (await next_notice(talk, stream))["params"] == {"uri": "shop://orders"}, "and not of the policy"


@pytest.mark.requirement("SB-1")
@pytest.mark.parametrize("revision", LEGACY)
async def test_subscription_to_what_does_not_exist_is_not_found(shop: ServerProcess, revision: str) -> None:
    async with http_mcp_client(shop.origin, revision) as talk:
        assert (await error(talk, "resources/subscribe", {"uri": "shop://nothing"}))["code"] == -32002
        assert (await talk.ask("resources/unsubscribe", {"uri": "shop://nothing"})).result == {}


@pytest.mark.requirement("SB-2")
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_newest_revision_has_no_subscribe(shop: ServerProcess, method: str) -> None:
    async with stateless_mcp_client(shop.origin) as http:
        reply = await http.modern(method, {"uri": "shop://policy"})
        assert (reply.status, reply.answer["error"]["code"]) == (404, -32601)


@pytest.mark.requirement("SB-2", "SB-3", "RS-13", "PR-7")
async def test_listener_of_the_newest_revision_hears_only_what_it_asked_for(shop: ServerProcess) -> None:
    wanted = {
        "resourceSubscriptions": ["shop://policy", "shop://nothing", "shop://policy"],
        "resourcesListChanged": True,
        "toolsListChanged": False,
    }
    async with http_mcp_client(shop.origin, MODERN) as talk:
        asked = talk.request("subscriptions/listen", {"notifications": wanted}, id="listener")
        async with talk.open(asked) as stream:
            acknowledged = await next_notice(talk, stream, asked)
            assert acknowledged["params"]["notifications"] == {
                "resourcesListChanged": True,
                "resourceSubscriptions": ["shop://policy"],
            }, "the subset that is honoured"
            for _ in range(2):
                await talk.call("changes_toggle")
                change = await next_notice(talk, stream, asked)
                assert change["method"] == "notifications/resources/list_changed"
                assert change["params"]["_meta"] == {SUBSCRIPTION_KEY: "listener"}
            await touch(talk, "shop://logo")
            await touch(talk, "shop://policy")
            told = await next_notice(talk, stream, asked)
            assert told["params"] == {"uri": "shop://policy", "_meta": {SUBSCRIPTION_KEY: "listener"}}


@pytest.mark.requirement("SB-2")
@pytest.mark.parametrize("value", [True, "shop://policy", [1], {"uri": "shop://policy"}])
async def test_filter_of_resources_that_is_no_list_of_uris_is_invalid(shop: ServerProcess, value: object) -> None:
    async with stateless_mcp_client(shop.origin) as http:
        reply = await http.modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": value}})
        assert reply.answer["error"]["code"] == -32602


@pytest.mark.requirement("RS-13", "PR-7")
@pytest.mark.parametrize("revision", LEGACY)
async def test_session_is_told_of_changed_lists_of_every_kind(shop: ServerProcess, revision: str) -> None:
    async with http_mcp_client(shop.origin, revision) as talk, talk.http.open(None, talk.headers, "GET") as stream:
        await talk.call("changes_toggle")
        told = {(await next_notice(talk, stream))["method"] for _ in range(2)}
        assert told == {"notifications/resources/list_changed", "notifications/prompts/list_changed"}
        await talk.call("changes_toggle")


@pytest.mark.requirement("RS-6", "EL-2")
async def test_read_that_needs_a_person_says_where_to_agree(talk: McpClient) -> None:
    heard = await talk.ask("resources/read", {"uri": "shop://secret"})
    if isinstance(talk, StdioMcpClient) or talk.revision == JUNE:
        found = heard.message["error"]
        assert found["code"] == -32010
        assert found["data"]["dev.toolhall/refused"] == "NeedsVerification"
    elif talk.revision == NOVEMBER:
        found = heard.message["error"]
        assert found["code"] == -32042
        assert found["data"]["elicitations"][0]["url"].startswith(("http://", "https://"))
    else:
        (asked,) = heard.result["inputRequests"].values()
        assert asked["params"]["mode"] == "url"


async def test_server_messages_about_resources_and_prompts_match_the_official_schema(talk: McpClient) -> None:
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        await talk.ask(method)
    await read(talk, "shop://both")
    await talk.ask("prompts/get", {"name": "Shop_letter", "arguments": {"number": "17"}})
    ref = {"type": "ref/prompt", "name": "Shop_letter"}
    await talk.ask("completion/complete", {"ref": ref, "argument": {"name": "number", "value": "1"}})
    assert {
        "ListResourcesResult",
        "ListResourceTemplatesResult",
        "ListPromptsResult",
        "ReadResourceResult",
        "GetPromptResult",
        "CompleteResult",
    } <= talk.seen
