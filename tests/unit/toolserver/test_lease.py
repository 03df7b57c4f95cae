"""A lease: joined, kept, lost, joined again, and left."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.servers.http_server import HttpRequest, HttpResponse, run_http_server
from toolhall.dialects.error_details import problems_of
from toolhall.dialects.findings import Finding
from toolhall.dialects.hub.lease_messages import HubRefusal, LeaseUnknown, RetryableRefusal, read_result
from toolhall.model.json import JsonObject
from toolhall.registration.rules import BrokenPromise
from toolhall.toolserver.lease import HttpHubClient, HubUnavailable, LeaseClient, backoff_delays

PARAMS: JsonObject = {"server": "s", "replica": "r", "tools": []}


class ScriptedHub:
    """A hub with scripted answers that records requests."""

    def __init__(self, *answers: Any, heartbeat: float = 0.01) -> None:
        self.asked: list[tuple[str, JsonObject]] = []
        self._answers = list(answers)
        self._heartbeat = heartbeat

    async def request(self, method: str, params: JsonObject, seconds: float = 10.0) -> Any:
        self.asked.append((method, params))
        answer = self._answers.pop(0) if self._answers else "stop"
        if answer == "stop":
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        if answer == "lease":
            return {"lease": f"l{len(self.asked)}", "heartbeat": self._heartbeat, "tools": {"A.b@1.0.0": "quarantined"}}
        return answer

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]


async def status() -> str:
    return "degraded"


async def test_lease_client_joins_and_sends_heartbeats_with_status() -> None:
    hall, joining = ScriptedHub("lease", {"status": "ok"}, HubUnavailable("gone")), LeaseClient(PARAMS, status)
    with pytest.raises(HubUnavailable, match="gone"):
        await joining.run(hall)
    beat = ("heartbeat", {"lease": "l1", "status": "degraded"})
    assert hall.asked == [("join", PARAMS), beat, beat]
    assert joining.joined.is_set()


async def test_lease_client_unknown_lease_joins_again() -> None:
    hall, joining = (
        ScriptedHub("lease", LeaseUnknown("who?"), "lease", HubUnavailable("gone")),
        LeaseClient(PARAMS, status),
    )
    await joining.run(hall)
    with pytest.raises(HubUnavailable):
        await joining.run(hall)
    assert hall.methods == ["join", "heartbeat", "join", "heartbeat"]
    assert joining.granted is not None
    assert joining.granted.lease == "l3"


async def test_lease_client_first_refusal_is_final() -> None:
    joining = LeaseClient(PARAMS, status)
    with pytest.raises(HubRefusal, match="not you"):
        await joining.run(ScriptedHub(HubRefusal("not you")))
    await joining.run(ScriptedHub("lease", LeaseUnknown("who?")))
    with pytest.raises(HubUnavailable, match="not you"):
        await joining.run(ScriptedHub(HubRefusal("not you")))


@pytest.mark.parametrize("answer", [RetryableRefusal("busy"), {"no": "lease"}, None, {"lease": 3}])
async def test_lease_client_invalid_response_is_retried(answer: Any) -> None:
    with pytest.raises(HubUnavailable):
        await LeaseClient(PARAMS, status).run(ScriptedHub(answer))


async def test_lease_client_logs_unavailable_hall_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolhall.toolserver.lease._MIN_BACKOFF_SECONDS", 0.001)
    joining = LeaseClient(PARAMS, status)
    for _ in range(3):
        await joining.back_off(HubUnavailable("no route"))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "no route" in caplog.text
    await joining.run(ScriptedHub("lease", LeaseUnknown("who?")))
    assert "joined the hall again" in caplog.text
    await joining.back_off(HubUnavailable("no route"))
    assert caplog.text.count("no route") == 2


def test_backoff_delays_grow_with_jitter() -> None:
    longest, shortest = backoff_delays(lambda: 1.0), backoff_delays(lambda: 0.0)
    assert [next(longest) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert [next(shortest) for _ in range(5)] == [0.75, 1.5, 3.0, 3.75, 3.75]


async def test_lease_client_logs_tool_state_change_once(caplog: pytest.LogCaptureFixture) -> None:
    active = {"status": "ok", "tools": {"A.b@1.0.0": "active"}}
    with pytest.raises(HubUnavailable):
        await LeaseClient(PARAMS, status).run(ScriptedHub("lease", active, active, HubUnavailable("gone")))
    assert caplog.text.count("A.b@1.0.0 is active in the hall now") == 1


async def test_lease_client_after_leave_sends_nothing() -> None:
    hall, joining = ScriptedHub("lease", {"status": "left"}, "stop"), LeaseClient(PARAMS, status)
    staying = asyncio.create_task(joining.run(hall))
    await joining.joined.wait()
    await joining.leave(hall)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(staying), 0.1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(joining.run(hall), 0.05)
    staying.cancel()
    await asyncio.gather(staying, return_exceptions=True)
    assert hall.methods == ["join", "leave"]


@pytest.mark.parametrize("answer", [HubUnavailable("gone"), LeaseUnknown("who?")])
async def test_lease_client_failed_leave_is_harmless(answer: Exception) -> None:
    hall, joining = ScriptedHub("lease", HubUnavailable("gone"), answer), LeaseClient(PARAMS, status)
    with pytest.raises(HubUnavailable):
        await joining.run(hall)
    await joining.leave(hall)
    assert hall.methods[-1] == "leave"


async def test_lease_client_leave_is_repeated_while_hall_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.toolserver.lease._MIN_BACKOFF_SECONDS", 0.001)
    answers = [HubUnavailable("gone"), RetryableRefusal("busy"), RetryableRefusal("busy"), {"status": "left"}]
    hall, joining = ScriptedHub("lease", *answers), LeaseClient(PARAMS, status)
    with pytest.raises(HubUnavailable):
        await joining.run(hall)
    await joining.leave(hall)
    assert hall.asked[-3:] == [("leave", {"lease": "l1"})] * 3


async def test_lease_client_leave_gives_up_after_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("toolhall.toolserver.lease.LEAVE_SECONDS", 0.01)
    hall, joining = ScriptedHub("lease", HubUnavailable("gone"), RetryableRefusal("busy")), LeaseClient(PARAMS, status)
    with pytest.raises(HubUnavailable):
        await joining.run(hall)
    await joining.leave(hall)
    assert hall.methods[-1] == "leave"
    assert "could not leave the hall" in caplog.text


async def test_lease_client_leave_without_join_does_nothing() -> None:
    hall = ScriptedHub()
    await LeaseClient(PARAMS, status).leave(hall)
    assert hall.asked == []


def replying(status: int, said: Any) -> Callable[[HttpRequest], HttpResponse]:
    """Bytes as they are, an error by its code, or a whole message."""

    def answer(asked: HttpRequest) -> HttpResponse:
        body = (
            response(json.loads(asked.body), error={"code": said, "message": "no"}) if isinstance(said, str) else said
        )
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return HttpResponse(status, sent, (("location", "http://127.0.0.1:1/hub"),))

    return answer


def response(message: JsonObject, result: Any = None, error: Any = None) -> JsonObject:
    return {"type": "response", "id": message["id"], "result": result, "error": error}


async def test_http_hub_client_sends_request_with_key() -> None:
    seen: list[HttpRequest] = []

    def answer(asked: HttpRequest) -> HttpResponse:
        seen.append(asked)
        return HttpResponse(200, json.dumps(response(json.loads(asked.body), {"lease": "l"})).encode())

    with run_http_server(answer) as url:
        hall = HttpHubClient(url, "the-key")
        assert await hall.request("join", {"server": "s"}) == {"lease": "l"}
        await hall.close()
    (asked,) = seen
    assert (asked.method, asked.path, asked.headers["authorization"]) == ("POST", "/hub", "Bearer the-key")
    assert json.loads(asked.body) == {"type": "request", "id": "1", "method": "join", "params": {"server": "s"}}


@pytest.mark.parametrize(
    ("status", "said", "kind", "words"),
    [
        (403, "FORBIDDEN", HubRefusal, "no"),
        (400, "LEASE_UNKNOWN", LeaseUnknown, "no"),
        (429, "RATE_LIMITED", RetryableRefusal, "no"),
        (503, "UNAVAILABLE", RetryableRefusal, "503"),
        (502, b"<html>", HubUnavailable, "502"),
        (401, {"error": "who are you"}, HubRefusal, "401"),
        (404, b"<html>", HubRefusal, "404"),
        (200, b"<html>", RetryableRefusal, "cannot be read; is it a hall"),
        (200, {"type": "response", "id": "other", "result": {}}, RetryableRefusal, "another request; is it a hall"),
        (200, {"type": "tool_log", "id": "1", "level": "info"}, RetryableRefusal, "it responded to another request"),
        (302, b"", HubRefusal, "sends on"),
        (200, b" " * (5 << 20), HubUnavailable, "too large"),
    ],
    ids=lambda each: "" if isinstance(each, bytes | dict) else None,
)
async def test_http_hub_client_responses_map_to_errors(
    status: int, said: Any, kind: type[Exception], words: str
) -> None:
    with run_http_server(replying(status, said)) as url:
        hall = HttpHubClient(url, "")
        with pytest.raises(kind, match=words) as raised:
            await hall.request("join", {})
        await hall.close()
    assert type(raised.value) is kind


async def test_http_hub_client_unreachable_is_hub_unavailable() -> None:
    hall = HttpHubClient("http://127.0.0.1:1", "")
    with pytest.raises(HubUnavailable, match="cannot be reached"):
        await hall.request("join", {})
    await hall.close()


def test_hub_refusal_repeated_problems_are_merged() -> None:
    refused = BrokenPromise([Finding("/tool/version", "contract/changed", "raise it"), Finding("/b", "r", "mend it")])
    error = {"code": "INVALID_PARAMS", "message": refused.message, "details": {"problems": problems_of(refused)}}
    with pytest.raises(HubRefusal) as raised:
        read_result(json.dumps({"type": "response", "id": "1", "result": None, "error": error}).encode(), "1")
    assert raised.value.message == refused.message
    assert raised.value.message.count("raise it") == 1


def test_hub_refusal_lists_every_problem() -> None:
    problems = [{"path": f"/{number}", "fix": "mend it"} for number in range(7)]
    error = {"code": "INVALID_PARAMS", "message": "no", "details": {"problems": problems}}
    with pytest.raises(HubRefusal) as raised:
        read_result(json.dumps({"type": "response", "id": "1", "result": None, "error": error}).encode(), "1")
    assert raised.value.message.startswith("no; /0: mend it; /1: mend it")
    assert raised.value.message.endswith("/4: mend it; and 2 more")
