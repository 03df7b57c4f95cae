"""A call whose tool needs what is not there yet: said in every dialect's own words, with the pages to visit."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.properties.callers.house import Reply, visit
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.model.errors import NeedsRequirement
from toolhall.model.requirements import AccountRequirement, MissingRequirement

JUNE, NOVEMBER, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
ACCEPT = {"accept": "application/json, text/event-stream"}
URL = "https://hall.example/connect/"
MAIL = MissingRequirement("account", "mail", f"{URL}mail", AccountRequirement("google", ("mail.read",)))
CODE = MissingRequirement("account", "code", f"{URL}code", AccountRequirement("github"))
KEY, USER = MissingRequirement("secret", "SMS_KEY"), MissingRequirement("user_id")
KINDS = {"account": [MAIL], "accounts": [MAIL, CODE], "secret": [KEY], "user": [USER], "both": [MAIL, KEY]}


class Post(Toolkit, name="Post", version="1.0.0"):
    """Needs something of each kind, until it is there."""

    def __init__(self) -> None:
        self.linked = False

    @tool
    async def send(self, kind: str) -> str:
        """Send a letter."""
        if self.linked:
            return "sent"
        raise NeedsRequirement(f"{kind} is not there yet", missing=KINDS[kind])


class LocalHall:
    """A hall called by the local caller."""

    def __init__(self) -> None:
        self.tools = Post()
        self.hall = Toolhall(self.tools, config=Config())

    async def post(self, path: str, message: Any, **headers: str) -> Reply:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        return await visit(self.hall.http, path, json.dumps(message).encode(), said, client="127.0.0.1")

    async def modern(self, kind: str, capabilities: Any, **more: Any) -> Any:
        """`tools/call` of the newest revision."""
        meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": capabilities}
        params = {"name": "Post_send", "arguments": {"kind": kind}, "_meta": meta, **more}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "Post_send"}
        return json.loads((await self.post("/mcp", message, **headers)).body)["result"]

    async def legacy(self, revision: str, kind: str, capabilities: Any) -> Any:
        """The same in a session."""
        hello = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
        opened = await self.post("/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, **ACCEPT)
        headers = ACCEPT | {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": revision}
        params = {"name": "Post_send", "arguments": {"kind": kind}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        text = (await self.post("/mcp", message, **headers)).body.decode()
        return json.loads(text.rpartition("data: ")[2] if text.startswith(("event:", "id:", "data:")) else text)


@pytest.fixture
async def local_hall() -> AsyncIterator[LocalHall]:
    local_hall = LocalHall()
    with local_hall.hall:
        await local_hall.hall.open()
        yield local_hall


async def test_requirements_stateless_asks_to_visit_urls(local_hall: LocalHall) -> None:
    asked = await local_hall.modern("accounts", PAGES)
    assert asked["resultType"] == "input_required"
    questions = asked["inputRequests"]
    assert [each["params"]["url"] for each in questions.values()] == [f"{URL}mail", f"{URL}code"]
    assert {(each["method"], each["params"]["mode"]) for each in questions.values()} == {("elicitation/create", "url")}
    said = [each["params"]["message"] for each in questions.values()]
    assert ("google for mail.read" in said[0], "github" in said[1]) == (True, True)
    retry = {"requestState": asked["requestState"], "inputResponses": {key: {"action": "accept"} for key in questions}}
    again = await local_hall.modern("accounts", PAGES, **retry)
    assert again["resultType"] == "input_required", "what a client says links no account"
    local_hall.tools.linked = True
    retry["requestState"] = again["requestState"]
    done = await local_hall.modern("accounts", PAGES, **retry)
    assert (done["resultType"], done["content"][0]["text"]) == ("complete", "sent")


async def test_requirements_declined_returns_links(local_hall: LocalHall) -> None:
    asked = await local_hall.modern("accounts", PAGES)
    first, second = asked["inputRequests"]
    replies = {first: {"action": "accept"}, second: {"action": "decline"}}
    told = await local_hall.modern("accounts", PAGES, requestState=asked["requestState"], inputResponses=replies)
    assert told["isError"] is True
    assert all(f"{URL}{each}" in told["content"][0]["text"] for each in ("mail", "code"))


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_requirements_without_url_elicitation_returns_link(local_hall: LocalHall, capabilities: Any) -> None:
    told = await local_hall.modern("account", capabilities)
    assert told["isError"] is True
    assert f"{URL}mail" in told["content"][0]["text"]
    assert told["_meta"]["dev.toolhall/missing"][0]["url"] == f"{URL}mail"


@pytest.mark.parametrize("kind", ["secret", "user", "both"])
async def test_requirements_without_page_are_reported(local_hall: LocalHall, kind: str) -> None:
    told = await local_hall.modern(kind, PAGES)
    assert told["isError"] is True
    assert told["content"][0]["text"].startswith(f"{kind} is not there yet")
    assert [each["kind"] for each in told["_meta"]["dev.toolhall/missing"]] == [each.kind for each in KINDS[kind]]


async def test_requirements_in_2025_11_25_have_error_code(local_hall: LocalHall) -> None:
    error = (await local_hall.legacy(NOVEMBER, "accounts", PAGES))["error"]
    assert error["code"] == -32042
    pages = error["data"]["elicitations"]
    assert [(each["mode"], each["url"], each["elicitationId"]) for each in pages] == [
        ("url", f"{URL}mail", "mail"),
        ("url", f"{URL}code", "code"),
    ]


@pytest.mark.parametrize(("revision", "capabilities"), [(NOVEMBER, {}), (JUNE, {}), (JUNE, PAGES)])
async def test_requirements_in_2025_06_18_return_link(local_hall: LocalHall, revision: str, capabilities: Any) -> None:
    told = (await local_hall.legacy(revision, "account", capabilities))["result"]
    assert told["isError"] is True
    assert f"{URL}mail" in told["content"][0]["text"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("account", {"authorization": [{"id": "mail", "url": f"{URL}mail", "check_url": f"{URL}mail/status"}]}),
        ("secret", {"secrets": [{"id": "SMS_KEY"}]}),
        ("user", {"user_id": True}),
    ],
)
async def test_requirements_in_oxp_list_missing(local_hall: LocalHall, kind: str, expected: Any) -> None:
    reply = await local_hall.post("/oxp/tools/call", {"request": {"tool_id": "Post.send", "input": {"kind": kind}}})
    assert (reply.status, json.loads(reply.body)["missing_requirements"]) == (400, expected)


async def test_requirements_in_hub_have_error_codes(local_hall: LocalHall) -> None:
    for kind, status, code in (
        ("account", 403, "AUTHORIZATION_REQUIRED"),
        ("user", 403, "AUTHORIZATION_REQUIRED"),
        ("secret", 500, "INTERNAL_ERROR"),
    ):
        message = {"type": "tool_request", "id": "1", "tool": "Post", "method": "send", "params": {"kind": kind}}
        reply = await local_hall.post("/hub", message)
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"]) == (status, code)
        assert [each["kind"] for each in error["details"]["missing"]] == [each.kind for each in KINDS[kind]]
        assert error["details"].get("url") == (f"{URL}mail" if kind == "account" else None)


async def test_requirements_in_machine_and_rest_have_error_codes(local_hall: LocalHall) -> None:
    header = {"version": "1.0", "messageId": "1", "messageType": "request", "timestamp": "x", "source": "t"}
    asked = {"tool": {"id": "Post", "capability": "send", "parameters": {"kind": "account"}}}
    reply = await local_hall.post("/machine", {"header": header, "payload": asked})
    error = json.loads(reply.body)["error"]
    assert (error["code"], error["details"]["reason"]) == ("SECURITY_ERROR", "requirement_missing")
    assert (error["details"]["url"], error["details"]["provider"]) == (f"{URL}mail", "google")
    reply = await local_hall.post("/tools/Post/send", {"kind": "account"})
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (403, "needs_requirement")
    assert (error["details"]["check_url"], error["details"]["scopes"]) == (f"{URL}mail/status", ["mail.read"])
