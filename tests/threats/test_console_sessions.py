# ruff: noqa: N802 - tests carry the names of their rows
"""A console session counts for the hall's own pages only, at the management interface only, and ends with its key."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.unit.web.browser_client import ApprovalHall, Browser
from tests.unit.web.test_sessions import OWN_PAGE, SERVER, Person, person_of
from toolhall import Toolhall
from toolhall.app.data_dir import OpenOptions
from toolhall.config import Config
from toolhall.registration.access import NewKey
from toolhall.stores.audit.filters import AuditQuery, TextFilter
from toolhall.web.ended_sessions import EndedSessions
from toolhall.web.sessions import IDLE_SECONDS

FOREIGN: dict[str, dict[str, str]] = {
    "cross-site": {"sec_fetch_site": "cross-site"},
    "same-site": {"sec_fetch_site": "same-site"},
    "typed address": {"sec_fetch_site": "none"},
    "other origin": {"sec_fetch_site": "", "origin": "http://localhost:9999"},
    "https twin": {"sec_fetch_site": "", "origin": "https://localhost:8000"},
    "null": {"sec_fetch_site": "", "origin": "null"},
    "unknown": {"sec_fetch_site": "", "origin": ""},
    "contradiction": {"sec_fetch_site": "cross-site", "origin": "http://localhost:8000"},
}
DIALECT_PATHS = [
    ("POST", "/mcp"),
    ("POST", "/tools/browser_client/burn"),
    ("GET", "/tools"),
    ("GET", "/oxp/tools"),
    ("POST", "/oxp/tools/call"),
    ("POST", "/hub"),
    ("GET", "/machine/tools"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
]


@pytest.fixture
async def house() -> AsyncIterator[ApprovalHall]:
    house = ApprovalHall(SERVER)
    with house.hall:
        yield house


@pytest.fixture
async def alice(house: ApprovalHall) -> Person:
    return await person_of(house, "alice", "admin")


def names_of(house: ApprovalHall) -> set[str]:
    return {key.name for key in house.hall.access.keys.all}


@pytest.mark.threat("B20")
@pytest.mark.parametrize("kind", FOREIGN)
async def test_B20_session_cookie_from_another_origin_is_refused(house: ApprovalHall, alice: Person, kind: str) -> None:
    """Neither reads nor changes count, even with the right token, unless a page of this hall sent them."""
    sent = {name: value for name, value in FOREIGN[kind].items() if value}
    without = {name.replace("_", "-"): value for name, value in sent.items()}
    reply = await alice.browser.send("GET", "/api/keys", b"", without)
    assert reply.status == 403
    typed = {"content-type": "application/json", "x-toolhall-token": alice.token}
    reply = await alice.browser.send("POST", "/api/keys", b'{"name": "evil"}', typed | without)
    assert reply.status == 403
    assert names_of(house) == {"alice"}


@pytest.mark.threat("B20")
async def test_B20_origin_counts_where_the_browser_says_no_site(alice: Person) -> None:
    """An older browser sends an Origin only: that of this hall is accepted, for changes as for reads."""
    older = {"origin": "http://localhost:8000"}
    assert (await alice.browser.send("GET", "/api/keys", b"", older)).status == 200
    typed = older | {"content-type": "application/json", "x-toolhall-token": alice.token}
    assert (await alice.browser.send("POST", "/api/keys", b'{"name": "ci"}', typed)).status == 201


@pytest.mark.threat("B20")
async def test_B20_change_without_the_token_of_its_session_is_refused(house: ApprovalHall, alice: Person) -> None:
    """A missing token, one of another session or of a form, and the cookie's own text are none."""
    bob = await person_of(house, "bob", "admin")
    session = alice.sessions.read({b"cookie": alice.cookie.encode()})
    assert session is not None
    form = alice.sessions.csrf_token(session, "sign_out /sign-in")
    for token in ("", "x", bob.token, form, alice.cookie.partition("=")[2], alice.token + "="):
        status, _ = await alice.change("POST", "/api/keys", {"name": "evil"}, x_toolhall_token=token)
        assert status == 403, token
        assert (await alice.change("DELETE", "/api/keys/none", x_toolhall_token=token))[0] == 403
    assert names_of(house) == {"alice", "bob"}
    assert (await alice.change("POST", "/api/keys", {"name": "ci"}))[0] == 201


