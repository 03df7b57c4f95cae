"""The dialects' own words for health follow the state of the core."""

import json
from typing import Any

import pytest

from toolhall import Toolhall, tool
from toolhall.model.caller import LOCAL
from toolhall.transports.exchange import Exchange
from toolhall.transports.hub import Hub, configure
from toolhall.transports.oxp import OxpHttp
from toolhall.transports.shield import Shield


@tool
def pick() -> str:
    return "one"


@pytest.mark.parametrize("state", ["healthy", "degraded", "unhealthy"])
async def test_the_hub_tells_the_state_of_the_core(state: str) -> None:
    with Toolhall(pick) as hall:
        hub = Hub(hall.hall, hall.registrar, configure, lambda: state)
        wire = await hub.answer(b'{"type":"request","method":"health_check"}', LOCAL)
        result = json.loads(wire.body)["result"]
        assert (result["status"], result["components"]["core"]) == (state, state)


@pytest.mark.parametrize(("state", "status"), [("healthy", 200), ("degraded", 200), ("unhealthy", 503)])
async def test_oxp_is_not_ready_once_the_core_stops(state: str, status: int) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    with Toolhall(pick) as hall:
        oxp = OxpHttp(hall.hall, Shield(), new_id=lambda: "1", state=lambda: state)
        await oxp.health(Exchange("GET", {}, LOCAL, receive, send))
    assert sent[0]["status"] == status
