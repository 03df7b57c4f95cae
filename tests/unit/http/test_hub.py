"""The dialects' own words for health follow the state of the core."""

import json
from typing import Any

import pytest

from toolhall import Toolhall, tool
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