@pytest.mark.threat("B20")
async def test_B20_form_post_to_the_management_interface_is_refused(house: ApprovalHall, alice: Person) -> None:
    """A form cannot send the token as a header; and with it, its content type is refused."""
    form = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
    assert (await alice.browser.send("POST", "/api/keys", b"name=evil", form)).status == 403
    form["x-toolhall-token"] = alice.token
    assert (await alice.browser.send("POST", "/api/keys", b"name=evil", form)).status == 415
    assert names_of(house) == {"alice"}


@pytest.mark.threat("B20")
@pytest.mark.parametrize(("method", "path"), DIALECT_PATHS)
async def test_B20_session_cookie_on_a_dialect_endpoint_is_refused(alice: Person, method: str, path: str) -> None:
    """Even from the hall's own page and with the token, a cookie calls and lists nothing."""
    assert (await alice.change(method, path, {} if method == "POST" else None))[0] == 401


@pytest.mark.threat("B20")
@pytest.mark.parametrize("path", ["/api/me", "/tools", "/mcp", "/approve/x", "/health"])
async def test_B20_session_cookie_with_a_credential_is_refused(alice: Person, path: str) -> None:
    """Nobody has to guess which of the two counts."""
    status, _ = await alice.get(path, authorization=f"Bearer {alice.key}")
    assert status == 400


@pytest.mark.threat("B21")
async def test_B21_session_ends_when_idle_altered_doubled_or_of_another_hall(alice: Person) -> None:
    """No cookie, an old one, a changed one, the same twice, and another hall's under this one's name are none."""
    clock = alice.sessions.clock
    assert (await alice.get("/api/me"))[0] == 200
    good = dict(alice.browser.cookies)
    ((name, value),) = good.items()
    swapped = value[:-8] + ("A" if value[-8] != "A" else "B") + value[-7:]
    for cookie in ("", f"{name}=", f"{name}={swapped}", f"{name}={value}; {name}={value}", f"x{name}={value}"):
        assert (await alice.get("/api/me", cookie=cookie))[0] == 401, cookie
    with Toolhall(config=Config(profile="server", public_url="http://localhost:8000")) as other:
        foreign = Person(other, alice.key)
        assert (await alice.get("/api/me", cookie=foreign.cookie))[0] == 401
    alice.sessions.clock = lambda: clock() + IDLE_SECONDS + 1
    assert (await alice.get("/api/me"))[0] == 401


@pytest.mark.threat("B21")
async def test_B21_revoked_key_ends_its_sessions_and_bearers_at_the_next_request(
    house: ApprovalHall, alice: Person
) -> None:
    """The session's key is verified with every request."""
    _, made = await alice.change("POST", "/api/me/token")
    bearer = {"authorization": f"Bearer {made['token']}"}
    program = Browser(house.hall, address="192.0.2.7")
    assert (await program.send("GET", "/tools", b"", bearer)).status == 200
    assert (await alice.get("/api/me"))[0] == 200
    (key,) = house.hall.access.keys.all
    await house.hall.access.keys.revoke(key.id)
    assert (await alice.get("/api/me"))[0] == 401
    assert (await alice.change("POST", "/api/me/token"))[0] == 401
    assert (await program.send("GET", "/tools", b"", bearer)).status == 401


@pytest.mark.threat("B21")
async def test_B21_signing_out_ends_copies_of_the_session_and_its_bearers(alice: Person) -> None:
    """A copy of the cookie, also one that was renewed or proven since, and a bearer made from it end with it."""
    _, made = await alice.change("POST", "/api/me/token")
    thief = Browser(alice.hall, address="192.0.2.8")
    original = alice.cookie
    session = alice.sessions.read({b"cookie": original.encode()})
    assert session is not None
    alice.keep(alice.sessions.set_cookie(alice.sessions.proven(session)))
    copies = [original, alice.cookie]

    async def me(cookie: str) -> int:
        return (await thief.send("GET", "/api/me", b"", OWN_PAGE | {"cookie": cookie})).status

    assert [await me(each) for each in copies] == [200, 200]
    assert (await alice.browser.post("/sign-out", {"word": alice.token})).status == 303
    assert [await me(each) for each in copies] == [401, 401]
    assert "alice" not in (await thief.send("GET", "/sign-in", b"", {"cookie": original})).text
    bearer = {"authorization": f"Bearer {made['token']}"}
    program = Browser(alice.hall, address="192.0.2.8")
    assert (await program.send("GET", "/tools", b"", bearer)).status == 401
    alice.keep(alice.sessions.set_cookie(alice.sessions.new(key=alice.key)))
    assert (await alice.get("/api/me"))[0] == 200, "the key itself signs in again"


