# ruff: noqa: N802 - tests carry the names of their rows
"""A credential in every place where a dialect puts it: who is proven, who is refused, and in which words."""

import ast
import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import OctKey

from tests.harness.mcp_messages import MODERN, NOVEMBER, encoded, handshake, headers_for, modern_request, tool_call
from tests.threats.guarded import PUBLIC_URL, SECRET, Inside, inside
from tests.threats.issuer import issuing, sign
from tests.threats.test_tokens import FORGED
from toolhall import Config, Toolhall, auth, tool
from toolhall.auth.credentials import MAX_ADDRESSES, MAX_FAILURES, WINDOW_SECONDS, FailureThrottle
from toolhall.auth.profiles import BadAuthSettings
from toolhall.config import Issuer as Stated
from toolhall.mcp.stateless import AUTHORIZATION_EXTENSIONS
from toolhall.registration.access import NewGrant, NewKey

METADATA = f'resource_metadata="{PUBLIC_URL}/.well-known/oauth-protected-resource'
NEEDED = 'scope="tools:*"'
SCOPE = "tools:hostile_tools"
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture
async def hall() -> AsyncIterator[Inside]:
    async with inside(oxp_secret=SECRET) as opened:
        yield opened


def by_mcp(token: str | None = None) -> tuple[str, Any]:
    """A call of `nonce` in MCP."""
    return "/mcp", tool_call(MODERN, "nonce", {"nonce": "here"})


def by_oxp(token: str | None = None) -> tuple[str, Any]:
    """The same in OXP."""
    return "/oxp/tools/call", {"request": {"tool_id": "hostile_tools.nonce", "input": {"nonce": "here"}}}


def by_hub(token: str | None = None) -> tuple[str, Any]:
    """The same in the hub's dialect."""
    asked = {"type": "tool_request", "id": "1", "tool": "hostile_tools", "method": "nonce", "params": {"nonce": "here"}}
    return "/hub", asked


def by_machine(token: str | None = None) -> tuple[str, Any]:
    """The same in Machine Context."""
    header = {"version": "1.0", "messageId": "m1", "messageType": "request", "source": "test"}
    called = {"id": "hostile_tools", "capability": "nonce", "parameters": {"nonce": "here"}}
    security = {} if token is None else {"security": {"token": token}}
    return "/machine", {"header": header, "payload": {"tool": called, **security}}


def by_rest(token: str | None = None) -> tuple[str, Any]:
    """The same in plain REST."""
    return "/tools/hostile_tools/nonce", {"nonce": "here"}


WAYS: dict[str, Callable[..., tuple[str, Any]]] = {
    "mcp": by_mcp,
    "oxp": by_oxp,
    "hub": by_hub,
    "machine": by_machine,
    "rest": by_rest,
}
each_way = pytest.mark.parametrize("way", WAYS)


async def call(hall: Inside, way: str, headers: dict[str, str] | None = None, token: str | None = None) -> Any:
    """Call `nonce` in a dialect."""
    path, message = WAYS[way](token)
    extra = dict(headers_for(encoded(message))) if way == "mcp" else {}
    return await hall.send("POST", path, message, extra | (headers or {}))


def ran(reply: Any) -> bool:
    """Whether the call came to its end."""
    return reply.status_code == 200 and b"here" in reply.content


REFUSED: dict[str, Callable[[Any], Any]] = {
    "mcp": lambda body: body["error"]["code"] == 40100,
    "oxp": lambda body: "message" in body,
    "hub": lambda body: body["error"]["code"] == "UNAUTHENTICATED",
    "machine": lambda body: body["error"]["code"] == "SECURITY_ERROR",
    "rest": lambda body: body["error"]["code"] == "unauthenticated",
}


@each_way
async def test_api_key_in_the_authorization_header_is_accepted_in_every_dialect(hall: Inside, way: str) -> None:
    assert ran(await call(hall, way, hall.bearer("alice")))
    assert ran(await call(hall, way, {"Authorization": f"bearer  {hall.keys['alice']}"}))


