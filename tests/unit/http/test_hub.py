"""The dialects' own words for health follow the state of the core."""

import asyncio
import json
from typing import Any

import pytest

from toolhall import Toolhall, tool
from toolhall.http.health import ComponentHealth
from toolhall.http.hub import HubHandler, apply_runtime_config
from toolhall.http.oxp import OxpHttp
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import LOCAL


@tool
def pick() -> str:
    return "one"


@pytest.mark.parametrize("state", ["healthy", "degraded", "unhealthy"])
async def test_hub_health_reports_core_state(state: str) -> None:
    with Toolhall(pick) as hall:
        hub = HubHandler(hall.dispatcher, hall.registration, apply_runtime_config, lambda: state)
        wire = await hub.answer(b'{"type":"request","method":"health_check"}', LOCAL)
        result = json.loads(wire.body)["result"]
        assert (result["status"], result["components"]["core"]) == (state, state)


async def test_hub_method_that_waits_calls_the_hook_once() -> None:
    finish, heard = asyncio.Event(), list[str]()

    async def check_components() -> ComponentHealth:
        await finish.wait()
        return ComponentHealth()

    with Toolhall(pick) as hall:
        hub = HubHandler(hall.dispatcher, hall.registration, apply_runtime_config, check_components=check_components)
        body = b'{"type":"request","method":"health_check"}'
        answer = asyncio.ensure_future(hub.answer(body, LOCAL, on_suspend=lambda: heard.append("waiting")))
        await asyncio.sleep(0)
        assert heard == ["waiting"]
        finish.set()
        assert json.loads((await answer).body)["result"]["status"] == "healthy"
        assert heard == ["waiting"]


@pytest.mark.parametrize(("state", "status"), [("healthy", 200), ("degraded", 200), ("unhealthy", 503)])
async def test_oxp_health_of_unhealthy_core_is_503(state: str, status: int) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    with Toolhall(pick) as hall:
        oxp = OxpHttp(hall.dispatcher, RequestValidator(), new_id=lambda: "1", state=lambda: state)
        await oxp.health(HttpRequest({"method": "GET"}, {}, LOCAL, receive, send))
    assert sent[0]["status"] == status
