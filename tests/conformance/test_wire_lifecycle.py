"""How a client and the server come to terms: handshake and sessions in the older revisions, none in the newest."""

import httpx2
import psutil
import pytest

from tests.conformance.probe import hall
from tests.conformance.serving import own_pipes
from tests.harness.http_client import Message
from tests.harness.mcp_client import (
    EVERY_FEATURE,
    HttpMcpClient,
    McpClient,
    StatelessMcpClient,
    StdioMcpClient,
    http_mcp_client,
)
from tests.harness.mcp_messages import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LEGACY,
    LEVEL_KEY,
    MODERN,
    REVISIONS,
    SERVER_KEY,
    VERSION_KEY,
    initialize,
    modern_headers,
    modern_meta,
    modern_request,
    notification,
    request,
)
from tests.harness.server_process import ServerProcess

NEWEST_LEGACY = LEGACY[-1]


# --- the handshake of the older revisions -----------------------------------------------------------------------------


@pytest.mark.requirement("L-1", "L-2", "L-23")
@pytest.mark.parametrize("revision", LEGACY)
async def test_initialize_returns_server_info_and_capabilities(http: StatelessMcpClient, revision: str) -> None:
    talk = HttpMcpClient(http, revision, {})
    said = await talk.start()
    assert said["protocolVersion"] == revision
    assert said["capabilities"]["tools"] == {"listChanged": True}
    assert said["serverInfo"]["name"]
    assert said["serverInfo"]["version"]
    await talk.end()


@pytest.mark.requirement("L-2")
@pytest.mark.parametrize("asked", ["1999-01-01", "2024-11-05", "2099-12-31", "nonsense", ""])
async def test_initialize_with_an_unknown_revision_gets_the_newest_stateful_one(
    http: StatelessMcpClient, asked: str
) -> None:
    reply = await http.send(initialize(asked))
    assert reply.result["protocolVersion"] == NEWEST_LEGACY


@pytest.mark.requirement("L-2", "M-11")
async def test_initialize_with_the_newest_revision_gets_the_newest_stateful_one(http: StatelessMcpClient) -> None:
    reply = await http.send(initialize(MODERN))
    assert reply.result["protocolVersion"] == NEWEST_LEGACY


@pytest.mark.requirement("L-1", "J-4")
@pytest.mark.parametrize("missing", ["protocolVersion", "capabilities"])
async def test_initialize_without_version_or_capabilities_is_refused(http: StatelessMcpClient, missing: str) -> None:
    message = initialize(NEWEST_LEGACY)
    del message["params"][missing]
    reply = await http.send(message)
    assert reply.error["code"] == -32602
    assert "mcp-session-id" not in reply.headers


@pytest.mark.requirement("L-3")
@pytest.mark.parametrize("revision", LEGACY)
async def test_server_sends_no_requests_before_initialized(revision: str) -> None:
    async with own_pipes("probe.py") as line:
        talk = StdioMcpClient(line, revision, EVERY_FEATURE)
        await talk.exchange(initialize(revision, EVERY_FEATURE, 0))
        heard = [await talk.ask("ping"), await talk.ask("tools/list"), await talk.call("probe_number")]
        assert not any(each.questions or each.notices for each in heard)


@pytest.mark.requirement("L-4")
async def test_session_keeps_the_revision_it_negotiated(session: HttpMcpClient) -> None:
    decorated = next(tool for tool in await session.tools() if tool["name"] == "probe_decorated")
    assert ("icons" in decorated) is (session.revision >= "2025-11-25"), "icons came with 2025-11-25"
    number = (await session.call("probe_number")).result
    assert number["structuredContent"] == {"result": 42}, "only the newest revision allows anything but objects"
    assert "resultType" not in number
    assert SERVER_KEY not in number.get("_meta", {})