@pytest.mark.threat("B1")
@each_way
async def test_B1_call_without_a_credential_is_refused_with_401_in_every_dialects_own_form(
    hall: Inside, way: str
) -> None:
    """No credential: 401, where to get one, and with which scopes; no claim that a token was wrong."""
    reply = await call(hall, way)
    assert reply.status_code == 401
    assert REFUSED[way](reply.json()), reply.text
    challenge = reply.headers["www-authenticate"]
    suffix = "/mcp" if way == "mcp" else ""
    needed = f'scope="{SCOPE}"' if way == "rest" else NEEDED  # only there the path names the tool
    assert challenge == f'Bearer {METADATA}{suffix}", {needed}'


@pytest.mark.parametrize("path", ["/metrics", "/api/keys", "/api/tools"])
async def test_management_endpoint_without_a_credential_asks_for_the_admin_scope(hall: Inside, path: str) -> None:
    assert 'scope="admin"' in (await hall.send("GET", path)).headers["www-authenticate"]


@pytest.mark.threat("B4")
@each_way
async def test_B4_invalid_credential_is_refused_even_where_anonymous_calls_are_allowed(way: str) -> None:
    """Also where anybody may come in, whoever brings a credential that is not valid is refused as such."""
    async with inside(allow_anonymous=True) as hall:
        for said in (
            "Bearer tk_x",
            "Bearer eyJ.eyJ.x",
            "Bearer ",
            "Basic YTpi",
            "Bearer a b",
            "Bearer " + "x" * 20_000,
        ):
            reply = await call(hall, way, {"Authorization": said})
            assert reply.status_code == 401, said
            assert REFUSED[way](reply.json())
            assert 'error="invalid_token"' in reply.headers["www-authenticate"]


@pytest.mark.threat("B4")
async def test_B4_every_forged_jwt_gets_the_same_401_answer() -> None:
    """Fourteen forged tokens: the same status, the same header and the same body, byte for byte."""
    with issuing() as issuer:
        async with inside(issuers=_issuers(issuer.url)) as hall:
            assert ran(await call(hall, "rest", {"Authorization": f"Bearer {issuer.token()}"}))
            replies = set()
            for forgery in list(FORGED)[:14]:
                reply = await call(hall, "rest", {"Authorization": f"Bearer {FORGED[forgery](issuer)}"})
                replies.add((reply.status_code, reply.headers["www-authenticate"], reply.content))
            ((status, challenge, _),) = replies
            assert (status, 'error="invalid_token"' in challenge) == (401, True)


def _issuers(*urls: str, name: str = "idp") -> tuple[Stated, ...]:
    return tuple(Stated(name=name, issuer=url) for url in urls)


@pytest.mark.threat("B3")
@each_way
async def test_B3_jwt_is_accepted_in_every_dialect_only_for_this_servers_audience(way: str) -> None:
    """A token for this server is taken in every dialect, and one for another server in none."""
    with issuing() as issuer:
        async with inside(issuers=_issuers(issuer.url)) as hall:
            assert ran(await call(hall, way, {"Authorization": f"Bearer {issuer.token()}"}))
            assert ran(await call(hall, way, {"Authorization": f"Bearer {issuer.token(aud=f'{PUBLIC_URL}/mcp')}"}))
            other = await call(hall, way, {"Authorization": f"Bearer {issuer.token(aud='https://other.example')}"})
            assert other.status_code == 401


