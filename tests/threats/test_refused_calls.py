# ruff: noqa: N802 - tests carry the names of their rows
"""A call that its dialect refuses itself is an attempt like any other: it leaves a record, and it counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.mcp_messages import MODERN, NOVEMBER, encoded, handshake, headers_for, tool_call
from tests.recorded import recorded
from tests.threats.guarded import PUBLIC_URL, Inside, inside
from tests.threats.served import stdio
from tests.threats.test_entrance import records
from tests.threats.test_identity import WAYS
from toolhall.auth.credentials import WINDOW_SECONDS
from toolhall.http.authentication import MAX_RECORDS, UnauthenticatedAudit
from toolhall.model.caller import Caller
from toolhall.model.errors import Unauthenticated
from toolhall.model.messages import CallTool
from toolhall.pipeline.audit import RecordDraft

TOOL = "hostile_tools.nonce"
JSON = {"Content-Type": "application/json"}


class Attempt:
    """What is sent, and what its record says."""

    def __init__(self, path: str, body: bytes, dialect: str, tool: str, **headers: str) -> None:
        self.path, self.body, self.dialect, self.tool, self.headers = path, body, dialect, tool, headers

    async def send(self, hall: Inside, caller: str = "alice") -> httpx2.Response:
        """Send it as somebody who is proven."""
        transport = httpx2.ASGITransport(app=hall.hall.http, client=("192.0.2.1", 1))
        async with httpx2.AsyncClient(transport=transport, base_url=PUBLIC_URL) as client:
            headers = JSON | self.headers | hall.bearer(caller)
            return await client.post(self.path, content=self.body, headers=headers)


def modern(tool: str = "nonce", **params: Any) -> Attempt:
    """A call in the newest revision, with other parameters."""
    message = tool_call(MODERN, "nonce", {"nonce": "here"})
    message["params"].update(params)
    return Attempt("/mcp", encoded(message), f"mcp@{MODERN}", tool, **dict(headers_for(encoded(message))))


def with_other_headers(**headers: str) -> Attempt:
    """The same, where headers or terms say something else."""
    attempt = modern()
    return Attempt("/mcp", attempt.body, "mcp", "nonce", **(attempt.headers | headers))


def jsonrpc(tool: str, **members: Any) -> Attempt:
    """A call that is not even JSON-RPC."""
    message = tool_call(MODERN, "nonce", {"nonce": "here"})
    headers = dict(headers_for(encoded(message)))
    return Attempt("/mcp", encoded(message | members), "mcp", tool, **headers)


def legacy(tool: str = "nonce", **headers: str) -> Attempt:
    """A call in an older revision, without a session."""
    return Attempt("/mcp", encoded(tool_call(NOVEMBER, "nonce", {"nonce": "here"})), "mcp", tool, **headers)


def oxp(tool: str = "", **request: Any) -> Attempt:
    """A call in OXP."""
    return Attempt("/oxp/tools/call", encoded({"request": request}), "oxp", tool)


def hub(named: str, **message: Any) -> Attempt:
    """A call in the hub's dialect."""
    return Attempt("/hub", encoded({"type": "tool_request", "id": "1"} | message), "hub", named)


def machine(tool: str, called: Any, **header: Any) -> Attempt:
    """A call in Machine Context."""
    said = {"version": "1.0", "messageId": "m1", "messageType": "request", "source": "test"} | header
    return Attempt("/machine", encoded({"header": said, "payload": {"tool": called}}), "machine", tool)


def rest(body: bytes, path: str = "/tools/hostile_tools/nonce", tool: str = TOOL) -> Attempt:
    """A call in plain REST."""
    return Attempt(path, body, "openapi", tool)