@pytest.mark.requirement("L-4", "L-36", "RO-1", "SA-1")
@pytest.mark.parametrize("revision", LEGACY)
async def test_client_without_capabilities_is_sent_no_requests(probe: ServerProcess, revision: str) -> None:
    async with http_mcp_client(probe.origin, revision, {}) as talk:
        for tool in ("probe_ask", "probe_ask_all", "probe_visit"):
            heard = await talk.call(tool)
            assert heard.questions == []
            assert heard.result["isError"] is True
            assert "client that supports" in heard.text


@pytest.mark.requirement("L-5")
async def test_ping_during_a_running_call_is_answered_with_an_empty_result(session: HttpMcpClient) -> None:
    key = f"ping-{session.session}"
    async with session.open(
        session.request("tools/call", {"name": "probe_hold", "arguments": {"key": key}}, token=1)
    ) as held:
        assert (await held.message())["method"] == "notifications/progress"
        assert (await session.ask("ping")).result == {}
        await session.call("probe_release", {"key": key})
        assert "result" in await held.message()


# --- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-17", "L-19")
async def test_session_ids_are_visible_ascii_and_unguessable(http: StatelessMcpClient) -> None:
    replies = [await http.send(initialize(NEWEST_LEGACY)) for _ in range(20)]
    ids = [reply.headers["mcp-session-id"] for reply in replies]
    assert len(set(ids)) == len(ids)
    for session_id in ids:
        assert all(0x21 <= ord(letter) <= 0x7E for letter in session_id)
        assert len(session_id) >= 22, "less than 128 bits"
    shared = [len({session_id[position] for session_id in ids}) for position in range(min(map(len, ids)))]
    assert min(shared) > 1, "a part of the id is always the same"


@pytest.mark.requirement("L-17")
async def test_session_id_missing_is_400_and_unknown_is_404(session: HttpMcpClient) -> None:
    version = {"MCP-Protocol-Version": session.revision}
    for message in (request("tools/list"), notification("notifications/initialized")):
        assert (await session.http.send(message, version)).status == 400
        assert (await session.http.send(message, {**version, "Mcp-Session-Id": "no-such-session"})).status == 404
    assert (await session.http.send(None, {**version, "Mcp-Session-Id": "no-such-session"}, "GET")).status == 404
    assert (await session.http.send(None, {**version, "Mcp-Session-Id": "no-such-session"}, "DELETE")).status == 404


@pytest.mark.requirement("L-17")
async def test_session_deleted_ends_its_calls_and_its_stream(session: HttpMcpClient) -> None:
    key = f"delete-{session.session}"
    call = session.request("tools/call", {"name": "probe_hold", "arguments": {"key": key}}, token=1)
    async with session.http.open(None, session.headers, "GET") as listening, session.open(call) as held:
        assert (await held.message())["method"] == "notifications/progress"
        assert 200 <= (await session.http.send(None, session.headers, "DELETE")).status < 300
        assert await listening.rest() == []
        assert [event.message for event in await held.rest() if event.message] == [], "an ended call is not answered"
    for method, body in (("POST", request("ping")), ("POST", notification("x")), ("GET", None), ("DELETE", None)):
        assert (await session.http.send(body, session.headers, method)).status == 404
    fate = await session.http.modern("tools/call", {"name": "probe_fate", "arguments": {"key": key}})
    assert fate.result["structuredContent"] == {"fate": "cancelled"}


@pytest.mark.requirement("L-18")
async def test_session_version_header_unknown_or_modern_is_400(session: HttpMcpClient) -> None:
    for wrong in ("1999-01-01", "nonsense", MODERN):
        reply = await session.http.send(request("ping"), {**session.headers, "MCP-Protocol-Version": wrong})
        assert reply.status == 400
    bare = {"Mcp-Session-Id": session.headers["Mcp-Session-Id"]}
    assert (await session.http.send(request("ping"), bare)).result == {}, "the session knows its revision"


