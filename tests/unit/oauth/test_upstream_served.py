"""A served hall whose upstream wants accounts: the person links one, and the tools of the upstream can be called."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.harness.patience import patience
from tests.harness.server_process import serving
from tests.servers import account_tools
from tests.servers.protected_upstream import ProtectedUpstream, protected_upstream
from tests.servers.scripted_authority import json_response
from tests.servers.served_hall import NetworkBrowser, ServedHall


@pytest.fixture
def notes() -> Iterator[ProtectedUpstream]:
    with protected_upstream() as server:
        yield server


async def listed(hall: ServedHall) -> str:
    """The id of the upstream's tool, once the hall has it."""
    async with asyncio.timeout(patience()):
        while True:
            _, said = hall.ask("GET", "/oxp/tools")
            for each in said["items"]:
                if each["id"].startswith("notes."):
                    return str(each["id"])
            await asyncio.sleep(0.05)


async def test_served_hall_calls_an_upstream_with_the_account_that_its_user_linked(
    notes: ProtectedUpstream, tmp_path: Path
) -> None:
    upstreams = json.dumps({"notes": {"url": notes.url, "auth": "oauth"}})
    allowed = ",".join(urlsplit(each).netloc for each in (notes.origin, notes.authority.issuer))
    with serving(tmp_path, Path(account_tools.__file__), upstreams=upstreams, egress_allow=allowed) as server:
        hall = ServedHall(server.port)
        status, link = hall.ask("POST", "/api/accounts", {"provider": "upstream:notes"})
        assert status == 202, link
        assert (await NetworkBrowser(hall).connect(link["url"])).status == 200
        assert hall.status(link["check_url"]) == "completed"
        tool = await listed(hall)
        status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": tool}})
        assert (status, said["result"]["success"]) == (200, True), said
        notes.refused.add(notes.authority.issued[0])
        status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": tool}})
        assert (status, said["result"]["success"]) == (200, True), said
        notes.refused.update(notes.authority.issued)
        notes.authority.paths["/token"] = lambda _: json_response({"error": "invalid_grant"}, 400)
        status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": tool}})
        (missing,) = said["missing_requirements"]["authorization"]
        assert (status, hall.status(missing["check_url"])) == (400, "pending")
    first, second = notes.authority.issued
    called = [each.headers["authorization"] for each in notes.received if b"tools/call" in each.body]
    assert called == [f"Bearer {each}" for each in (first, first, second, second)]
    assert not [each for each in notes.authority.issued if each.encode() in bytes(hall.seen)]
