"""What is the same for both message dialects over every transport: calls side by side, cancelled, unreadable."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.conformance.dialects.kit import CANARY
from tests.conformance.dialects.talk import (
    Message,
    Posted,
    Streamed,
    Talk,
    core_request,
    execute,
    machine_request,
    new_id,
    piped,
    socket,
    tool_request,
)
from tests.conformance.serving import Served
from tests.conformance.wire import WAIT, Http


def error_of(talk: Talk, reply: Message) -> Message:
    """The error of a call that did not succeed."""
    if talk.dialect == "hub":
        found: Message = reply["error"]
    else:
        found = reply["error"] if "error" in reply else reply["payload"]["execution"]["error"]
    return found


async def cancel(talk: Talk, request: Message) -> None:
    """Send what cancels a request."""
    if talk.dialect == "machine":
        cancelled = {"cancel": {"requestId": request["header"]["messageId"], "reason": "no longer needed"}}
        await talk.tell(machine_request(cancelled, messageType="notification"))
    else:
        reply = await talk.ask(core_request("cancel", id=request["id"]))
        assert reply["result"] == {"status": "cancelled"}


async def test_call_returns_the_value_of_the_tool(talk: Talk) -> None:
    assert await talk.value("Calculator", "Add", a=1, b=2) == 3


RESULTS: list[tuple[str, dict[str, Any], Message]] = [
    ("nothing", {}, {}),
    ("wrapped", {}, {"result": 1}),
    ("anything", {"value": {"result": 1}}, {"result": {"result": 1}}),
    ("anything", {"value": None}, {"result": None}),
    ("anything", {"value": [1, "a"]}, {"result": [1, "a"]}),
    ("unstated", {}, {"result": {"status": "success"}}),
    ("plain", {"value": 1}, {"result": 1}),
    ("plain", {"value": {"result": 1}}, {"result": {"result": 1}}),
    ("plain", {"value": None}, {"result": None}),
    ("blocks", {}, {"result": ["a picture", "data:image/png;base64,cG5n"]}),
]


async def test_c_16_result_is_wrapped_in_an_object_as_the_output_is_declared(talk: Talk) -> None:
    """What is declared decides, not what the value looks like."""
    for method, given, expected in RESULTS:
        reply = await talk.ask(talk.call("Probe", method, **given))
        result = reply["result"] if talk.dialect == "hub" else reply["payload"]["execution"]["result"]
        assert result == expected, (method, given)


async def test_call_that_waits_does_not_block_other_calls(talk: Talk) -> None:
    note = new_id()
    first = asyncio.ensure_future(talk.value("Probe", "count", note=note, at_least=2))
    assert await talk.value("Probe", "reached", note=note, number=1) == 1
    assert await talk.value("Probe", "count", note=note) == 2
    assert await first == 2


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_16_cancellation_of_a_running_call_reaches_the_tool(talk: Talk, stubborn: bool) -> None:
    note = new_id()
    request = talk.call("Probe", "waits", note=note, stubborn=stubborn)
    running = asyncio.ensure_future(talk.ask(request))
    await talk.value("Probe", "reached", note=note, number=1)
    await cancel(talk, request)
    reply = await running
    assert await talk.value("Probe", "counted", note=f"{note} ended") == 1
    if stubborn:  # a tool that goes on to its end has an answer
        result = reply["result"] if talk.dialect == "hub" else reply["payload"]["execution"]["result"]
        assert result == {"result": "waited"}
    elif talk.dialect == "hub":
        assert reply["error"]["code"] == "CANCELLED"
    else:
        assert reply["payload"]["execution"]["status"] == "cancelled"
    assert await talk.value("Calculator", "Add", a=1, b=2) == 3


async def test_cancellation_of_a_finished_call_has_no_effect(talk: Talk) -> None:
    request = talk.call("Calculator", "Add", a=1, b=2)
    await talk.ask(request)
    if talk.dialect == "machine":
        await cancel(talk, request)
    else:
        reply = await talk.ask(core_request("cancel", id=request["id"]))
        assert reply["result"] == {"status": "not_running"}
    assert await talk.value("Calculator", "Add", a=1, b=2) == 3


UNREADABLE = [b"not json", b"{", b'{"a":1,"a":2}', b"[" * 1000, b"null", b'"text"', b"\xc3\xa9"]


async def test_c_22_unreadable_message_is_answered_with_an_error(talk: Talk) -> None:
    for line in UNREADABLE:
        if isinstance(talk, Streamed):
            await talk.tell(line)
            reply = await talk.other()
        else:
            assert isinstance(talk, Posted)
            sent = await talk.send(line)
            assert sent.status == 400
            reply = json.loads(sent.body)
        expected = "VALIDATION_ERROR" if talk.dialect == "machine" else "INVALID_REQUEST"
        assert error_of(talk, reply)["code"] == expected


async def test_call_exception_text_is_not_sent_to_the_client(talk: Talk) -> None:
    for request in (talk.call("Probe", "crashes"), talk.call("Probe", "fails", why="no"), talk.call("Probe", "lies")):
        assert CANARY not in json.dumps(await talk.ask(request))


@pytest.mark.parametrize("dialect", ["machine", "hub"])
async def test_stdio_line_above_the_size_limit_is_answered_with_an_error(dialect: str) -> None:
    async with piped(dialect) as talk:
        await talk.tell(b'{"padding":"' + b"x" * 3 * 1024 * 1024 + b'"}')
        assert "larger" in error_of(talk, await talk.other())["message"]
        assert await talk.value("Calculator", "Add", a=1, b=2) == 3


@pytest.mark.parametrize("kind", ["notification", "response", "error"])
async def test_a_3_stdio_one_way_message_gets_no_reply(kind: str) -> None:
    """Two servers that answered each other's errors would never stop."""
    async with piped("machine") as talk:
        await talk.tell(machine_request({"news": True}, messageType=kind))
        await talk.value("Calculator", "Add", a=1, b=2)
        assert talk.others.empty()