async def test_token_of_a_program_stands_for_no_person_and_its_extension_is_declared() -> None:
    """It says nothing of a sign-in, so nobody proved anew to be there."""

    @tool(level=7)
    def strong() -> str:
        """Run for who signed in lately."""
        return "ran"

    with issuing() as issuer:
        async with inside(strong, issuers=_issuers(issuer.url)) as hall:
            await hall.hall.access.grants.add(NewGrant(callers="idp:*", tools="*"), "test")
            program = {"Authorization": f"Bearer {issuer.token(scope='tools:*', auth_time=None)}"}
            person = {"Authorization": f"Bearer {issuer.token(scope='tools:*', auth_time=int(time.time()))}"}
            body, headers = modern_request("server/discover")
            found = await hall.send("POST", "/mcp", body, headers | ACCEPT | program)
            replies = [await hall.send("POST", "/tools/test_identity/strong", {}, by) for by in (program, person)]
    assert found.json()["result"]["capabilities"]["extensions"] == AUTHORIZATION_EXTENSIONS
    assert [reply.status_code for reply in replies] == [403, 200]


async def test_oxp_api_key_header_and_shared_secret_token_are_accepted_only_in_oxp(hall: Inside) -> None:
    token = sign("HS256", OctKey.import_key(SECRET), {"exp": int(time.time()) + 60})
    assert ran(await call(hall, "oxp", {"OXP-API-Key": hall.keys["alice"]}))
    assert ran(await call(hall, "oxp", {"Authorization": f"Bearer {token}"}))
    for way in ("mcp", "hub", "machine", "rest"):
        assert (await call(hall, way, {"OXP-API-Key": hall.keys["alice"]})).status_code == 401
        assert (await call(hall, way, {"Authorization": f"Bearer {token}"})).status_code == 401


async def test_machine_context_token_in_the_message_authenticates_the_call(hall: Inside) -> None:
    assert ran(await call(hall, "machine", token=hall.keys["alice"]))
    reply = await call(hall, "machine", token="anything")
    assert reply.status_code == 401
    assert reply.json()["error"]["details"]["reason"] == "not_authenticated"
    assert reply.json()["header"]["requestId"] == "m1"
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]


async def test_two_different_credentials_in_one_request_are_refused(hall: Inside) -> None:
    alice, bob = hall.keys["alice"], hall.keys["bob"]
    assert ran(await call(hall, "oxp", {"OXP-API-Key": alice, **hall.bearer("alice")}))
    assert (await call(hall, "oxp", {"OXP-API-Key": bob, **hall.bearer("alice")})).status_code == 400
    assert ran(await call(hall, "machine", hall.bearer("alice"), token=alice))
    assert (await call(hall, "machine", hall.bearer("alice"), token=bob)).status_code == 400


async def test_api_key_that_was_revoked_is_refused(hall: Inside) -> None:
    assert ran(await call(hall, "rest", hall.bearer("alice")))
    (alice,) = (key.id for key in hall.hall.access.keys.all if key.name == "alice")
    await hall.hall.access.keys.revoke(alice)
    assert (await call(hall, "rest", hall.bearer("alice"))).status_code == 401
    assert ran(await call(hall, "rest", hall.bearer("bob")))


async def test_anonymous_caller_sees_and_calls_level_0_tools_only() -> None:
    @tool(level=0, effect="reads")
    async def clock() -> str:
        return "here"

    @tool(level=1, effect="reads")
    async def diary() -> str:
        return "here"

    async with inside(clock, diary, allow_anonymous=True) as hall:
        listed = (await hall.send("GET", "/tools")).json()["tools"]
        assert len(listed) == 1
        assert "clock" in listed[0]["name"]
        assert ran(await hall.send("POST", "/tools/test_identity/clock", {}))
        assert (await hall.send("POST", "/tools/test_identity/diary", {})).status_code in (401, 404)
        assert (await hall.send("GET", "/api/tools")).status_code in (401, 403)
        assert ran(await hall.send("POST", "/tools/test_identity/diary", {}, hall.bearer("alice")))


