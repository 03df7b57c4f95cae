"""HttpApp.prepare: which heads may be used again; HttpApp.serve: what a known head does not decide."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from toolhall import Config, Toolhall, tool
from toolhall.auth.authenticator import INVALID_MESSAGE, AuthenticationFailed, resolve_caller
from toolhall.auth.profiles import LocalAuthenticator
from toolhall.http.app import HttpApp
from toolhall.http.request import RequestHead
from toolhall.http.request_guard import MAX_HEADERS
from toolhall.model.caller import LOCAL
from toolhall.model.errors import Unavailable
from toolhall.registration.access import NewKey

MAX_BODY = 2_000
Pairs = list[tuple[bytes, bytes]]


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    with Toolhall(ping, config=Config(max_body_bytes=MAX_BODY, allowed_hosts=("hall.example",))) as hall:
        hall.http.opened = True
        yield hall


def scope_of(*extra: tuple[bytes, bytes], without: bytes = b"", **changed: Any) -> dict[str, Any]:
    """The scope of a usual POST; headers of the same name are replaced unless they are given twice."""
    usual = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"2")]
    names = {name for name, _ in extra} | {without}
    return {
        "type": "http",
        "method": "POST",
        "http_version": "1.1",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "client": ("127.0.0.1", 1),
        "headers": [pair for pair in usual if pair[0] not in names] + list(extra),
        **changed,
    }


def with_path(path: str) -> dict[str, Any]:
    return scope_of(path=path, raw_path=path.encode())


@pytest.mark.parametrize("path", ["/mcp", "/oxp/tools/call", "/machine", "/hub", "/tools/Kit/ping"])
def test_prepare_of_a_post_to_a_known_path_is_its_head(hall: Toolhall, path: str) -> None:
    scope = with_path(path)
    head = hall.http.prepare(scope)
    assert isinstance(head, RequestHead)
    assert (head.path, head.raw_path, head.query) == (path, path.encode(), b"")
    assert head.headers == dict(scope["headers"])
    own = "/tools/" if path.startswith("/tools/") else path
    assert head.endpoint == hall.http.endpoints[own]["POST"]
    assert head.max_body == MAX_BODY
    assert head.local_caller is LOCAL


def test_what_is_computed_from_the_headers_of_a_head_is_computed_once(hall: Toolhall) -> None:
    head, other = hall.http.prepare(scope_of()), hall.http.prepare(scope_of((b"mcp-name", b"ping")))
    assert isinstance(head, RequestHead)
    assert isinstance(other, RequestHead)
    seen: list[dict[bytes, bytes]] = []

    def name(headers: dict[bytes, bytes]) -> bytes | None:
        seen.append(headers)
        return headers.get(b"mcp-name")

    assert [head.derived(name), head.derived(name), other.derived(name), head.derived(len)] == [None, None, b"ping", 3]
    assert seen == [head.headers, other.headers]


@pytest.mark.parametrize(
    "extra",
    [
        [(b"content-type", b"application/json; charset=utf-8")],
        [(b"content-type", b"Application/JSON")],
        [(b"content-encoding", b"identity")],
        [(b"content-length", b"%d" % MAX_BODY)],
        [(b"host", b"hall.example")],
        [(b"origin", b"https://hall.example")],
        [(b"x-a", b"1"), (b"x-a", b"2")],
        [(b"authorization", b"Basic eDp5")],
        [(b"mcp-protocol-version", b"2026-07-28")],
    ],
)
def test_prepare_of_any_valid_head_is_its_head(hall: Toolhall, extra: Pairs) -> None:
    assert hall.http.prepare(scope_of(*extra)) is not None


@pytest.mark.parametrize("path", ["/nothing", "/mcp/", "/MCP", "//mcp", "/tools", "/health"])
def test_prepare_of_a_path_without_a_post_of_its_own_is_none(hall: Toolhall, path: str) -> None:
    assert hall.http.prepare(with_path(path)) is None


@pytest.mark.parametrize(
    "extra",
    [
        [(b"host", b"evil.example")],
        [(b"host", b"local host")],
        [(b"host", b"")],
        [(b"origin", b"http://evil.example")],
        [(b"origin", b"null")],
        [(b"sec-fetch-site", b"cross-site")],
        [(b"sec-fetch-site", b"same-site")],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/x-www-form-urlencoded")],
        [(b"content-type", b"")],
        [(b"content-encoding", b"gzip")],
        [(b"content-length", b"%d" % (MAX_BODY + 1))],
        [(b"content-length", b"-1")],
        [(b"content-length", b"1e1")],
        [(b"traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")],
        [(b"traceparent", b"")],
        [(b"host", b"localhost"), (b"host", b"localhost")],
        [(b"content-type", b"application/json"), (b"content-type", b"application/json")],
        [(b"content-length", b"2"), (b"content-length", b"2")],
        [(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")],
        [(b"origin", b"https://hall.example"), (b"origin", b"https://hall.example")],
        [(b"mcp-name", b"a"), (b"mcp-name", b"b")],
        [(b"x-%d" % number, b"") for number in range(MAX_HEADERS)],
    ],
)
def test_prepare_of_a_head_that_is_rejected_or_traced_is_none(hall: Toolhall, extra: Pairs) -> None:
    assert hall.http.prepare(scope_of(*extra)) is None


@pytest.mark.parametrize("missing", [b"host", b"content-type"])
def test_prepare_of_a_head_without_a_needed_header_is_none(hall: Toolhall, missing: bytes) -> None:
    assert hall.http.prepare(scope_of(without=missing)) is None


def test_prepare_below_a_root_path_is_none(hall: Toolhall) -> None:
    assert hall.http.prepare(scope_of(root_path="/hall")) is None


def test_prepare_while_the_hall_is_not_open_is_none(hall: Toolhall) -> None:
    hall.http.opened = False
    assert hall.http.prepare(scope_of()) is None


def test_prepare_beside_mounted_applications_is_none(hall: Toolhall) -> None:
    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        """Never called."""

    hall.http.add_routes({"/webhook": mounted})
    assert hall.http.prepare(scope_of()) is None
    hall.http.add_routes({})
    assert hall.http.prepare(scope_of()) is not None


@pytest.mark.parametrize(
    ("extra", "client"),
    [
        ([(b"x-forwarded-for", b"9.9.9.9")], "127.0.0.1"),
        ([(b"via", b"1.1 proxy")], "127.0.0.1"),
        ([], "192.0.2.1"),
    ],
)
def test_prepare_of_a_head_from_elsewhere_has_no_caller(hall: Toolhall, extra: Pairs, client: str) -> None:
    head = hall.http.prepare(scope_of(*extra, client=(client, 1)))
    assert head is not None
    assert head.local_caller is None


async def test_prepare_of_a_head_with_an_api_key_has_no_caller(hall: Toolhall) -> None:
    _, key = await hall.access.keys.create(NewKey("alice"), "test")
    for client in ("127.0.0.1", "192.0.2.1"):
        head = hall.http.prepare(scope_of((b"authorization", f"Bearer {key}".encode()), client=(client, 1)))
        assert head is not None
        assert head.local_caller is None


def test_prepare_in_the_server_profile_has_no_caller() -> None:
    with Toolhall(ping, config=Config(profile="server", public_url="https://hall.example")) as hall:
        hall.http.opened = True
        for client in (("127.0.0.1", 1), None):
            head = hall.http.prepare(scope_of(client=client))
            assert head is not None
            assert head.local_caller is None


class Exchange:
    """A server that gives the application a body and keeps its response."""

    more_body = False

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.status = 0
        self.sent = b""

    async def receive(self) -> Any:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.sent += message.get("body", b"")

    def send_json(self, status: int, body: bytes) -> bool:
        self.status, self.sent = status, body
        return True

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def on_disconnect(self, callback: Any) -> None:
        """Nobody goes away."""

    def pause_reading(self) -> None:
        """Nothing is read."""


CALL = b'{"header":{"version":"1.0","messageId":"1","messageType":"request"},"payload":{"tool":{"id":"ping"}}}'


async def served(http: HttpApp, head: RequestHead) -> Exchange:
    exchange = Exchange(CALL)
    await http.serve(head, CALL, exchange)
    return exchange


async def test_serve_by_a_hall_that_is_not_open_opens_it_first(hall: Toolhall) -> None:
    head = hall.http.prepare(with_path("/machine"))
    assert head is not None
    usual = await served(hall.http, head)
    hall.http.opened = False
    again = await served(hall.http, head)
    assert hall.http.opened
    assert (again.status, len(again.sent)) == (usual.status, len(usual.sent))
    await hall.settle()


async def test_serve_by_a_hall_that_cannot_be_opened_is_503(hall: Toolhall) -> None:
    head = hall.http.prepare(scope_of())
    assert head is not None

    async def fail() -> None:
        raise Unavailable("as the test says")

    hall.http.opened = False
    hall.http.open_on_request = fail
    assert (await served(hall.http, head)).status == 503
    assert not hall.http.opened


async def test_serve_of_a_path_at_which_an_application_was_mounted_meanwhile_is_its_response(hall: Toolhall) -> None:
    head = hall.http.prepare(scope_of())
    assert head is not None
    called: list[str] = []

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        called.append(scope["path"])

    hall.http.add_routes({"/webhook": mounted})
    other = RequestHead(with_path("/webhook"), head.headers, head.endpoint, LocalAuthenticator(), MAX_BODY)
    await served(hall.http, other)
    assert called == ["/webhook"]


def with_key(key: str) -> dict[str, Any]:
    return scope_of((b"authorization", f"Bearer {key}".encode()), client=("192.0.2.1", 1))


async def test_prepared_head_with_a_key_verifies_it_each_time(hall: Toolhall) -> None:
    """Its caller is the key's, and fails from the moment at which the key is revoked."""
    created, secret = await hall.access.keys.create(NewKey("alice"), "test")
    head = hall.http.prepare(with_key(secret))
    assert head is not None
    assert head.local_caller is None
    callers = [await resolve_caller(head.authenticate()) for _ in range(2)]
    assert [caller.id for caller in callers] == ["alice", "alice"]
    await hall.access.keys.revoke(created.id)
    with pytest.raises(AuthenticationFailed):
        head.authenticate()


@pytest.mark.parametrize("profile", ["local", "server"])
@pytest.mark.parametrize("credential", [b"Bearer tk_wrong", b"Bearer token", b"Basic abc", b"Bearer ", b"tk_bare"])
def test_prepared_head_answers_a_wrong_credential_as_authenticate_does(profile: Any, credential: bytes) -> None:
    config = Config(profile=profile, public_url="https://hall.example")
    with Toolhall(ping, config=config) as hall:
        hall.http.opened = True
        scope = scope_of((b"authorization", credential), (b"host", b"hall.example"), client=("192.0.2.1", 1))
        head = hall.http.prepare(scope)
        assert head is not None
        with pytest.raises(AuthenticationFailed) as prepared:
            head.authenticate()
        assert prepared.value.credential_sent
        assert prepared.value.error.message == INVALID_MESSAGE
