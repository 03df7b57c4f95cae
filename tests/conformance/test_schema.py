"""Everything the server can say, in each revision and over each transport, fits the official schema."""

from collections.abc import Awaitable, Callable

import pytest

from tests.conformance import judge
from tests.conformance.judge import LEGACY, MODERN, REVISIONS, SchemaMismatch
from tests.conformance.talk import HttpTalk, StdioTalk, Talk
from tests.conformance.wire import SUBSCRIPTION_KEY, VERSION_KEY, Http, Message, modern_meta

# What a server of tools can send; each must come up at least once.
COMMON = {"CallToolResult", "ListToolsResult", "LoggingMessageNotification", "ProgressNotification", "error"}
OLDER = COMMON | {
    "CancelledNotification",
    "CreateMessageRequest",
    "ElicitRequest",
    "EmptyResult",
    "InitializeResult",
    "ListRootsRequest",
    "ToolListChangedNotification",
}
NEWEST = COMMON | {
    "DiscoverResult",
    "InputRequiredResult",
    "MissingRequiredClientCapabilityError",
    "SubscriptionsAcknowledgedNotification",
    "ToolListChangedNotification",
    "UnsupportedProtocolVersionError",
}
TOOLS = (
    "number",
    "words",
    "maybe",
    "nothing",
    "blocks",
    "liar",
    "crash",
    "fail",
    "escape",
    "guarded",
    "decorated",
    "shout",
)


def replies(question: Message) -> Message:
    """A reply to any question."""
    known: dict[str, Message] = {
        "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
        "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
        "roots/list": {"roots": []},
    }
    return known[question["method"]]


async def calls(talk: Talk) -> None:
    """Every kind of result, notice and refusal of a call."""
    await talk.set_level("debug")
    for tool in TOOLS:
        await talk.call(f"probe_{tool}")
    await talk.call("probe_point", {"x": 1})
    await talk.call("probe_point", {"x": "wrong"})
    await talk.call("probe_echo", {"value": [None, True, 1.5, "text", {"a": {}}]})
    await talk.call("probe_steps", {"values": [0.5, 1, 2]}, token="t")
    await talk.call("probe_logs")
    await talk.call("no_such_tool")


async def questions(talk: Talk) -> None:
    """Every kind of question, and every end of one."""
    for tool in ("probe_ask", "probe_ask_all", *(["probe_visit"] if talk.revision > "2025-06-18" else [])):
        await talk.call(tool, respond=replies)
    await talk.call("probe_ask", respond=lambda _: {"action": "decline"})
    await talk.call("probe_ask", respond=lambda _: {"action": "nonsense"})
    if talk.modern:
        await talk.call("probe_ask")
        capabilities, talk.capabilities = talk.capabilities, {}
        await talk.call("probe_ask")
        talk.capabilities = capabilities


async def listings(talk: Talk) -> None:
    """Pages, and the refusals of lists."""
    await talk.tools()
    await talk.ask("tools/list", {"cursor": "nonsense"})
    await talk.ask("no/such/method")
    if talk.modern:
        await talk.ask("server/discover")
    else:
        await talk.ask("ping")
        await talk.ask("initialize", {"protocolVersion": talk.revision})


async def cancelled_elicitation(talk: Talk) -> None:
    """An elicitation that the tool no longer awaits."""
    message = talk.request("tools/call", {"name": "probe_impatient"})
    if talk.modern:
        await talk.exchange(message)
    elif isinstance(talk, HttpTalk):
        async with talk.open(message) as reply:
            for event in await reply.rest():
                if event.message:
                    talk.check(event.message, message)
    else:
        assert isinstance(talk, StdioTalk)
        await talk.write(message)
        while "method" in await talk.read(message):
            pass


