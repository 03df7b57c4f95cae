"""Who hears that the list of tools has changed: sessions in the older revisions, listeners in the newest."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from tests.conformance import judge
from tests.conformance.serving import own_pipes, served
from tests.harness.http_client import Json, Message, StreamingResponse
from tests.harness.mcp_client import (
    StatelessMcpClient,
    StdioMcpClient,
    http_mcp_client,
    stateless_mcp_client,
    stdio_mcp_client,
)
from tests.harness.mcp_messages import LEGACY, MODERN, SUBSCRIPTION_KEY, modern_meta, modern_request, request
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = "notifications/tools/list_changed"
_ids = count(1_000)


@asynccontextmanager
async def listening(
    http: StatelessMcpClient,
    wanted: Message,
    id: Json = None,  # noqa: A002 - JSON-RPC's word
) -> AsyncGenerator[tuple[StreamingResponse, Message]]:
    """A listen stream and its first message."""
    body, headers = modern_request(LISTEN, {"notifications": wanted}, id=next(_ids) if id is None else id)
    async with http.open(body, headers) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        first = await next_message(stream)
        assert first["method"] == ACKNOWLEDGED, "the acknowledgement comes before anything else"
        yield stream, first["params"]


async def next_message(stream: StreamingResponse) -> Message:
    """The next message, which must be one that may come on such a stream."""
    message = await stream.message()
    judge.check(message, MODERN, LISTEN)
    assert "method" not in message or message["method"] in (ACKNOWLEDGED, CHANGED), "no progress, no logs"
    return message


async def toggle(http: StatelessMcpClient) -> None:
    """Change the list of tools."""
    assert (await http.modern("tools/call", {"name": "probe_toggle"})).status == 200


# --- over HTTP --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("M-25", "M-38", "M-39")
@pytest.mark.parametrize("given", [7, "text", "ünï", 0])
async def test_listener_is_notified_of_every_change_with_its_subscription_id(
    http: StatelessMcpClient, given: Json
) -> None:
    async with listening(http, {"toolsListChanged": True}, given) as (stream, acknowledged):
        assert acknowledged["notifications"] == {"toolsListChanged": True}
        assert acknowledged["_meta"][SUBSCRIPTION_KEY] == given
        for _ in range(2):
            await toggle(http)
            change = await next_message(stream)
            assert change["method"] == CHANGED
            assert change["params"]["_meta"][SUBSCRIPTION_KEY] == given


@pytest.mark.requirement("M-25", "M-16")
async def test_list_changed_notification_comes_after_the_list_has_changed(http: StatelessMcpClient) -> None:
    async def names() -> set[str]:
        found, params = set[str](), Message()
        while True:
            page = (await http.modern("tools/list", params)).result
            found |= {tool["name"] for tool in page["tools"]}
            if "nextCursor" not in page:
                return found
            params = {"cursor": page["nextCursor"]}

    async with listening(http, {"toolsListChanged": True}) as (stream, _):
        before = await names()
        await toggle(http)
        assert (await next_message(stream))["method"] == CHANGED
        assert (await names()) ^ before == {"probe_fleeting"}
        await toggle(http)
        assert (await next_message(stream))["method"] == CHANGED
        assert await names() == before


@pytest.mark.requirement("M-38")
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"toolsListChanged": False},
        {"promptsListChanged": True, "resourcesListChanged": True, "com.example/other": True},
    ],
)
async def test_listener_gets_no_notifications_it_did_not_request(http: StatelessMcpClient, wanted: Message) -> None:
    async with listening(http, wanted) as (stream, acknowledged):
        assert acknowledged["notifications"] == {}, "what is not served is not promised"
        await toggle(http)
        await toggle(http)
        assert await stream.silent()


@pytest.mark.requirement("M-38")
async def test_listener_acknowledgement_leaves_out_unsupported_notifications(http: StatelessMcpClient) -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["file:///a"]}
    async with listening(http, wanted) as (_, acknowledged):
        assert acknowledged["notifications"] == {"toolsListChanged": True}


@pytest.mark.requirement("M-38", "J-4")
async def test_listener_with_a_malformed_filter_is_refused(http: StatelessMcpClient) -> None:
    filters: list[Json] = [None, [1], "toolsListChanged", {"toolsListChanged": "yes"}, {"toolsListChanged": 1}]
    for wrong in filters:
        assert (await http.modern(LISTEN, {"notifications": wrong})).error["code"] == -32602, wrong
    assert (await http.modern(LISTEN, {})).error["code"] == -32602


@pytest.mark.requirement("M-39")
async def test_listeners_of_one_client_each_get_their_own_subscription_id(http: StatelessMcpClient) -> None:
    wanted = {"toolsListChanged": True}
    async with listening(http, wanted, "a") as (one, _), listening(http, wanted, "b") as (two, _):
        await toggle(http)
        await toggle(http)
        for stream, name in ((one, "a"), (two, "b")):
            messages = [await next_message(stream), await next_message(stream)]
            assert [each["params"]["_meta"][SUBSCRIPTION_KEY] for each in messages] == [name, name]


@pytest.mark.requirement("M-39", "M-46")
async def test_listener_gets_no_progress_or_log_messages_of_calls(http: StatelessMcpClient) -> None:
    async with listening(http, {"toolsListChanged": True}) as (stream, _):
        meta = modern_meta(progressToken="t", **{"io.modelcontextprotocol/logLevel": "debug"})
        reply = await http.modern("tools/call", {"name": "probe_logs"}, meta=meta)
        assert len(reply.messages) == 9
        assert await stream.silent()


@pytest.mark.requirement("M-25", "L-34")
async def test_listener_and_stateful_session_are_both_notified(http: StatelessMcpClient, probe: ServerProcess) -> None:
    async with (
        http_mcp_client(probe.origin, LEGACY[1]) as session,
        listening(http, {"toolsListChanged": True}) as (stream, _),
        session.http.open(None, session.headers, "GET") as standalone,
    ):
        await toggle(http)
        await toggle(http)
        assert SUBSCRIPTION_KEY in (await next_message(stream))["params"]["_meta"]
        message = await standalone.message()
        judge.check(message, session.revision)
        assert "_meta" not in message.get("params", {})


@pytest.mark.requirement("M-31", "M-38")
async def test_listener_that_disconnects_is_removed(http: StatelessMcpClient) -> None:
    for _ in range(30):  # one after the other, so that only leftovers could reach a limit
        async with listening(http, {"toolsListChanged": True}):
            pass
    async with listening(http, {"toolsListChanged": True}) as (stream, _):
        await toggle(http)
        await toggle(http)
        assert (await next_message(stream))["method"] == CHANGED


@pytest.mark.requirement("M-40", "SB-4")
async def test_server_shutdown_sends_listeners_their_final_response() -> None:
    async with asyncio.timeout(patience()):
        with served("probe.py") as server:
            async with (
                stateless_mcp_client(server.origin) as http,
                listening(http, {"toolsListChanged": True}, "last") as (stream, _),
            ):
                os.kill(server.pid, signal.SIGTERM)
                farewell = await next_message(stream)
                assert farewell["id"] == "last"
                assert farewell["result"]["resultType"] == "complete"
                assert farewell["result"]["_meta"][SUBSCRIPTION_KEY] == "last"
                assert await stream.rest() == []


# --- on standard input and output -------------------------------------------------------------------------------------


def listen(stdio: StdioMcpClient, wanted: Message, id: Json) -> Message:  # noqa: A002
    """A listen request."""
    return stdio.request(LISTEN, {"notifications": wanted}, id=id)


@pytest.mark.requirement("M-25", "M-38", "M-39")
async def test_stdio_listeners_of_one_process_are_both_notified(stdio: StdioMcpClient) -> None:
    wanted = {"toolsListChanged": True}
    for name in ("a", "b"):
        await stdio.write(listen(stdio, wanted, name))
        first = await stdio.read()
        assert (first["method"], first["params"]["_meta"][SUBSCRIPTION_KEY]) == (ACKNOWLEDGED, name)
    changed = await stdio.call("probe_toggle")
    notices = [*changed.notices]
    while len(notices) < 2:
        notices.append(await stdio.read())
    assert sorted(notice["params"]["_meta"][SUBSCRIPTION_KEY] for notice in notices) == ["a", "b"]
    assert {notice["method"] for notice in notices} == {CHANGED}
    for name in ("a", "b"):
        await stdio.tell("notifications/cancelled", {"requestId": name})


@pytest.mark.requirement("M-37", "M-38")
async def test_stdio_cancelled_listener_gets_no_more_notifications(stdio: StdioMcpClient) -> None:
    await stdio.write(listen(stdio, {"toolsListChanged": True}, "gone"))
    assert (await stdio.read())["method"] == ACKNOWLEDGED
    await stdio.tell("notifications/cancelled", {"requestId": "gone"})
    assert (await stdio.ask("tools/list")).notices == []
    assert (await stdio.call("probe_toggle")).notices == []
    assert (await stdio.call("probe_number")).notices == []


@pytest.mark.requirement("M-25")
async def test_stdio_client_without_a_listener_gets_no_notifications(stdio: StdioMcpClient) -> None:
    assert (await stdio.call("probe_toggle")).notices == []
    assert (await stdio.call("probe_number")).notices == []


@pytest.mark.requirement("M-40", "M-37")
async def test_stdio_end_of_input_sends_listeners_their_final_response() -> None:
    async with own_pipes("probe.py") as line:
        stdio = await stdio_mcp_client(line, MODERN)
        await stdio.write(asked := listen(stdio, {"toolsListChanged": True}, "last"))
        assert (await stdio.read())["method"] == ACKNOWLEDGED
        line.input.close()
        messages = [await stdio.read(asked)]
        while "method" in messages[-1]:
            messages.append(await stdio.read(asked))
    *before, farewell = messages
    assert [(each["method"], each["params"]["requestId"]) for each in before] == [("notifications/cancelled", "last")]
    assert farewell["id"] == "last"
    assert farewell["result"]["_meta"][SUBSCRIPTION_KEY] == "last"


@pytest.mark.requirement("L-34")
@pytest.mark.parametrize("revision", LEGACY)
async def test_stdio_session_is_notified_of_a_list_change(stdio: StdioMcpClient) -> None:
    heard_now = await stdio.call("probe_toggle")
    notices = heard_now.notices or [await stdio.read()]
    assert [notice["method"] for notice in notices] == [CHANGED]


@pytest.mark.requirement("M-25", "M-11")
@pytest.mark.parametrize("revision", [LEGACY[1]])
async def test_stdio_listener_beside_a_session_both_are_notified(stdio: StdioMcpClient) -> None:
    await stdio.write(request(LISTEN, {"notifications": {"toolsListChanged": True}, "_meta": modern_meta()}, "new"))
    assert (await stdio.read_unchecked())["method"] == ACKNOWLEDGED
    told = await stdio.call("probe_toggle")
    notices = [*told.notices]
    while len(notices) < 2:
        notices.append(await stdio.read())
    assert sorted(SUBSCRIPTION_KEY in notice.get("params", {}).get("_meta", {}) for notice in notices) == [False, True]
    await stdio.tell("notifications/cancelled", {"requestId": "new"})
