"""Whoever may manage a hall over the network runs no program on its machine."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.test_upstreams import opened
from tests.unit.http.api.management_client import manage
from toolhall import Toolhall
from toolhall.config import Config
from toolhall.model.caller import ADMIN
from toolhall.registration.access import NewKey

PARTS: dict[str, Any] = {
    "command": "touch",
    "args": ["ran"],
    "env": {"LD_PRELOAD": "ran"},
    "cwd": "/",
    "start": "always",
    "max_memory": 1,
}


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Toolhall]:
    async with opened(config=Config(data=str(tmp_path / "data"))) as hall:
        yield hall


def commands(target: str) -> list[dict[str, Any]]:
    """Settings that name a program, alone or hidden beside a URL."""
    url = "https://mcp.example.com/mcp"
    named = {"command": "touch", "args": [target], "start": "always"}
    return [named, {"url": url, **named}, *({"url": url, part: value} for part, value in PARTS.items())]


@pytest.mark.threat("H1")
@pytest.mark.parametrize("who", ["the person at this machine", "an administrator"])
async def test_command_over_the_network_is_refused_and_never_runs(hall: Toolhall, tmp_path: Path, who: str) -> None:
    headers = {}
    if who == "an administrator":
        _, secret = await hall.access.keys.create(NewKey("admin", scopes=(ADMIN,)), "tests")
        headers = {"authorization": f"Bearer {secret}"}
    ran = tmp_path / "ran"
    for settings in commands(str(ran)):
        reply = await manage(hall, "POST", "/api/upstreams", {"name": "Evil", "settings": settings}, headers)
        assert reply.status == 403, settings
        assert "a command is not taken over the network" in reply.body["error"]["message"]
    assert (await manage(hall, "GET", "/api/upstreams")).body == {"upstreams": []}
    assert not ran.exists()


@pytest.mark.threat("H1")
@pytest.mark.parametrize(
    "body",
    [
        {"name": "Evil", "settings": {"url": "file:///bin/sh"}},
        {"name": "Evil", "settings": {"url": "stdio:touch"}},
        {"name": "Evil", "settings": ["touch", "ran"]},
        {"name": "Evil", "settings": {"url": {"command": "touch"}}},
        {"name": "Evil", "settings": {"url": "https://mcp.example.com/mcp", "Command": "touch"}},
        {"name": "Evil", "command": "touch", "settings": {"url": "https://mcp.example.com/mcp"}},
        {"mcpServers": {"Evil": {"command": "touch", "args": ["ran"]}}},
    ],
)
async def test_command_in_another_shape_is_no_upstream(hall: Toolhall, body: Any) -> None:
    assert (await manage(hall, "POST", "/api/upstreams", body)).status in (400, 409)
    assert (await manage(hall, "GET", "/api/upstreams")).body == {"upstreams": []}
