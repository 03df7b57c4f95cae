"""A call that a person must verify first: said in every dialect's own words, and run once it was."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.properties.callers.house import visit
from tests.properties.callers.town import Rule, Town
from tests.properties.callers.ways import WAYS, Call, Mcp
from toolhall.stores.approvals import Decision

JUNE, NOVEMBER, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
URL = "http://localhost:8000/approve/"
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}


@pytest.fixture
async def harness() -> AsyncIterator[Town]:
    harness = Town()
    with harness.hall:
        await harness.open([Rule("ada", "*")])
        yield harness


async def approve(harness: Town, approval: str) -> None:
    decided = await harness.hall.approval_components.approvals.store.decide(
        approval, Decision("approved", "ada", "totp")
    )
    assert decided is not None


async def modern(harness: Town, capabilities: Any, **more: Any) -> Any:
    """`tools/call` of the newest revision."""
    meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": capabilities}
    params = {"name": "Ladder_step9", "arguments": {"colour": "blue"}, "_meta": meta, **more}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "Ladder_step9"}
    return json.loads((await harness.post("/mcp", json.dumps(message).encode(), "ada", headers)).body)


async def legacy(harness: Town, revision: str, capabilities: Any) -> Any:
    """The same in a session."""
    hello = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    accept = {"accept": "application/json, text/event-stream"}
    session = (await harness.post("/mcp", json.dumps(opening).encode(), "ada", accept)).headers["mcp-session-id"]
    params = {"name": "Ladder_step9", "arguments": {"colour": "blue"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = accept | {"mcp-session-id": session, "mcp-protocol-version": revision}
    reply = await harness.post("/mcp", json.dumps(message).encode(), "ada", headers)
    text = reply.body.decode()
    return json.loads(text.rpartition("data: ")[2] if text.startswith(("event:", "id:", "data:")) else text)


async def test_verification_stateless_asks_to_visit_url(harness: Town) -> None:
    asked = (await modern(harness, PAGES))["result"]
    assert asked["resultType"] == "input_required"
    (question,) = asked["inputRequests"].values()
    url = question["params"]["url"]
    assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "url")
    assert url.startswith(URL)
    (key,) = asked["inputRequests"]
    retry = {"requestState": asked["requestState"], "inputResponses": {key: {"action": "accept"}}}
    again = (await modern(harness, PAGES, **retry))["result"]
    assert again["resultType"] == "input_required", "what a client says is no person's yes"
    assert harness.ladder.entered == []
    await approve(harness, url.removeprefix(URL))
    assert (await modern(harness, PAGES, **retry))["error"]["code"] == -32602, "a state is good once"
    retry["requestState"] = again["requestState"]
    done = (await modern(harness, PAGES, **retry))["result"]
    assert done["structuredContent"] == {"colour": "blue"}
    assert (await modern(harness, PAGES))["result"]["resultType"] == "input_required", "one yes is one call"
    assert harness.ladder.entered == [(9, "blue")]


async def test_verification_declined_returns_link(harness: Town) -> None:
    asked = (await modern(harness, PAGES))["result"]
    declined = {key: {"action": "decline"} for key in asked["inputRequests"]}
    told = (await modern(harness, PAGES, requestState=asked["requestState"], inputResponses=declined))["result"]
    assert told["isError"] is True
    assert URL in told["content"][0]["text"]


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_verification_without_url_elicitation_returns_link(harness: Town, capabilities: Any) -> None:
    told = (await modern(harness, capabilities))["result"]
    assert told["isError"] is True
    assert URL in told["content"][0]["text"]
    assert told["_meta"]["dev.toolhall/verification"]["how"] == "approval"


async def test_verification_in_2025_11_25_has_error_code(harness: Town) -> None:
    error = (await legacy(harness, NOVEMBER, PAGES))["error"]
    assert error["code"] == -32042
    (page,) = error["data"]["elicitations"]
    assert (page["mode"], page["url"]) == ("url", URL + page["elicitationId"])


@pytest.mark.parametrize(("revision", "capabilities"), [(NOVEMBER, {}), (JUNE, {}), (JUNE, PAGES)])
async def test_verification_in_2025_06_18_returns_link(harness: Town, revision: str, capabilities: Any) -> None:
    told = (await legacy(harness, revision, capabilities))["result"]
    assert told["isError"] is True
    assert URL in told["content"][0]["text"]


async def test_verification_in_oxp_has_check_url(harness: Town) -> None:
    body = json.dumps({"request": {"tool_id": "Ladder.step9", "input": {"colour": "blue"}}}).encode()
    reply = await harness.post("/oxp/tools/call", body, "ada", {})
    (page,) = json.loads(reply.body)["missing_requirements"]["authorization"]
    assert (reply.status, page["url"], page["check_url"]) == (400, URL + page["id"], f"{page['url']}/status")
    path = page["check_url"].removeprefix("http://localhost:8000")
    assert await status(harness, path) == (200, "pending")
    await approve(harness, page["id"])
    assert await status(harness, path) == (200, "completed")
    assert json.loads((await harness.post("/oxp/tools/call", body, "ada", {})).body)["result"]["success"] is True
    assert await status(harness, path) == (200, "completed")
    assert await status(harness, "/approve/nothing/status") == (404, "failed")


async def status(harness: Town, path: str) -> tuple[int, str]:
    reply = await visit(harness.hall.http, path, b"", {}, method="GET")
    return reply.status, json.loads(reply.body)["status"]


async def test_verification_in_hub_has_error_codes(harness: Town) -> None:
    for level, code in ((8, "STEP_UP_REQUIRED"), (9, "APPROVAL_REQUIRED"), (10, "APPROVAL_REQUIRED")):
        message = {"type": "tool_request", "id": "1", "tool": "Ladder", "method": f"step{level}", "params": {}}
        error = json.loads((await harness.post("/hub", json.dumps(message).encode(), "ada", {})).body)["error"]
        assert (error["code"], error["details"]["url"]) == (code, URL + error["details"]["id"])


async def test_verification_in_machine_and_rest_has_error_codes(harness: Town) -> None:
    header = {"version": "1.0", "messageId": "1", "messageType": "request", "timestamp": "x", "source": "t"}
    asked = {"header": header, "payload": {"tool": {"id": "Ladder", "capability": "step9", "parameters": {}}}}
    error = json.loads((await harness.post("/machine", json.dumps(asked).encode(), "ada", {})).body)["error"]
    assert error["code"] == "SECURITY_ERROR"
    assert error["details"]["reason"] == "additional_verification_required"
    assert error["details"]["url"] == URL + error["details"]["id"]
    reply = await harness.post("/tools/Ladder/step9", b"{}", "ada", {})
    details = json.loads(reply.body)["error"]["details"]
    assert (reply.status, details["how"], details["url"]) == (403, "approval", URL + details["id"])


@pytest.mark.threat("C2")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way().dialect)
@pytest.mark.parametrize("level", [8, 9, 10])
async def test_verified_call_runs(harness: Town, way: Any, level: int) -> None:
    """In every dialect: refused, approved, run; and from level 9 on asked for anew, because one yes is one call."""
    call, talk = Call("ada", "Ladder", f"step{level}", {"colour": "red"}), way()
    assert talk.read(await talk.send(harness, call), "object").word != "ok"
    (waiting,) = await harness.hall.approval_components.approvals.store.pending()
    await approve(harness, waiting.id)
    words = [talk.read(await talk.send(harness, call), "object").word for _ in range(2)]
    assert words[0] == "ok"
    assert (words[1] == "ok") is (level == 8)
    intents = [each for each in harness.take()[0] if each.phase == "intent"]
    assert {each.approval for each in intents} == {waiting.id}


async def test_verification_does_not_cover_other_calls(harness: Town) -> None:
    talk = Mcp(MODERN)
    await talk.send(harness, Call("ada", "Ladder", "step9", {"colour": "red"}))
    (waiting,) = await harness.hall.approval_components.approvals.store.pending()
    await approve(harness, waiting.id)
    await talk.send(harness, Call("ada", "Ladder", "step9", {"colour": "blue"}))
    assert harness.ladder.entered == []