@pytest.mark.threat("B13")
async def test_B13_many_wrong_api_keys_from_one_address_are_refused_with_429(hall: Inside) -> None:
    """Many wrong keys from one address: the first few hear 401, the rest hear 429 and when to come back."""
    wrong = [{"Authorization": f"Bearer tk_{number}"} for number in range(MAX_FAILURES + 30)]
    replies = [await hall.send("GET", "/tools", headers=each, address="203.0.113.7") for each in wrong]
    assert [reply.status_code for reply in replies] == [401] * MAX_FAILURES + [429] * 30
    assert 0 < int(replies[-1].headers["retry-after"]) <= WINDOW_SECONDS
    wrong_elsewhere = await hall.send("GET", "/tools", headers=wrong[0], address="203.0.113.8")
    assert wrong_elsewhere.status_code == 401
    assert (await hall.send("GET", "/health", address="203.0.113.7")).status_code == 200


@pytest.mark.threat("B13")
def test_B13_failure_throttle_keeps_a_bounded_number_of_addresses_for_one_minute() -> None:
    """However many addresses guess, so many are remembered; an IPv6 network is one; after a minute all is forgotten."""
    now = [0.0]
    failures = FailureThrottle(lambda: now[0], limit=2)
    for number in range(MAX_ADDRESSES + 500):
        failures.record(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(failures) == MAX_ADDRESSES
    failures.record("2001:db8::1")
    failures.record("2001:db8::ffff:2%eth0")
    assert failures.retry_after("2001:db8::3") == WINDOW_SECONDS
    assert failures.retry_after("2001:db8:0:1::3") is None
    failures.record("::ffff:192.0.2.1")
    failures.record("192.0.2.1")
    assert failures.retry_after("192.0.2.1") == WINDOW_SECONDS
    now[0] += WINDOW_SECONDS
    assert failures.retry_after("2001:db8::3") is None
    failures.record("192.0.2.9")
    assert len(failures) == 1


async def test_protected_resource_metadata_names_the_authorization_servers_and_scopes() -> None:
    with issuing() as issuer:
        async with inside(issuers=_issuers(issuer.url)) as hall:
            usual = {
                "authorization_servers": [issuer.url],
                "scopes_supported": ["tools:*"],
                "bearer_methods_supported": ["header"],
                "resource_name": "toolhall",
            }
            for suffix in ("", "/mcp"):
                reply = await hall.send("GET", f"/.well-known/oauth-protected-resource{suffix}")
                assert reply.status_code == 200
                assert reply.json() == {"resource": PUBLIC_URL + suffix, **usual}


LACKING: dict[str, Callable[[Any], Any]] = {
    "mcp": lambda body: (body["error"]["code"], body["error"]["data"]) == (40300, {"requiredScopes": [SCOPE]}),
    "oxp": lambda body: SCOPE in body["message"],
    "hub": lambda body: (body["error"]["code"], body["error"]["details"]["scopes"]) == ("FORBIDDEN", [SCOPE]),
    "machine": lambda body: body["error"]["code"] == "SECURITY_ERROR",
    "rest": lambda body: (body["error"]["code"], body["error"]["details"]["scopes"]) == ("denied", [SCOPE]),
}


@pytest.mark.parametrize("way", LACKING)
async def test_jwt_with_a_missing_scope_is_refused_with_403_that_names_the_scope(way: str) -> None:
    with issuing() as issuer:
        async with inside(issuers=_issuers(issuer.url)) as hall:
            reply = await call(hall, way, {"Authorization": f"Bearer {issuer.token(scope='tools:Shop')}"})
            assert reply.status_code == 403
            assert LACKING[way](reply.json()), reply.text
            suffix = "/mcp" if way == "mcp" else ""
            said = reply.headers["www-authenticate"]
            assert said == f'Bearer error="insufficient_scope", scope="{SCOPE}", {METADATA}{suffix}"'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"issuers": _issuers("https://a.example"), "public_url": None}, "set 'public_url'"),
        ({"issuers": _issuers("http://a.example")}, "https"),
        ({"issuers": _issuers("https://a.example", "https://b.example")}, "a name of its own"),
        ({"oxp_secret": "short"}, "32 bytes"),
    ],
)
def test_auth_settings_that_are_incomplete_or_unsafe_are_refused_at_start(settings: dict[str, Any], said: str) -> None:
    stated: dict[str, Any] = {"profile": "server", "public_url": PUBLIC_URL, **settings}
    with pytest.raises(BadAuthSettings, match=said):
        Toolhall(config=Config(**stated))


