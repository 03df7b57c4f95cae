"""Browser sessions: what a cookie proves, where, for how long, and what a step-up changes."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.web.browser_client import ApprovalHall, Browser, Reply
from toolhall import Toolhall, tool
from toolhall.config import Config
from toolhall.model.call_records import AuditRecord
from toolhall.registration.access import NewGrant, NewKey
from toolhall.stores.audit.filters import AuditQuery
from toolhall.web.sessions import IDLE_SECONDS, LONGEST_SECONDS, PROOF_SECONDS, BrowserSessions

SERVER = Config(profile="server", public_url="http://localhost:8000")
OWN_PAGE = {"sec-fetch-site": "same-origin"}


@pytest.fixture
async def house() -> AsyncIterator[ApprovalHall]:
    house = ApprovalHall(SERVER)
    with house.hall:
        yield house


class Person:
    """A person with an API key, whose browser has a session at a hall."""

    def __init__(self, hall: Toolhall, key: str) -> None:
        self.hall = hall
        self.key = key
        self.browser = Browser(hall, address="192.0.2.7")
        session = self.sessions.new(key=key)
        self.token = self.sessions.csrf_token(session, "/api")
        self.keep(self.sessions.set_cookie(session))

    @property
    def sessions(self) -> BrowserSessions:
        return self.hall.approval_components.sessions

    def keep(self, header: tuple[bytes, bytes]) -> None:
        name, _, value = header[1].decode().partition(";")[0].partition("=")
        self.browser.cookies[name] = value

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return parsed(await self.browser.send("GET", path, b"", OWN_PAGE | with_dashes(headers)))

    async def at(self, hall: Toolhall) -> Reply:
        """What another process of the hall answers to a copy of the session."""
        return await Browser(hall, address="192.0.2.7").send("GET", "/api/me", b"", OWN_PAGE | {"cookie": self.cookie})

    async def change(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        typed = {"content-type": "application/json"} if content else {}
        usual = OWN_PAGE | {"x-toolhall-token": self.token} | typed
        sent = {name: value for name, value in (usual | with_dashes(headers)).items() if value}
        return parsed(await self.browser.send(method, path, content, sent))

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.browser.cookies.items())


def with_dashes(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def parsed(reply: Reply) -> tuple[int, Any]:
    return reply.status, json.loads(reply.body or "null")


async def person_of(house: ApprovalHall, name: str = "alice", *scopes: str) -> Person:
    return Person(house.hall, await house.key(name, *scopes, owner=name))


async def test_me_of_nobody_is_unauthenticated(house: ApprovalHall) -> None:
    status, answer = await Browser(house.hall).api("GET", "/api/me")
    assert (status, answer["error"]["code"]) == (401, "unauthenticated")
    alice = await person_of(house, "alice", "observe")
    _, found = await alice.get("/api/audit?caller=anonymous")
    assert [(each["tool"], each["dialect"]) for each in found["records"]] == [("/api/me", "api/management")]
    assert (await alice.get("/api/overview"))[1]["calls"] == 0, "nobody called a tool"


async def test_me_of_the_local_caller_needs_no_session() -> None:
    with Toolhall() as hall:
        status, me = await Browser(hall).api("GET", "/api/me")
        assert (status, me["caller"], me["proof"], me["profile"]) == (200, "local", "local", "local")
        assert me["may"] == {"manage": True, "observe": True, "approve": True}
        assert (me["token"], me["sessionEndsAt"], me["provenAt"]) == (None, None, None)
        assert me["firstRun"] is True
        assert me["endpoints"]["mcp"] == "http://localhost:8000/mcp"
        assert await Browser(hall).api("POST", "/api/me/token") == (200, {"token": None, "expiresAt": None})


async def test_me_of_a_session_says_who_and_brings_the_token_of_changes(house: ApprovalHall) -> None:
    alice = await person_of(house, "alice", "admin")
    status, me = await alice.get("/api/me")
    assert (status, me["caller"], me["person"], me["proof"]) == (200, "alice", "alice", "key")
    assert me["may"]["manage"]
    assert me["token"] == alice.token
    assert me["sessionEndsAt"]
    assert me["firstRun"] is False
    status, key = await alice.change("POST", "/api/keys", {"name": "ci"})
    assert (status, key["by"]) == (201, "alice")


async def test_session_is_renewed_by_use_and_ends_after_twelve_hours(house: ApprovalHall) -> None:
    now = 2_000_000_000.0
    sessions = house.hall.approval_components.sessions
    sessions.clock = lambda: now
    session = sessions.new(key="k")
    assert sessions.renewed(session) is None
    start = now
    while now < start + LONGEST_SECONDS - IDLE_SECONDS:
        now += IDLE_SECONDS - 1
        later = sessions.renewed(session)
        assert later is not None
        session = later
        assert session.expires == min(now + IDLE_SECONDS, start + LONGEST_SECONDS)
    now = start + LONGEST_SECONDS
    assert sessions.renewed(session) is None
    name, _, value = sessions.set_cookie(session)[1].partition(b";")[0].partition(b"=")
    assert sessions.read({b"cookie": name + b"=" + value}) is None


async def test_answer_of_the_api_sets_the_renewed_cookie(house: ApprovalHall) -> None:
    alice = await person_of(house)
    clock = alice.sessions.clock
    before = dict(alice.browser.cookies)
    await alice.get("/api/me")
    assert alice.browser.cookies == before  # so soon, it would change nothing
    alice.sessions.clock = lambda: clock() + 600
    assert (await alice.get("/api/me"))[0] == 200
    assert alice.browser.cookies != before
    alice.sessions.clock = lambda: clock() + 1_200  # too late for the first one
    assert (await alice.get("/api/me"))[0] == 200
    alice.browser.cookies = before
    assert (await alice.get("/api/me"))[0] == 401


async def test_two_halls_on_one_host_name_keep_their_sessions() -> None:
    """Cookies know no ports: both halls get the cookies of both (C16)."""
    first, second = (
        Toolhall(config=Config(profile="server", public_url=f"http://localhost:{port}")) for port in (1, 2)
    )
    with first, second:
        people = []
        for hall in (first, second):
            _, key = await hall.access.keys.create(NewKey(name="alice"), "local")
            people.append(Person(hall, key))
        shared = {name: value for person in people for name, value in person.browser.cookies.items()}
        assert len(shared) == 2
        for person in people:
            person.browser.cookies = dict(shared)
            assert (await person.get("/api/me"))[0] == 200


async def test_session_holds_in_two_processes_with_one_secret(tmp_path: Path) -> None:
    """Any process with the same data folder reads the cookie (C17)."""
    config = Config(profile="server", public_url="http://localhost:8000", data=str(tmp_path))
    first = Toolhall(config=config)
    try:
        await first.open()
        _, key = await first.access.keys.create(NewKey(name="alice"), "local")
        alice = Person(first, key)
        assert (await alice.get("/api/me"))[0] == 200
    finally:
        await first.settle()
        first.close()
    second = Toolhall(config=config)
    try:
        await second.open()
        alice.browser.hall = second
        status, me = await alice.get("/api/me")
        assert (status, me["caller"]) == (200, "alice")
        assert (await alice.change("POST", "/api/me/token"))[0] == 200
    finally:
        await second.settle()
        second.close()


async def test_bearer_of_a_session_calls_tools_as_the_person(house: ApprovalHall) -> None:
    @tool(level=4)
    def whoami() -> str:
        """Say something."""
        return "you"

    house.hall.add(whoami)
    alice = await person_of(house)
    await house.hall.access.grants.add(NewGrant(callers="alice", tools="*"), "local")
    status, made = await alice.change("POST", "/api/me/token")
    assert status == 200
    bearer = {"authorization": f"Bearer {made['token']}", "content-type": "application/json"}
    caller = Browser(house.hall, address="192.0.2.7")
    reply = await caller.send("POST", "/tools/test_sessions/whoami", b"{}", bearer)
    assert (reply.status, json.loads(reply.body)) == (200, "you")
    assert (await caller.send("GET", "/api/tools", b"", bearer)).status == 401
    page = await house.hall.api.context.journal.search(AuditQuery(), 100)
    (record,) = [each.record for each in page.records if _is_end_of_call(each.record)]
    assert (record.caller, record.outcome) == ("alice", "ok")
    clock = alice.sessions.clock
    alice.sessions.clock = lambda: clock() + 301
    assert (await caller.send("POST", "/tools/test_sessions/whoami", b"{}", bearer)).status == 401


def _is_end_of_call(record: AuditRecord) -> bool:
    return record.phase is None and record.tool.startswith("test_sessions.whoami")


async def test_step_up_is_asked_for_admin_keys_high_levels_and_factors(house: ApprovalHall) -> None:
    alice = await person_of(house, "alice", "admin")
    generator = await house.generator("alice")
    clock = alice.sessions.clock
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/api/keys", {"name": "root", "scopes": ["admin"]}),
        ("POST", "/api/grants", {"callers": "ci", "tools": "*.burn"}),
    ]
    for method, path, body in asked:
        status, answer = await alice.change(method, path, body)
        assert (status, answer["error"]["code"]) == (403, "proof_required"), path
    _, factors = await alice.get("/api/factors")
    (factor,) = factors["factors"]
    status, answer = await alice.change("DELETE", f"/api/factors/{factor['id']}", {"code": generator.code()})
    assert (status, answer["error"]["code"]) == (403, "proof_required")
    status, answer = await alice.change("POST", "/api/me/proof", {"code": "000000"})
    assert (status, answer["error"]["code"]) == (403, "denied")
    status, proof = await alice.change("POST", "/api/me/proof", {"code": generator.code()})
    assert status == 200
    assert proof["provenAt"] == (await alice.get("/api/me"))[1]["provenAt"]
    for method, path, body in asked:
        assert (await alice.change(method, path, body))[0] == 201, path
    alice.sessions.clock = lambda: clock() + PROOF_SECONDS - 60
    assert (await alice.get("/api/me"))[0] == 200
    alice.sessions.clock = lambda: clock() + PROOF_SECONDS + 60
    assert (await alice.change("POST", "/api/keys", {"name": "again", "scopes": ["admin"]}))[0] == 403


async def test_step_up_is_asked_for_detours_to_the_same(house: ApprovalHall) -> None:
    """Keys that decide for others, permits of what is not there yet, lifted forbids, and factors of other people."""
    alice = await person_of(house, "alice", "admin")
    generator = await house.generator("alice")
    grants = house.hall.access.grants
    forbid = await grants.add(NewGrant(callers="ci", tools="*.burn", effect="forbid"), "local")
    harmless = await grants.add(NewGrant(callers="ci", tools="*.burn"), "local")
    asked: list[tuple[str, str, Any, int]] = [
        ("POST", "/api/keys", {"name": "second", "owner": "mallory", "scopes": ["approve"]}, 201),
        ("POST", "/api/keys", {"name": "agent", "scopes": ["act_as"]}, 201),
        ("POST", "/api/grants", {"callers": "ci", "tools": "Later.*"}, 201),
        ("DELETE", f"/api/grants/{forbid.id}", None, 200),
        ("POST", "/api/factors", {"kind": "totp", "person": "mallory"}, 201),
        ("POST", "/api/factors", {"kind": "passkey", "person": "mallory"}, 201),
    ]
    for method, path, body, _ in asked:
        status, answer = await alice.change(method, path, body)
        assert (status, answer["error"]["code"]) == (403, "proof_required"), (path, body)
    assert {each.id for each in grants.all} == {forbid.id, harmless.id}
    assert (await alice.change("DELETE", f"/api/grants/{harmless.id}"))[0] == 200
    assert (await alice.change("POST", "/api/keys", {"name": "ci", "scopes": ["observe", "tools:*"]}))[0] == 201
    assert (await alice.change("POST", "/api/me/proof", {"code": generator.code()}))[0] == 200
    for method, path, body, status in asked:
        assert (await alice.change(method, path, body))[0] == status, (path, body)


async def test_step_up_is_asked_of_sessions_only(house: ApprovalHall) -> None:
    key = await house.key("boss", "admin")
    program = {"authorization": f"Bearer {key}"}
    body = {"name": "root", "scopes": ["admin"]}
    assert (await Browser(house.hall).api("POST", "/api/keys", body, **program))[0] == 201
    status, answer = await Browser(house.hall).api("POST", "/api/me/proof", {"code": "123456"}, **program)
    assert (status, answer["error"]["code"]) == (409, "conflict")


async def test_passkey_options_belong_to_their_session(house: ApprovalHall) -> None:
    alice = await person_of(house)
    status, answer = await alice.change("POST", "/api/me/proof/options")
    assert (status, answer["error"]["code"]) == (400, "malformed")  # alice has no passkey
    for body in ({}, {"id": "x", "credential": {}}, {"id": "x"}):
        assert (await alice.change("POST", "/api/me/proof", body))[0] == 403


async def test_first_run_ends_by_a_call_of_a_client_and_by_none_of_the_console() -> None:
    @tool(effect="reads", level=1)
    def greet() -> str:
        """Says hello."""
        return "hello"

    key = "io.modelcontextprotocol/"
    meta = {f"{key}protocolVersion": "2026-07-28", f"{key}clientCapabilities": {}, "progressToken": "try-1"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    mcp = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
    with Toolhall(greet) as hall:
        browser = Browser(hall)
        (known,) = (await browser.api("GET", "/api/tools"))[1]["tools"]
        path, name = f"/tools/{known['toolkit']}/greet", known["name"]

        async def over_mcp(client: str) -> int:
            params = {"name": name, "_meta": {**meta, f"{key}clientInfo": {"name": client, "version": "1"}}}
            accept = {**mcp, "mcp-name": name, "accept": "application/json, text/event-stream"}
            headers = {"content-type": "application/json", **accept}
            return (await browser.send("POST", "/mcp", json.dumps({**call, "params": params}).encode(), headers)).status

        async def is_first_run() -> bool:
            return bool((await browser.api("GET", "/api/me"))[1]["firstRun"])

        assert await over_mcp("toolhall-console") == 200
        of_console = {"toolhall-client": "console"}
        assert (await browser.api("POST", f"{path}?version={known['version']}", {}, **of_console))[0] == 200
        assert await is_first_run()
        _, found = await browser.api("GET", "/api/audit?tool=*greet*&dialect=*/console")
        assert [each["dialect"] for each in found["records"]] == ["openapi/console", "mcp@2026-07-28/console"]
        assert (await browser.api("POST", path, {}))[0] == 200, "what somebody calls by curl is a client"
        assert not await is_first_run()
    with Toolhall(greet) as hall:
        browser = Browser(hall)
        assert await over_mcp("any") == 200
        assert not await is_first_run()