ATTEMPTS: dict[str, Attempt] = {
    "mcp: a forged state": modern(requestState="forged"),
    "mcp: responses that are none": modern(inputResponses=[]),
    "mcp: another tool in the header": with_other_headers(**{"Mcp-Name": "other"}),
    "mcp: another method in the header": with_other_headers(**{"Mcp-Method": "tools/list"}),
    "mcp: another revision in the header": with_other_headers(**{"MCP-Protocol-Version": NOVEMBER}),
    "mcp: arguments that are none": modern(arguments=[]),
    "mcp: a name that is none": modern("", name=["nonce"]),
    "mcp: parameters that are none": jsonrpc("", params=[]),
    "mcp: one member more": jsonrpc("nonce", more=1),
    "mcp: an id that is none": jsonrpc("nonce", id=[1]),
    "mcp: no session": legacy(),
    "mcp: a session that is none": legacy(**{"Mcp-Session-Id": "guessed"}),
    "mcp: a session of no revision": legacy(**{"MCP-Protocol-Version": "1999-01-01", "Mcp-Session-Id": "guessed"}),
    "oxp: input that is none": oxp(TOOL, tool_id=TOOL, input=[]),
    "oxp: one member more": oxp(TOOL, tool_id=TOOL, more=1),
    "oxp: a name that is none": oxp("nonce", tool_id="nonce"),
    "oxp: no name": oxp("", input={}),
    "oxp: no request": Attempt("/oxp/tools/call", b"[]", "oxp", ""),
    "oxp: no JSON": Attempt("/oxp/tools/call", b"{", "oxp", ""),
    "hub: no method": hub("hostile_tools", tool="hostile_tools"),
    "hub: parameters that are none": hub(TOOL, tool="hostile_tools", method="nonce", params=[]),
    "machine: no capability": machine("hostile_tools", {"id": "hostile_tools"}),
    "machine: parameters that are none": machine(
        TOOL, {"id": "hostile_tools", "capability": "nonce", "parameters": []}
    ),
    "machine: a version that is none": machine(TOOL, {"id": "hostile_tools", "capability": "nonce"}, version="2.0"),
    "machine: a tool that is none": machine("", []),
    "rest: a list": rest(b"[]"),
    "rest: a key twice": rest(b'{"a":1,"a":2}'),
    "rest: a number without end": rest(b'{"a":1e999}'),
    "rest: no JSON": rest(b"{"),
    "rest: a query of nothing": rest(b"{}", "/tools/hostile_tools/nonce?more=1"),
    "rest: a path of nothing": rest(b"{}", "/tools/hostile_tools/nonce/more", f"{TOOL}.more"),
}


@pytest.mark.threat("B17")
@pytest.mark.threat("C3")
@pytest.mark.threat("J3")
@pytest.mark.parametrize("name", ATTEMPTS)
async def test_B17_C3_J3_malformed_call_leaves_one_audit_record_in_every_dialect(name: str) -> None:
    """Whoever forges, guesses or probes is in the audit, with as much of the tool's name as could be read."""
    attempt = ATTEMPTS[name]
    async with inside() as hall:
        reply = await attempt.send(hall)
        found = [(each.caller, each.dialect, each.tool, each.bytes_in) for each in records(hall)]
    assert b"error" in reply.content or reply.status_code == 400, reply.text
    assert found == [("alice", attempt.dialect, attempt.tool, len(attempt.body))]


@pytest.mark.threat("I4")
@pytest.mark.parametrize("name", ATTEMPTS)
async def test_I4_malformed_calls_count_against_the_rate_limit_in_every_dialect(name: str) -> None:
    """The third attempt is told to wait, in the words of its dialect, and so is a good call then."""
    async with inside(calls_per_second=0.001, call_burst=2) as hall:
        replies = [await ATTEMPTS[name].send(hall) for _ in range(3)]
        good = await rest(b'{"nonce":"here"}').send(hall)
        other = await rest(b'{"nonce":"here"}').send(hall, "bob")
        outcomes = [each.outcome for each in records(hall)]
    assert replies[2].status_code == 429 or b"42900" in replies[2].content
    assert replies[0].status_code != 429
    assert (good.status_code, other.status_code) == (429, 200)
    assert outcomes[2:4] == ["Limited", "Limited"]