async def changes(talk: Talk) -> None:
    """Being told of a change, by each revision's way."""
    wanted = {"notifications": {"toolsListChanged": True}}
    if isinstance(talk, HttpTalk):
        asked = talk.request("subscriptions/listen", wanted) if talk.modern else None
        opened = talk.open(asked) if asked else talk.http.open(None, talk.headers, "GET")
        async with opened as stream:
            if asked:
                talk.check(await stream.message(), asked)
            await talk.call("probe_toggle")
            talk.check(await stream.message(), asked)
            await talk.call("probe_toggle")
        return
    assert isinstance(talk, StdioTalk)
    if talk.modern:
        await talk.write(asked := talk.request("subscriptions/listen", wanted, id="changes"))
        await talk.read(asked)
    for _ in range(2):
        if not (await talk.call("probe_toggle")).notices:
            await talk.read()
    await talk.tell("notifications/cancelled", {"requestId": "changes"})


async def versions(talk: Talk) -> None:
    """A version that is not served."""
    if not talk.modern:
        return
    message = talk.request("tools/list")
    message["params"]["_meta"][VERSION_KEY] = "2099-01-01"
    if isinstance(talk, HttpTalk):
        headers = {"MCP-Protocol-Version": "2099-01-01", "Mcp-Method": "tools/list"}
        talk.check((await talk.http.send(message, headers)).answer, message)
    else:
        await talk.exchange(message)


EXCHANGES: tuple[Callable[[Talk], Awaitable[None]], ...] = (
    calls,
    questions,
    listings,
    cancelled_elicitation,
    changes,
    versions,
)


@pytest.mark.requirement(
    "J-1", "L-1", "L-24", "L-25", "L-28", "L-30", "M-5", "M-6", "M-18", "M-20", "M-22", "M-41", "M-47"
)
async def test_server_messages_of_every_kind_match_the_official_schema(talk: Talk) -> None:
    for exchange in EXCHANGES:
        await exchange(talk)
    assert talk.seen == (NEWEST if talk.modern else OLDER)


@pytest.mark.requirement("M-32")
async def test_header_mismatch_error_matches_the_official_schema(http: Http) -> None:
    reply = await http.modern("tools/list", headers={"Mcp-Method": "other"})
    assert judge.check(reply.answer, MODERN, "tools/list") == "HeaderMismatchError"


GOOD: dict[str, Message] = {
    "tools/list": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": []},
}
BAD: list[tuple[str, Message]] = [
    ("tools/list", {"tools": [{"name": "a"}]}),
    ("tools/list", {"tools": [{"name": "a", "inputSchema": {"type": "string"}}]}),
    ("tools/list", {}),
    ("tools/call", {"content": [{"type": "text"}]}),
    ("tools/call", {"content": [{"type": "image", "data": "x"}]}),
    ("tools/call", {}),
    ("no/such", {}),
]


@pytest.mark.parametrize("revision", REVISIONS)
def test_schema_check_accepts_valid_and_rejects_invalid_messages(revision: str) -> None:
    modern = {"resultType": "complete", "_meta": {}, "ttlMs": 1, "cacheScope": "public"} if revision == MODERN else {}
    for method, result in GOOD.items():
        judge.check({"jsonrpc": "2.0", "id": 1, "result": {**result, **modern}}, revision, method)
    for method, result in BAD:
        with pytest.raises(SchemaMismatch):
            judge.check({"jsonrpc": "2.0", "id": 1, "result": {**result, **modern}}, revision, method)
    wrong: list[object] = [
        {"id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "result": {"content": []}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "m"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"message": "m"}},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/made/up"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        [{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}],
        "text",
    ]
    for message in wrong:
        with pytest.raises(SchemaMismatch):
            judge.check(message, revision, "tools/call")


@pytest.mark.requirement("M-9")
def test_schema_check_rejects_server_requests_in_the_newest_revision() -> None:
    question = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    for revision in LEGACY:
        assert judge.check(question, revision) == "ListRootsRequest"
    with pytest.raises(SchemaMismatch, match="no requests"):
        judge.check(question, MODERN)


def test_modern_meta_of_these_tests_has_the_keys_of_the_schema() -> None:
    assert set(modern_meta()) == {
        VERSION_KEY, "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities"
    }  # fmt: skip
    assert SUBSCRIPTION_KEY == "io.modelcontextprotocol/subscriptionId"