@pytest.mark.threat("B21")
async def test_B21_session_that_was_ended_stays_ended_in_other_processes_and_after_a_restart(tmp_path: Path) -> None:
    """What one process was told is stored, and read by the others and by the next one."""
    config = Config(profile="server", public_url="http://localhost:8000", data=str(tmp_path))
    with Toolhall(config=config) as hall:
        _ = hall.http
        await hall.open(OpenOptions(role="first"))
        _, key = await hall.access.keys.create(NewKey("alice", owner="alice"), "tests")
        alice, other = Person(hall, key), Toolhall(config=config)
        with other:
            _ = other.http
            await other.open(OpenOptions(role="sibling"))
            assert (await alice.at(other)).status == 200
            assert (await alice.browser.post("/sign-out", {"word": alice.token})).status == 303
            async with asyncio.timeout(patience()):
                while (await alice.at(other)).status != 401:  # noqa: ASYNC110 - it is asked, as a client would
                    await asyncio.sleep(0.05)
    with Toolhall(config=config) as again:
        _ = again.http
        await again.open()
        assert (await alice.at(again)).status == 401


@pytest.mark.threat("B21")
async def test_B21_signing_in_and_out_is_recorded(house: ApprovalHall) -> None:
    """Each is one record of the person's caller, without the key."""
    browser = Browser(house.hall, address="192.0.2.7")
    key = await house.key("alice")
    await browser.act("/sign-in", "sign_in", key=key)
    await browser.act("/sign-in", "sign_out")
    await browser.act("/sign-in", "sign_in", key="tk_wrong")
    found = (await house.hall.journal.search(AuditQuery(dialect=TextFilter.of("session/*")), 10)).records
    assert [(each.record.tool, each.record.caller, each.record.outcome) for each in found] == [
        ("sign out", "alice", "ok"),
        ("sign in", "alice", "ok"),
    ]
    assert key not in str(found)


@pytest.mark.threat("B21")
async def test_B21_bearer_is_no_cookie_and_cookie_is_no_bearer(alice: Person) -> None:
    """What was sealed for one purpose opens for no other."""
    _, made = await alice.change("POST", "/api/me/token")
    ((name, value),) = alice.browser.cookies.items()
    program = Browser(alice.hall, address="192.0.2.7")
    for text in (value, f"ts_{value}"):
        assert (await program.send("GET", "/tools", b"", {"authorization": f"Bearer {text}"})).status == 401
    for text in (made["token"], made["token"].removeprefix("ts_")):
        own_page = {"sec-fetch-site": "same-origin", "cookie": f"{name}={text}"}
        assert (await program.send("GET", "/api/me", b"", own_page)).status == 401
    assert (await program.send("GET", "/api/me", b"", {"authorization": f"Bearer {made['token']}"})).status == 401


@pytest.mark.threat("B21")
async def test_B21_signing_out_over_and_over_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the store does not remember of one caller is not kept in memory, and what has expired is dropped."""
    monkeypatch.setattr("toolhall.stores.approvals.MAX_USED_STATES", 3)
    monkeypatch.setattr("toolhall.web.ended_sessions._MIN_PRUNED", 4)
    ended = EndedSessions()
    for number in range(10):
        await ended.end(f"m{number}", "mallory", 100.0, 0.0)
    assert [ended.has_ended(f"m{number}") for number in range(10)] == [True] * 3 + [False] * 7
    await ended.end("a", "alice", 200.0, 0.0)
    for number in range(3):
        await ended.end(f"b{number}", "bob", 200.0, 150.0)
    assert [ended.has_ended(nonce) for nonce in ("m0", "a", "b0", "b2")] == [False, True, True, True]


@pytest.mark.threat("B20")
async def test_B20_answers_to_a_session_are_kept_by_no_cache(house: ApprovalHall, alice: Person) -> None:
    """Caches know that an answer to a credential is for its sender; of an answer to a cookie they do not."""
    generator = await house.generator("alice")
    typed = OWN_PAGE | {"content-type": "application/json", "x-toolhall-token": alice.token}
    code = b'{"code": "%b"}' % generator.code().encode()
    requests = [("GET", "/api/me", b""), ("POST", "/api/keys", b'{"name": "ci"}'), ("POST", "/api/me/proof", code)]
    for method, path, body in requests:
        reply = await alice.browser.send(method, path, body, typed)
        assert (reply.status in (200, 201), reply.header("cache-control")) == (True, "no-store"), path