@pytest.mark.threat("C3")
async def test_C3_malformed_call_in_a_session_is_recorded_with_its_revision_and_counted() -> None:
    """In an older revision a call of no shape is recorded with its revision, and counted."""
    async with inside(calls_per_second=0.001, call_burst=2) as hall:
        opened = await hall.send("POST", "/mcp", handshake(NOVEMBER), hall.bearer("alice"))
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]} | hall.bearer("alice")
        message = tool_call(NOVEMBER, "nonce", {}) | {"params": {"name": "nonce", "arguments": []}}
        replies = [await hall.send("POST", "/mcp", message, session) for _ in range(3)]
        found = [(each.dialect, each.tool, each.outcome) for each in records(hall)]
    assert b"must be an object" in replies[0].content
    assert b"42900" in replies[2].content
    assert {(dialect, tool) for dialect, tool, _ in found} == {(f"mcp@{NOVEMBER}", "nonce")}
    assert [outcome for *_, outcome in found][2] == "Limited"


@pytest.mark.threat("C3")
def test_C3_malformed_calls_over_stdio_are_recorded(tmp_path: Path) -> None:
    """Before the handshake, with other terms, in no shape: each is refused and recorded."""
    good = tool_call(MODERN, "nonce", {"nonce": "here"})
    refused = [
        tool_call(NOVEMBER, "nonce", {"nonce": "here"}),
        good | {"params": good["params"] | {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}}},
        good | {"params": good["params"] | {"requestState": "forged"}},
        good | {"params": []},
    ]
    with stdio(tmp_path) as line:
        assert [line.ask(encoded(each)).code is not None for each in refused] == [True] * len(refused)
    found = [(each["dialect"], each["tool"], each["outcome"]) for each in recorded(tmp_path / "data")]
    named = [("mcp", "nonce"), ("mcp", "nonce"), (f"mcp@{MODERN}", "nonce"), ("mcp", "")]
    assert found == [(*each, "Malformed") for each in named]


async def test_request_that_is_no_tool_call_leaves_no_audit_record() -> None:
    """A list, a greeting or noise is no attempt at a tool."""
    noise = [
        Attempt("/mcp", b"{", "mcp", ""),
        Attempt("/mcp", encoded({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}), "mcp", ""),
        Attempt("/mcp", encoded({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}), "mcp", ""),
        Attempt("/hub", encoded({"type": "request", "id": "1", "method": 1}), "hub", ""),
        Attempt("/machine", b"{", "machine", ""),
    ]
    async with inside() as hall:
        for each in noise:
            assert b"error" in (await each.send(hall)).content
        assert records(hall) == []


@pytest.mark.threat("B1")
async def test_B1_malformed_machine_message_is_attributed_to_the_token_inside_it() -> None:
    """Only its body proves a message of Machine Context: whoever proves nobody is refused for that, first."""
    _, message = WAYS["machine"]()
    del message["payload"]["tool"]["capability"]
    async with inside() as hall:
        stranger = await hall.send("POST", "/machine", message)
        message["payload"]["security"] = {"token": hall.keys["alice"]}
        proven = await hall.send("POST", "/machine", message)
        found = [(each.caller, each.tool, each.outcome) for each in records(hall)]
    assert (stranger.status_code, proven.status_code) == (401, 400)
    assert found == [("anonymous", "hostile_tools", "Unauthenticated"), ("alice", "hostile_tools", "Malformed")]


# --- secrets in names -------------------------------------------------------------------------------------------------


@pytest.mark.threat("J4")
@pytest.mark.parametrize("proven", [True, False], ids=["proven", "stranger"])
async def test_J4_credential_in_a_tool_name_is_redacted_in_the_audit_record(proven: bool) -> None:
    """Whoever puts a key where a tool's name belongs does not find it in the audit, however long the name is."""
    async with inside() as hall:
        key, said = hall.keys["alice"], hall.bearer("alice") if proven else {}
        for tail in (f"Shop/{key}", f"{'x' * 100}/{key}", f"Shop/ghp_{'0123456789' * 4}", f"Shop/{key}/more"):
            await hall.send("POST", f"/tools/{tail}", {}, said)
        _, message = WAYS["hub"]()
        await hall.send("POST", "/hub", message | {"method": key}, said)
        found = records(hall)
        assert len(found) == 5
        for each in found:
            assert key[:24] not in each.tool
            assert "0123456789" not in each.tool
        assert found[0].tool == "[redacted]"