@pytest.mark.requirement("L-9", "L-19", "M-16", "M-28")
async def test_session_id_used_by_another_caller_is_404() -> None:
    """The id is no credential: a caller from another machine is another caller, and may not see a single tool."""

    def client(address: str) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(hall, client=(address, 40_000))
        return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")

    async with hall.lifespan(hall), client("127.0.0.1") as here, client("10.1.2.3") as there:
        mine, theirs = HttpMcpClient(StatelessMcpClient(here), NEWEST_LEGACY, {}), StatelessMcpClient(there)
        await mine.start()
        assert len(await mine.tools()) > 30
        for method, body in (("POST", request("tools/list")), ("GET", None), ("DELETE", None)):
            assert (await theirs.send(body, mine.headers, method)).status == 404
        assert (await theirs.modern("tools/list")).result["tools"] == []
        assert (await theirs.modern("tools/call", {"name": "probe_number"})).error["code"] == 40100
        assert (await mine.ask("ping")).result == {}
        await mine.end()


@pytest.mark.requirement("L-9", "M-28")
def test_local_server_listens_on_loopback_only(probe: ServerProcess) -> None:
    family = [psutil.Process(probe.pid), *psutil.Process(probe.pid).children(recursive=True)]
    listening = [
        each.laddr.ip for process in family for each in process.net_connections("tcp") if each.status == "LISTEN"
    ]
    assert set(listening) == {"127.0.0.1"}


# --- no handshake in the newest revision ------------------------------------------------------------------------------


@pytest.mark.requirement("M-5", "M-6", "M-7", "M-16", "M-47")
async def test_discover_returns_versions_capabilities_and_server_info(talk: McpClient) -> None:
    if not talk.modern:
        assert (await talk.ask("server/discover")).error["code"] == -32601
        return
    found = (await talk.ask("server/discover")).result
    assert found["resultType"] == "complete"
    assert set(found["supportedVersions"]) == set(REVISIONS)
    assert found["capabilities"]["tools"] == {"listChanged": True}
    assert found["ttlMs"] >= 0
    assert found["cacheScope"] in ("public", "private")
    assert found["_meta"][SERVER_KEY]["name"]
    assert found["_meta"][SERVER_KEY]["version"]


@pytest.mark.requirement("M-2")
@pytest.mark.parametrize("key", [VERSION_KEY, CAPABILITIES_KEY, None])
async def test_newest_revision_request_without_version_or_capabilities_is_400(
    http: StatelessMcpClient, key: str | None
) -> None:
    meta = None if key is None else {name: value for name, value in modern_meta().items() if name != key}
    for method in ("tools/list", "tools/call", "server/discover", "subscriptions/listen"):
        reply = await http.modern(method, {"name": "probe_number"} if method == "tools/call" else {}, meta=meta)
        assert (reply.status, reply.error["code"], reply.answer["id"]) == (400, -32602, 1)


@pytest.mark.requirement("M-2")
@pytest.mark.parametrize(
    "wrong",
    [{VERSION_KEY: 20260728}, {CAPABILITIES_KEY: []}, {CAPABILITIES_KEY: None}, {LEVEL_KEY: "loud"}, {LEVEL_KEY: 3}],
)
async def test_newest_revision_request_meta_of_a_wrong_type_is_refused(
    http: StatelessMcpClient, wrong: Message
) -> None:
    reply = await http.modern("tools/list", meta={**modern_meta(), **wrong})
    assert reply.error["code"] in (-32602, -32020)


@pytest.mark.requirement("M-2", "M-7")
@pytest.mark.parametrize("client", [None, {"name": "other", "version": "0"}, "not even an object"])
async def test_newest_revision_client_info_does_not_change_the_result(http: StatelessMcpClient, client: object) -> None:
    meta = {name: value for name, value in modern_meta().items() if name != CLIENT_KEY}
    usual = (await http.modern("tools/list")).result
    assert (
        await http.modern("tools/list", meta=meta if client is None else {**meta, CLIENT_KEY: client})
    ).result == usual