async def test_websocket_message_above_the_size_limit_closes_the_connection(kit: Served) -> None:
    async with socket(kit.origin) as talk:
        await talk.tell(b'{"padding":"' + b"x" * 2 * 1024 * 1024 + b'"}')
        async with asyncio.timeout(WAIT):
            await talk.connection.wait_closed()
        assert talk.connection.close_code == 1009


async def test_websocket_cancel_does_not_reach_a_call_of_another_connection(kit: Served, hub: Posted) -> None:
    """Two programs of one caller may count from 1; neither cancels the other's call."""
    note = new_id()
    request: dict[str, Any] = {**tool_request("Probe", "waits", note=note), "id": 1}
    async with socket(kit.origin) as one, socket(kit.origin) as other:
        running = asyncio.ensure_future(one.ask(request))
        await hub.value("Probe", "reached", note=note, number=1)
        for stranger in (other, hub):
            reply = await stranger.ask(core_request("cancel", id=1))
            assert reply["result"] == {"status": "not_running"}
        assert (await one.ask(core_request("cancel", id=1)))["result"] == {"status": "cancelled"}
        assert (await running)["error"]["code"] == "CANCELLED"


async def test_websocket_closed_cancels_its_running_calls(kit: Served, http: Http) -> None:
    note, hub = new_id(), Posted("hub", http)
    async with socket(kit.origin) as talk:
        await talk.tell(tool_request("Probe", "waits", note=note))
        await hub.value("Probe", "reached", note=note, number=1)
    assert await hub.value("Probe", "reached", note=f"{note} ended", number=1) == 1


async def start(origin: str, path: str, message: Message) -> asyncio.StreamWriter:
    """Send a request over a connection of its own, and leave it open."""
    body, where = json.dumps(message).encode(), httpx2.URL(origin)
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    _, writer = await asyncio.open_connection(where.host, where.port)
    writer.write(head.encode() + body)
    await writer.drain()
    return writer


WAYS: dict[str, tuple[str, Callable[[Message], Message]]] = {
    "rest": ("/tools/Probe/waits", lambda given: given),
    "oxp": ("/oxp/tools/call", lambda given: {"request": {"tool_id": "Probe.waits", "input": given}}),
    "hub": ("/hub", lambda given: tool_request("Probe", "waits", **given)),
    "machine": ("/machine", lambda given: execute("Probe", "waits", **given)),
}


@pytest.mark.parametrize("way", WAYS)
async def test_http_connection_closed_cancels_its_running_call(kit: Served, hub: Posted, way: str) -> None:
    note, (path, message) = new_id(), WAYS[way]
    connection = await start(kit.origin, path, message({"note": note}))
    await hub.value("Probe", "reached", note=note, number=1)
    connection.close()
    await connection.wait_closed()
    assert await hub.value("Probe", "reached", note=f"{note} ended", number=1) == 1


async def test_oxp_call_with_call_id_continues_after_its_connection_closed(
    kit: Served, hub: Posted, http: Http
) -> None:
    note = new_id()
    request = {"tool_id": "Probe.count", "input": {"note": note, "at_least": 2}, "call_id": new_id()}
    connection = await start(kit.origin, "/oxp/tools/call", {"request": request})
    await hub.value("Probe", "reached", note=note, number=1)
    connection.close()
    await connection.wait_closed()
    assert await hub.value("Probe", "count", note=note) == 2
    (reply,) = (await http.send({"request": request}, path="/oxp/tools/call")).messages
    assert reply["result"]["value"] == 2
    assert await hub.value("Probe", "counted", note=note) == 2
