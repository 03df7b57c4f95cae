"""Who hears that the list of tools has changed: sessions in the older revisions, listeners in the newest."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from tests.conformance import judge
from tests.conformance.serving import own_pipes as own_line
from tests.conformance.serving import served
from tests.harness.http_client import Json, Message
from tests.harness.http_client import StreamingResponse as Open
from tests.harness.mcp_client import StatelessMcpClient as Http
from tests.harness.mcp_client import StdioMcpClient as StdioTalk
from tests.harness.mcp_client import http_mcp_client as http_talk
from tests.harness.mcp_client import stateless_mcp_client as http_client
from tests.harness.mcp_client import stdio_mcp_client as stdio_talk
from tests.harness.mcp_messages import LEGACY, MODERN, SUBSCRIPTION_KEY, modern_meta, modern_request, request
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess as Served

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = "notifications/tools/list_changed"
_ids = count(1_000)


@asynccontextmanager
async def listening(http: Http, wanted: Message, id: Json = None) -> AsyncGenerator[tuple[Open, Message]]:  # noqa: A002
    """A listen stream and its first message."""
    body, headers = modern_request(LISTEN, {"notifications": wanted}, id=next(_ids) if id is None else id)
    async with http.open(body, headers) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        first = await heard(stream)
        assert first["method"] == ACKNOWLEDGED, "the acknowledgement comes before anything else"
        yield stream, first["params"]


async def heard(stream: Open) -> Message:
    """The next message, which must be one that may come on such a stream."""
    message = await stream.message()
    judge.check(message, MODERN, LISTEN)
    assert "method" not in message or message["method"] in (ACKNOWLEDGED, CHANGED), "no progress, no logs"
    return message


async def toggle(http: Http) -> None:
    """Change the list of tools."""
    assert (await http.modern("tools/call", {"name": "probe_toggle"})).status == 200


# --- over HTTP --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("M-25", "M-38", "M-39")
@pytest.mark.parametrize("given", [7, "text", "ünï", 0])
async def test_a_listener_is_told_of_every_change_under_the_id_of_its_request(http: Http, given: Json) -> None:
    async with listening(http, {"toolsListChanged": True}, given) as (stream, acknowledged):
        assert acknowledged["notifications"] == {"toolsListChanged": True}
        assert acknowledged["_meta"][SUBSCRIPTION_KEY] == given
        for _ in range(2):
            await toggle(http)
            change = await heard(stream)
            assert change["method"] == CHANGED
            assert change["params"]["_meta"][SUBSCRIPTION_KEY] == given


@pytest.mark.requirement("M-25", "M-16")
async def test_when_the_notice_comes_the_list_has_changed(http: Http) -> None:
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
        assert (await heard(stream))["method"] == CHANGED
        assert (await names()) ^ before == {"probe_fleeting"}
        await toggle(http)
        assert (await heard(stream))["method"] == CHANGED
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
async def test_nobody_hears_what_they_did_not_ask_for(http: Http, wanted: Message) -> None:
    async with listening(http, wanted) as (stream, acknowledged):
        assert acknowledged["notifications"] == {}, "what is not served is not promised"
        await toggle(http)
        await toggle(http)
        assert await stream.silent()


@pytest.mark.requirement("M-38")
async def test_of_several_wishes_those_are_honoured_that_can_be(http: Http) -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["file:///a"]}
    async with listening(http, wanted) as (_, acknowledged):
        assert acknowledged["notifications"] == {"toolsListChanged": True}


@pytest.mark.requirement("M-38", "J-4")
async def test_a_filter_of_another_shape_is_refused(http: Http) -> None:
    filters: list[Json] = [None, [1], "toolsListChanged", {"toolsListChanged": "yes"}, {"toolsListChanged": 1}]
    for wrong in filters:
        assert (await http.modern(LISTEN, {"notifications": wrong})).error["code"] == -32602, wrong
    assert (await http.modern(LISTEN, {})).error["code"] == -32602


@pytest.mark.requirement("M-39")
async def test_several_listeners_hear_each_under_its_own_id(http: Http) -> None:
    wanted = {"toolsListChanged": True}
    async with listening(http, wanted, "a") as (one, _), listening(http, wanted, "b") as (two, _):
        await toggle(http)
        await toggle(http)
        for stream, name in ((one, "a"), (two, "b")):
            messages = [await heard(stream), await heard(stream)]
            assert [each["params"]["_meta"][SUBSCRIPTION_KEY] for each in messages] == [name, name]


@pytest.mark.requirement("M-39", "M-46")
async def test_progress_and_logs_stay_on_the_stream_of_their_call(http: Http) -> None:
    async with listening(http, {"toolsListChanged": True}) as (stream, _):
        meta = modern_meta(progressToken="t", **{"io.modelcontextprotocol/logLevel": "debug"})
        reply = await http.modern("tools/call", {"name": "probe_logs"}, meta=meta)
        assert len(reply.messages) == 9
        assert await stream.silent()


@pytest.mark.requirement("M-25", "L-34")
async def test_a_modern_listener_and_an_older_session_both_hear_in_their_own_way(http: Http, probe: Served) -> None:
    async with (
        http_talk(probe.origin, LEGACY[1]) as session,
        listening(http, {"toolsListChanged": True}) as (stream, _),
        session.http.open(None, session.headers, "GET") as standalone,
    ):
        await toggle(http)
        await toggle(http)
        assert SUBSCRIPTION_KEY in (await heard(stream))["params"]["_meta"]
        message = await standalone.message()
        judge.check(message, session.revision)
        assert "_meta" not in message.get("params", {})


@pytest.mark.requirement("M-31", "M-38")
async def test_who_hangs_up_is_forgotten(http: Http) -> None:
    for _ in range(30):  # one after the other, so that only leftovers could reach a limit
        async with listening(http, {"toolsListChanged": True}):
            pass
    async with listening(http, {"toolsListChanged": True}) as (stream, _):
        await toggle(http)
        await toggle(http)
        assert (await heard(stream))["method"] == CHANGED


@pytest.mark.requirement("M-40")
async def test_a_server_that_ends_answers_its_listeners_first() -> None:
    async with asyncio.timeout(patience()):
        with served("probe.py") as server:
            async with (
                http_client(server.origin) as http,
                listening(http, {"toolsListChanged": True}, "last") as (stream, _),
            ):
                os.kill(server.pid, signal.SIGTERM)
                farewell = await heard(stream)
                assert farewell["id"] == "last"
                assert farewell["result"]["resultType"] == "complete"
                assert farewell["result"]["_meta"][SUBSCRIPTION_KEY] == "last"
                assert await stream.rest() == []


# --- on standard input and output -------------------------------------------------------------------------------------


def listen(stdio: StdioTalk, wanted: Message, id: Json) -> Message:  # noqa: A002
    """A listen request."""
    return stdio.request(LISTEN, {"notifications": wanted}, id=id)


@pytest.mark.requirement("M-25", "M-38", "M-39")
async def test_on_stdio_listeners_share_the_line(stdio: StdioTalk) -> None:
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
async def test_on_stdio_a_cancelled_listener_hears_nothing_more(stdio: StdioTalk) -> None:
    await stdio.write(listen(stdio, {"toolsListChanged": True}, "gone"))
    assert (await stdio.read())["method"] == ACKNOWLEDGED
    await stdio.tell("notifications/cancelled", {"requestId": "gone"})
    assert (await stdio.ask("tools/list")).notices == []
    assert (await stdio.call("probe_toggle")).notices == []
    assert (await stdio.call("probe_number")).notices == []


@pytest.mark.requirement("M-25")
async def test_on_stdio_who_did_not_listen_hears_nothing(stdio: StdioTalk) -> None:
    assert (await stdio.call("probe_toggle")).notices == []
    assert (await stdio.call("probe_number")).notices == []


@pytest.mark.requirement("M-40", "M-37")
async def test_on_stdio_listeners_are_answered_when_the_input_ends() -> None:
    async with own_line("probe.py") as line:
        stdio = await stdio_talk(line, MODERN)
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
async def test_on_stdio_a_session_is_told_of_a_change(stdio: StdioTalk) -> None:
    heard_now = await stdio.call("probe_toggle")
    notices = heard_now.notices or [await stdio.read()]
    assert [notice["method"] for notice in notices] == [CHANGED]


@pytest.mark.requirement("M-25", "M-11")
@pytest.mark.parametrize("revision", [LEGACY[1]])
async def test_on_stdio_a_listener_beside_a_session(stdio: StdioTalk) -> None:
    await stdio.write(request(LISTEN, {"notifications": {"toolsListChanged": True}, "_meta": modern_meta()}, "new"))
    assert (await stdio.read_unchecked())["method"] == ACKNOWLEDGED
    told = await stdio.call("probe_toggle")
    notices = [*told.notices]
    while len(notices) < 2:
        notices.append(await stdio.read())
    assert sorted(SUBSCRIPTION_KEY in notice.get("params", {}).get("_meta", {}) for notice in notices) == [False, True]
    await stdio.tell("notifications/cancelled", {"requestId": "new"})