@pytest.mark.requirement("M-3")
async def test_newest_revision_unsupported_version_is_refused_with_the_supported_ones(talk: McpClient) -> None:
    if not talk.modern:
        return
    for wrong in ("2099-01-01", "1999-01-01", "2025-11-25"):
        if isinstance(talk, HttpMcpClient):
            meta = {**modern_meta(), VERSION_KEY: wrong}
            reply = await talk.http.modern("tools/list", meta=meta, headers={"MCP-Protocol-Version": wrong})
            assert reply.status == 400
            error = reply.error
        else:
            error = (await talk.exchange(request("tools/list", {"_meta": {**modern_meta(), VERSION_KEY: wrong}}))).error
        assert error["code"] == -32022
        assert error["data"]["requested"] == wrong
        assert set(error["data"]["supported"]) == set(REVISIONS)


@pytest.mark.requirement("M-1", "M-16")
async def test_newest_revision_requests_share_no_state(probe: ServerProcess, http: StatelessMcpClient) -> None:
    names = [tool["name"] for tool in (await http.modern("tools/list")).result["tools"]]
    async with http_mcp_client(probe.origin, NEWEST_LEGACY) as session:
        await session.set_level("debug")
        cursor = {"cursor": (await http.modern("tools/list")).result["nextCursor"]}
        async with http_mcp_client(
            probe.origin, MODERN
        ) as other:  # another connection goes on where the first one stopped
            assert (await other.http.modern("tools/list", cursor)).result["tools"]
            assert (await other.call("probe_logs")).notices == [], "a level that a session set is that session's"
            assert [tool["name"] for tool in (await other.ask("tools/list")).result["tools"]] == names
            headers = {"Mcp-Session-Id": session.headers["Mcp-Session-Id"]}
            assert (await other.http.modern("tools/list", headers=headers)).result["tools"], "the header means nothing"


@pytest.mark.requirement("M-1", "M-11")
@pytest.mark.parametrize("revision", [NEWEST_LEGACY])
async def test_stdio_process_answers_stateful_and_modern_requests_side_by_side(stdio: StdioMcpClient) -> None:
    modern = {"name": "probe_number", "_meta": modern_meta()}
    asked: list[Message] = [
        request("tools/call", {"name": "probe_number"}, "old"),
        request("tools/call", modern, "new"),
        request("ping", None, "old ping"),
        request("ping", {"_meta": modern_meta()}, "new ping"),
    ]
    for message in asked:
        await stdio.write(message)
    answers = {answer["id"]: answer for answer in [await stdio.read_unchecked() for _ in asked]}
    assert answers["old"]["result"]["structuredContent"] == {"result": 42}
    assert answers["new"]["result"]["structuredContent"] == 42
    assert answers["old ping"]["result"] == {}
    assert answers["new ping"]["error"]["code"] == -32601


@pytest.mark.requirement("M-11")
async def test_stdio_request_without_initialize_or_meta_is_refused_with_the_fix(stdio: StdioMcpClient) -> None:
    heard = await stdio.exchange(request("tools/list"))
    assert heard.error["code"] == -32600
    assert "initialize" in heard.error["message"]
    assert "_meta" in heard.error["message"]


@pytest.mark.requirement("M-10")
async def test_client_extensions_unknown_to_the_server_are_ignored(talk: McpClient) -> None:
    talk.capabilities = {"extensions": {"com.example/teleport": {}, "io.modelcontextprotocol/tasks": {}}}
    heard = await talk.call("probe_number")
    assert heard.text == "42"
    if talk.modern:
        assert heard.result["resultType"] == "complete"
        assert "extensions" not in (await talk.ask("server/discover")).result["capabilities"]


@pytest.mark.requirement("M-36", "M-11")
@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "no/such", ""]
)
async def test_newest_revision_removed_or_unknown_method_is_404(http: StatelessMcpClient, method: str) -> None:
    reply = await http.modern(method)
    assert (reply.status, reply.error["code"], reply.answer["id"]) == (404, -32601, 1)


async def test_newest_revision_request_with_a_session_id_still_needs_its_headers(session: HttpMcpClient) -> None:
    body, _ = modern_request("tools/list")
    reply = await session.http.send(body, session.headers)
    assert (reply.status, reply.error["code"]) == (400, -32020)
    assert (await session.http.send(body, modern_headers("tools/list"))).status == 200