@pytest.mark.threat("J4")
def test_J4_credential_in_a_caller_name_is_redacted_in_the_audit_record() -> None:
    """Also not in the names that a token or a message brings."""
    secret = "ghp_" + "0123456789" * 4
    caller = Caller(f"corp:{secret}", person=f"corp:{secret}2", acting_for=secret)
    record = RecordDraft(0.0, "1", caller, "oxp", "Shop.sell", "ok", None, b"", 0, 0).record()
    assert "0123456789" not in str(record)
    assert (record.caller, record.acting_for) == ("corp:[redacted]", "[redacted]")


# --- strangers --------------------------------------------------------------------------------------------------------


class RefusalCounter:
    """Strangers at a hall, in a time that the test moves."""

    def __init__(self, hall: Inside) -> None:
        self.hall = hall
        self.now = 0.0
        self.audit = UnauthenticatedAudit(hall.hall.dispatcher, lambda: self.now)

    def refuse(self, times: int, address: str = "203.0.113.9") -> None:
        """So many wrong credentials."""
        for _ in range(times):
            asked = CallTool("/mcp", {}, "mcp", 0)
            self.audit.record(asked, Caller("anonymous", address=address), Unauthenticated("no"))

    @property
    def reasons(self) -> list[str | None]:
        """Why, of each record."""
        return [each.reason for each in records(self.hall)]


@pytest.mark.threat("B13")
@pytest.mark.parametrize("end", ["another address", "the same address", "the end"])
async def test_B13_refused_credentials_beyond_the_record_limit_are_summed_in_one_record(end: str) -> None:
    """Beyond twenty a minute there is one record a minute, which says how many more there were."""
    async with inside(calls_per_second=0.001, call_burst=100) as hall:
        counter = RefusalCounter(hall)
        counter.refuse(MAX_RECORDS + 37)
        assert counter.reasons == ["no"] * MAX_RECORDS
        counter.now = WINDOW_SECONDS + 1
        finish: dict[str, Callable[[], None]] = {
            "another address": lambda: counter.refuse(1, "203.0.113.10"),
            "the same address": lambda: counter.refuse(1),
            "the end": counter.audit.close,
        }
        finish[end]()
        reasons = counter.reasons[MAX_RECORDS:]
        told = [each for each in reasons if each and each.startswith("37 more")]
        assert (len(told), len(reasons)) == (1, 1 if end == "the end" else 2)
        counter.audit.close()
        assert len(counter.reasons) == MAX_RECORDS + len(reasons)


@pytest.mark.threat("B13")
async def test_B13_unrecorded_refusals_are_counted_per_minute_and_address() -> None:
    """The count begins anew with each window."""
    async with inside() as hall:
        counter = RefusalCounter(hall)
        for minute in range(2):
            counter.now = minute * (WINDOW_SECONDS + 1)
            counter.refuse(MAX_RECORDS + 3 + minute)
            counter.refuse(MAX_RECORDS + 5 + minute, "203.0.113.10")
        counter.audit.close()
        told = [each.split()[0] for each in counter.reasons if each and "more" in each]
    assert told == ["3", "5", "4", "6"]


@pytest.mark.threat("B13")
async def test_B13_unrecorded_refusal_count_is_written_when_the_hall_closes() -> None:
    """Nothing that was refused is lost with the server's end."""
    async with inside() as hall:
        for _ in range(MAX_RECORDS + 2):
            await hall.send("GET", "/tools", headers={"Authorization": "Bearer tk_x"})
        hall.hall.close()
        reasons = [each.reason or "" for each in records(hall)]
    assert len(reasons) == MAX_RECORDS + 1
    assert reasons[-1].startswith("2 more")
