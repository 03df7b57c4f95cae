# ruff: noqa: N802 - tests carry the names of their rows
"""A server of the `server` profile over real HTTP, with callers who have keys of their own."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.harness.http_client import HOST, Connection, http_request
from tests.harness.mcp_messages import LEGACY, MODERN, REVISIONS, encoded, request_in, session_headers, tool_call
from tests.harness.patience import patience
from tests.harness.server_process import toolhall
from tests.harness.sync_mcp_client import answer_of, call_tool
from tests.threats.guarded import Guarded, guarding
from tests.threats.served import stdio
from tests.threats.test_identity import by_machine, by_oxp
from toolhall import Config, Toolhall
from toolhall.auth.profiles import PUBLIC_PATHS, PUBLIC_PREFIXES

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
each_legacy = pytest.mark.parametrize("revision", LEGACY)
each_revision = pytest.mark.parametrize("revision", REVISIONS)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One server for all tests of a worker; nobody here sends a wrong credential."""
    with guarding(tmp_path_factory.mktemp("guarded")) as found:
        yield found


def routes() -> list[str]:
    """Every path that is served, and some that are not."""
    with Toolhall(config=Config(profile="server")) as hall:
        paths = [f"{path}some/thing" if path.endswith("/") else path for path in hall.http.endpoints]
    return [*paths, "/", "/nothing", "/health/", "/healthy", "//health", "/mcp/", "/oxp/health/", "/api/../health"]


@pytest.mark.threat("B1")
@pytest.mark.parametrize("method", METHODS)
def test_B1_every_non_public_route_and_method_without_a_credential_is_refused_with_401(
    guarded: Guarded, method: str
) -> None:
    """All routes with all methods, without a credential: only those that anybody may ask answer at all."""
    for path in routes():
        status = guarded.status(method, path, b"{}" if method == "POST" else b"")
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES):
            assert status < 500
        elif (method, path) == ("POST", "/machine"):
            assert status == 400  # only a message could bring a credential, and this is none
        else:
            assert status == 401, (method, path)


@pytest.mark.threat("B1")
def test_B1_websocket_upgrade_without_a_credential_is_refused_with_401(guarded: Guarded) -> None:
    """A WebSocket without a credential is not accepted, and its refusal says where to get one."""
    upgrade = [
        ("Host", HOST),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    for headers, expected in (([], b"401"), ([guarded.bearer("alice")], b"101")):
        with Connection(guarded.server.port) as connection:
            connection.send(http_request("GET", "/hub", [*upgrade, *headers]))
            head = connection.head()
        assert head.split()[1] == expected
        assert (b"www-authenticate: Bearer resource_metadata=" in head) is (expected == b"401")


@pytest.mark.threat("B6")
@each_legacy
def test_B6_session_id_of_another_caller_is_answered_like_an_unknown_one(guarded: Guarded, revision: str) -> None:
    """Bob with Alice's session id hears what he hears of one that never was; Alice's session goes on."""
    session = guarded.session("alice", revision)
    assert answer_of(guarded.mcp("alice", revision, request_in(revision, "ping"), session)).result == {}
    never = guarded.mcp("bob", revision, request_in(revision, "ping"), secrets.token_urlsafe(24))
    stolen = guarded.mcp("bob", revision, request_in(revision, "ping"), session)
    assert (stolen.status, stolen.body) == (never.status, never.body) == (404, never.body)
    for method in ("GET", "DELETE"):
        headers = [guarded.bearer("bob"), ("Mcp-Session-Id", session), ("Accept", "text/event-stream")]
        assert guarded.send(method, "/mcp", b"", headers).status == 404
    assert answer_of(guarded.mcp("alice", revision, request_in(revision, "ping"), session)).result == {}


@pytest.mark.threat("B7")
def test_B7_concurrent_requests_of_two_callers_with_one_id_each_get_their_own_answer(guarded: Guarded) -> None:
    """Two hundred requests at once, all with the id 1, from two callers in three revisions: each gets its nonce."""
    sessions = {
        (name, revision): guarded.session(name, revision) if revision in LEGACY else ""
        for name in ("alice", "bob")
        for revision in REVISIONS
    }

    def ask(number: int) -> bool:
        (name, revision), session = list(sessions.items())[number % len(sessions)]
        nonce = f"{name}-{secrets.token_hex(8)}"
        # Within one session an id can be in use once at a time.
        called = tool_call(revision, "nonce", {"nonce": nonce}) | ({"id": number} if session else {})
        reply = guarded.mcp(name, revision, called, session)
        return answer_of(reply).text == nonce

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(200)))


