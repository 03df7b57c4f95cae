"""A read or a prompt that a person must verify first: said in each revision of MCP, shown whole, and bound to it."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.harness.asgi_client import post_json
from toolhall import Config, Toolhall, Toolkit, prompt, resource
from toolhall.model.json import Json
from toolhall.registration.access import NewGrant, NewKey
from toolhall.stores.approvals import Approval, Decision

JUNE, NOVEMBER, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
URL = "http://localhost:8000/approve/"
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
ACCEPT = {"accept": "application/json, text/event-stream"}
READ = ("resources/read", {"uri": "vault://letters/7?lang=no"})
PROMPT = ("prompts/get", {"name": "Vault_write", "arguments": {"to": "Ada"}})
BOTH = pytest.mark.parametrize("request_", [READ, PROMPT], ids=["read", "prompt"])


class Vault(Toolkit, name="Vault", version="1.0.0", level=9):
    """What only a person may open."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    @resource("vault://letters/{number}{?lang}")
    async def letter(self, number: int, lang: str = "en") -> str:
        """One letter."""
        self.opened.append(f"{number} {lang}")
        return f"Letter {number} in {lang}"

    @prompt
    async def write(self, to: str) -> str:
        """Writes a letter."""
        self.opened.append(to)
        return f"Dear {to}"


class VaultHall:
    """A hall with the vault, and one caller with a key."""

    def __init__(self) -> None:
        self.vault = Vault()
        self.hall = Toolhall(self.vault, config=Config(profile="server", public_url="http://localhost:8000"))
        self._key = ""

    async def open(self) -> None:
        await self.hall.open()
        _, self._key = await self.hall.access.keys.create(NewKey(name="ada"), "test")
        await self.hall.access.grants.add(NewGrant(callers="ada", tools="Vault.*"), "test")

    async def post(self, message: Any, headers: Mapping[str, str]) -> Any:
        sent = json.dumps({"jsonrpc": "2.0", **message}).encode()
        key = {"authorization": f"Bearer {self._key}"}
        return await post_json(self.hall.http, "/mcp", sent, key | ACCEPT | dict(headers))

    async def modern(self, request: tuple[str, Any], capabilities: Any, **more: Any) -> Any:
        method, params = request
        meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": capabilities}
        message = {"id": 1, "method": method, "params": {**params, "_meta": meta, **more}}
        name = params.get("uri", params.get("name"))
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": name}
        return json.loads((await self.post(message, headers)).body)

    async def legacy(self, revision: str, request: tuple[str, Any], capabilities: Any) -> Any:
        method, params = request
        hello = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
        session = (await self.post({"id": 0, "method": "initialize", "params": hello}, {})).headers["mcp-session-id"]
        headers = {"mcp-session-id": session, "mcp-protocol-version": revision}
        text = (await self.post({"id": 1, "method": method, "params": params}, headers)).body.decode()
        return json.loads(text.rpartition("data: ")[2] if text.startswith(("event:", "id:", "data:")) else text)

    async def approval(self, url: str) -> Approval:
        found = await self.hall.approval_components.approvals.store.find(url.removeprefix(URL))
        assert found is not None
        return found

    async def approve(self, url: str) -> None:
        store = self.hall.approval_components.approvals.store
        assert await store.decide(url.removeprefix(URL), Decision("approved", "ada", "totp")) is not None


@pytest.fixture
async def hall() -> AsyncIterator[VaultHall]:
    made = VaultHall()
    with made.hall:
        await made.open()
        yield made


@BOTH
async def test_verification_stateless_asks_to_visit_url_and_the_approved_request_runs(
    hall: VaultHall, request_: tuple[str, Any]
) -> None:
    asked = (await hall.modern(request_, PAGES))["result"]
    assert asked["resultType"] == "input_required"
    ((key, question),) = asked["inputRequests"].items()
    url = question["params"]["url"]
    assert url.startswith(URL)
    retry: dict[str, Json] = {"requestState": asked["requestState"], "inputResponses": {key: {"action": "accept"}}}
    again = (await hall.modern(request_, PAGES, **retry))["result"]
    assert again["resultType"] == "input_required", "what a client says is no person's yes"
    assert hall.vault.opened == []
    await hall.approve(url)
    retry["requestState"] = again["requestState"]
    done = (await hall.modern(request_, PAGES, **retry))["result"]
    assert "contents" in done or "messages" in done
    assert len(hall.vault.opened) == 1


@BOTH
async def test_verification_in_2025_11_25_has_error_code(hall: VaultHall, request_: tuple[str, Any]) -> None:
    error = (await hall.legacy(NOVEMBER, request_, PAGES))["error"]
    assert error["code"] == -32042
    (page,) = error["data"]["elicitations"]
    assert page["url"].startswith(URL)
    await hall.approve(page["url"])
    assert "result" in await hall.legacy(NOVEMBER, request_, PAGES)


@BOTH
@pytest.mark.parametrize(("revision", "capabilities"), [(JUNE, PAGES), (JUNE, {}), (NOVEMBER, {})])
async def test_verification_without_url_elicitation_has_the_link_in_data(
    hall: VaultHall, request_: tuple[str, Any], revision: str, capabilities: Any
) -> None:
    error = (await hall.legacy(revision, request_, capabilities))["error"]
    assert -32019 <= error["code"] <= -32000
    assert error["data"]["dev.toolhall/verification"]["url"].startswith(URL)
    assert URL in error["message"]
    assert hall.vault.opened == []


async def test_approval_of_a_read_shows_uri_and_variables_and_is_bound_to_both(hall: VaultHall) -> None:
    error = (await hall.legacy(JUNE, READ, {}))["error"]
    url = error["data"]["dev.toolhall/verification"]["url"]
    found = await hall.approval(url)
    assert (found.tool, found.level) == ("Vault.letter@1.0.0", 9)
    assert json.loads(found.shown) == {
        "uri": "vault://letters/7?lang=no",
        "variables": {"number": 7, "lang": "no"},
    }
    await hall.approve(url)
    # Another value, and another spelling of the same value, are other reads.
    for uri in ("vault://letters/8?lang=no", "vault://letters/7?lang=%6Eo"):
        assert "error" in await hall.legacy(JUNE, ("resources/read", {"uri": uri}), {})
    assert hall.vault.opened == []
    assert "result" in await hall.legacy(JUNE, READ, {})
    assert "error" in await hall.legacy(JUNE, READ, {}), "an approval is used once"
    assert hall.vault.opened == ["7 no"]


async def test_approval_of_a_prompt_shows_its_arguments_and_is_bound_to_them(hall: VaultHall) -> None:
    url = (await hall.legacy(JUNE, PROMPT, {}))["error"]["data"]["dev.toolhall/verification"]["url"]
    assert json.loads((await hall.approval(url)).shown) == {"to": "Ada"}
    await hall.approve(url)
    assert "error" in await hall.legacy(JUNE, ("prompts/get", {"name": "Vault_write", "arguments": {"to": "Eve"}}), {})
    assert "result" in await hall.legacy(JUNE, PROMPT, {})
    assert hall.vault.opened == ["Ada"]