async def test_local_profile_accepts_an_api_key_and_refuses_a_wrong_one() -> None:
    async with inside(profile="local", public_url=None) as hall:

        async def ask(path: str, **headers: str) -> Any:
            return await hall.send("GET", f"http://localhost{path}", headers=headers, address="127.0.0.1")

        assert (await ask("/api/history")).status_code == 200
        # As alice, who may not manage, though the address is this machine's.
        assert (await ask("/api/history", **hall.bearer("alice"))).status_code == 403
        assert (await ask("/oxp/tools", **{"OXP-API-Key": hall.keys["alice"]})).status_code == 200
        assert (await ask("/oxp/tools", **{"OXP-API-Key": "tk_x"})).status_code == 401
        wrong = await ask("/tools", Authorization="Bearer tk_x")
        assert wrong.status_code == 401
        assert wrong.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        assert json.loads(wrong.content)["error"]["code"] == "unauthenticated"
        assert (await ask("/.well-known/oauth-protected-resource")).status_code == 404


@pytest.mark.threat("B12")
def test_B12_auth_source_compares_no_credential_with_an_ordinary_operator() -> None:
    """Nothing that proves a caller is compared by == or looked for in a text, which takes longer the more is right."""
    found = [
        f"{file.name}:{node.lineno} {ast.unparse(node)}"
        for file in sorted(Path(auth.__file__).parent.glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Compare) and {type(each) for each in node.ops} & {ast.Eq, ast.NotEq, ast.In, ast.NotIn}
        for part in (node.left, *node.comparators)
        if isinstance(part, ast.Name) and part.id in {"text", "token", "secret", "credential", "bearer", "sent", "key"}
    ]
    assert not found


async def test_websocket_is_closed_when_its_api_key_is_revoked(hall: Inside) -> None:
    coming: list[Any] = [{"type": "websocket.connect"}]
    sent: list[Any] = []
    answered = asyncio.Event()
    asked = {"type": "websocket.receive", "text": json.dumps(by_hub()[1])}

    async def receive() -> Any:
        if coming:
            return coming.pop()
        await answered.wait()
        await hall.hall.access.keys.revoke(key_id)
        return asked

    async def send(part: Any) -> None:
        sent.append(part)
        if part["type"] == "websocket.accept":
            coming.append(asked)
        if part["type"] == "websocket.send":
            answered.set()

    (key_id,) = (key.id for key in hall.hall.access.keys.all if key.name == "alice")
    headers = [(b"host", b"hall.example"), (b"authorization", f"Bearer {hall.keys['alice']}".encode())]
    await hall.hall.http({"type": "websocket", "path": "/hub", "headers": headers, "client": None}, receive, send)
    closed = {"type": "websocket.close", "code": 1008}
    assert [part["type"] for part in sent if part != closed] == ["websocket.accept", "websocket.send"]
    assert closed in sent


async def test_mcp_session_survives_key_rotation_and_each_request_has_its_own_keys_scopes(hall: Inside) -> None:
    """Two keys of one name are one caller; each request may do what its own key may, in one session too."""
    _, lesser = await hall.hall.access.keys.create(NewKey("alice", scopes=("tools:Shop",)), "test")
    opened = await hall.send("POST", "/mcp", handshake(NOVEMBER), hall.bearer("alice"))
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": NOVEMBER}
    called = tool_call(NOVEMBER, "nonce", {"nonce": "here"})
    assert ran(await hall.send("POST", "/mcp", called, session | hall.bearer("alice")))
    reply = await hall.send("POST", "/mcp", called, session | {"Authorization": f"Bearer {lesser}"})
    assert reply.status_code == 200  # the session is there
    assert not ran(reply)
    assert ran(await hall.send("POST", "/mcp", called, session | hall.bearer("alice")))