@pytest.mark.threat("B17")
def test_B17_duplicate_authorization_header_is_refused(guarded: Guarded) -> None:
    """Authorization twice is refused, whoever's they are; so is a name in a header other than the body's."""
    body = encoded(tool_call(MODERN, "number", {"value": 7}))
    usual = session_headers(MODERN, body, "")
    alice, bob = guarded.bearer("alice"), guarded.bearer("bob")
    assert guarded.send("POST", "/mcp", body, [alice, *usual]).status == 200
    assert guarded.send("POST", "/mcp", body, [alice, bob, *usual]).status == 400
    assert guarded.send("POST", "/mcp", body, [alice, alice, *usual]).status == 400
    other = [("Mcp-Name", "touch") if name == "Mcp-Name" else (name, said) for name, said in usual]
    reply = guarded.send("POST", "/mcp", body, [alice, *other])
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, -32020)


@pytest.mark.threat("B18")
def test_B18_ungranted_tool_is_refused_with_the_same_message_in_every_revision(guarded: Guarded) -> None:
    """What a caller may not call it may not call in any revision, and hears the same."""
    said = set()
    for revision in REVISIONS:
        session = guarded.session("carl", revision) if revision in LEGACY else ""
        found = answer_of(guarded.mcp("carl", revision, tool_call(revision, "number", {"value": 7}), session))
        assert "result" not in found.message or found.is_error
        said.add(found.text)
    assert len(said) == 1


def oxp_for(user: str) -> Any:
    """A call of `nonce` in OXP for a user."""
    path, called = by_oxp()
    called["request"]["context"] = {"user_id": user}
    return path, called


def machine_for(user: str) -> Any:
    """The same in Machine Context."""
    path, called = by_machine()
    called["payload"]["context"] = {"user_id": user}
    return path, called


@pytest.mark.threat("B19")
@pytest.mark.parametrize(("way", "status"), [(oxp_for, 400), (machine_for, 403)])
def test_B19_claimed_user_id_without_the_right_to_act_for_others_is_refused_and_recorded(
    tmp_path: Path, way: Any, status: int
) -> None:
    """Bob who claims to be admin is refused, and the record names Bob; only who may act for others is let."""
    with guarding(tmp_path) as guarded:

        def ask(name: str, user: str) -> int:
            path, called = way(user)
            return guarded.send("POST", path, encoded(called), [guarded.bearer(name)]).status

        assert ask("bob", "bob") == 200
        assert ask("bob", "admin") == status
        assert ask("proxy", "admin") == 200
        assert guarded.server.stop() == 0
        outcomes = [(each["caller"], each["outcome"]) for each in guarded.records() if "outcome" in each]
    assert [caller for caller, _ in outcomes] == ["bob", "bob", "proxy"]
    assert [outcome == "ok" for _, outcome in outcomes] == [True, False, True]


@pytest.mark.threat("B16")
def test_B16_server_on_all_addresses_without_profile_and_credential_does_not_start(tmp_path: Path) -> None:
    """Other addresses need the profile `server`, and that needs a credential that somebody could bring."""
    for words, said in (
        (["--host", "0.0.0.0"], "use --profile server"),
        (["--host", "0.0.0.0", "--profile", "server"], "toolhall key create NAME --data"),
    ):
        command = toolhall("serve", "--port", "0", "--data", str(tmp_path / "data"), *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
        assert (done.returncode, done.stdout) == (78, "")
        assert said in done.stderr


@pytest.mark.threat("B16")
def test_B16_server_with_keys_listens_on_all_addresses_and_checks_the_host_header(tmp_path: Path) -> None:
    """With keys, the profile `server` may listen on every address, and still answers for its own names only."""
    with guarding(tmp_path, host="0.0.0.0", allowed_hosts="hall.internal") as guarded:
        assert guarded.send("GET", "/tools", b"", [guarded.bearer("alice")]).status == 200
        for host, status in (("hall.internal", 200), ("hall.example", 200), ("evil.example", 421)):
            request = http_request("GET", "/tools", [("Host", host), guarded.bearer("alice")])
            with Connection(guarded.server.port) as connection:
                connection.send(request)
                assert connection.reply().status == status


def test_stdio_caller_is_the_local_user_in_the_server_profile(tmp_path: Path) -> None:
    with stdio(tmp_path, profile="server") as line:
        assert call_tool(line, "nonce", nonce="here").text == "here"
