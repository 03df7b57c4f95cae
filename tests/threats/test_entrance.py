# ruff: noqa: N802 - tests carry the names of their rows
"""What the entrance of a hall gives out, writes down and ends: repeated answers, refusals, limits, open streams."""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

import pytest

from tests.harness.mcp_messages import LEGACY, NOVEMBER, handshake, tool_call
from tests.threats.guarded import Inside, inside
from tests.threats.listening import Listener
from tests.threats.test_identity import WAYS, call, ran
from toolhall import Context, Toolkit, tool
from toolhall.auth.credentials import MAX_FAILURES
from toolhall.auth.profiles import LocalAuthenticator
from toolhall.http.authentication import MAX_RECORDS
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import Caller
from toolhall.registration.access import NewCondition, NewGrant, NewKey
from toolhall.stores.audit.journal import MemoryJournal

REMOTE_ADDRESS = "203.0.113.9"


def records(hall: Inside) -> list[AuditRecord]:
    """Everything in the audit so far that is about a call that is over."""
    journal = hall.hall.journal
    assert isinstance(journal, MemoryJournal)
    return [each for each in journal.records if each.phase is None]


# --- answers that are given twice -------------------------------------------------------------------------------------


@tool(level=4, effect="reads")
async def secret(room: str = "attic") -> str:
    """What only some may know."""
    return f"confidential {room}"


@pytest.fixture
async def hall() -> AsyncIterator[Inside]:
    async with inside(secret) as hall:
        yield hall


async def ask(hall: Inside, key: str, room: str = "attic", call_id: str | None = "c1") -> Any:
    """Call the tool in OXP."""
    request = {"tool_id": "test_entrance.secret", "input": {"room": room}}
    named = request | ({"call_id": call_id} if call_id else {})
    return await hall.send("POST", "/oxp/tools/call", {"request": named}, {"Authorization": f"Bearer {key}"})


@pytest.mark.threat("B7")
async def test_B7_cached_answer_of_a_call_id_is_not_repeated_to_a_lesser_key_of_the_same_caller(hall: Inside) -> None:
    """A second key of one name, for which the tool does not exist, gets nothing with the id of the first key's call."""
    await hall.hall.access.grants.add(NewGrant(callers="*", tools="*", effect="permit"), "test")
    _, lesser = await hall.hall.access.keys.create(NewKey("alice", scopes=("tools:Other",)), "test")
    assert b"confidential" in (await ask(hall, hall.keys["alice"])).content
    refused, repeated = await ask(hall, lesser, call_id=None), await ask(hall, lesser)
    assert repeated.status_code == refused.status_code == 400  # OXP has no 404
    assert b"confidential" not in repeated.content
    assert [each.outcome for each in records(hall)] == ["ok", "NotFound", "NotFound"]


@pytest.mark.threat("B11")
async def test_B11_cached_answer_of_a_call_id_is_not_repeated_after_its_grant_is_removed(hall: Inside) -> None:
    """A repeat is judged as a new call would be, and leaves a record, whether it is answered or not."""
    grants = hall.hall.access.grants
    granted = await grants.add(NewGrant(callers="*", tools="*", effect="permit"), "test")
    first, again = [await ask(hall, hall.keys["alice"]) for _ in range(2)]
    assert first.content == again.content
    forbidden = NewCondition(path="/room", equals="attic")
    added = await grants.add(NewGrant(callers="*", tools="*", effect="forbid", conditions=(forbidden,)), "test")
    assert (await ask(hall, hall.keys["alice"])).status_code == 403
    await grants.remove(added.id)
    assert (await ask(hall, hall.keys["alice"])).content == first.content
    await grants.remove(granted.id)
    assert (await ask(hall, hall.keys["alice"])).status_code == 400
    said = [(each.outcome, each.verdict) for each in records(hall)]
    assert [outcome for outcome, _ in said] == ["ok", "repeated", "Denied", "repeated", "NotFound"]
    assert [verdict for _, verdict in said][:4] == ["allow", "allow", "deny", "allow"]


async def test_call_id_reused_for_another_call_is_refused_and_recorded(hall: Inside) -> None:
    await hall.hall.access.grants.add(NewGrant(callers="*", tools="*", effect="permit"), "test")
    await ask(hall, hall.keys["alice"])
    assert (await ask(hall, hall.keys["alice"], room="cellar")).status_code == 400
    assert records(hall)[-1].outcome == "Malformed"


# --- missed events that are replayed ----------------------------------------------------------------------------------


class Rooms(Toolkit):
    """A toolkit that some keys of a caller are good for, and others are not."""

    @tool(level=4, effect="reads")
    async def revealed(self, ctx: Context, room: str = "attic") -> str:
        """Tell in two events what only some may know."""
        ctx.progress(1, total=2, message="confidential progress")
        return f"confidential {room}"


class Resumable(NamedTuple):
    """A session of Alice in which a call was answered by a stream of events."""

    hall: Inside
    session: dict[str, str]
    events: list[str]

    @classmethod
    async def open(cls, hall: Inside, revision: str) -> "Resumable":
        alice = hall.bearer("alice")
        opened = await hall.send("POST", "/mcp", handshake(revision), alice)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": revision}
        call = tool_call(revision, "Rooms_revealed")
        call["params"]["_meta"] = {"progressToken": "t"}
        answer = await hall.send("POST", "/mcp", call, alice | session)
        assert answer.text.count("confidential") >= 2
        return cls(hall, session, re.findall(r"^id: (.+)$", answer.text, re.MULTILINE))

    async def replayed(self, key: str, event: str) -> bytes:
        """What comes after an event, until the stream ends or the news of a change of the list is there."""
        headers = self.session | {"accept": "text/event-stream", "last-event-id": event}
        async with Listener(self.hall, "get", key=key, headers=headers) as listener:
            self.hall.hall.add(news)
            self.hall.hall.remove("news")
            await listener.until(b"list_changed", b"confidential attic")
            return listener.sent


@pytest.mark.threat("K6")
@pytest.mark.parametrize("revision", LEGACY)
async def test_K6_stream_events_are_not_replayed_to_a_lesser_key_of_the_same_caller(revision: str) -> None:
    """A second key of one name, for which the tool does not exist, resumes as if the event had never been."""
    async with inside(Rooms()) as hall:
        await hall.hall.access.grants.add(NewGrant(callers="*", tools="*", effect="permit"), "test")
        _, lesser = await hall.hall.access.keys.create(NewKey("alice", scopes=("tools:test_entrance",)), "test")
        _, equal = await hall.hall.access.keys.create(NewKey("alice", scopes=("tools:*", "approve")), "test")
        stream = await Resumable.open(hall, revision)
        first = re.sub(r"-[0-9]+$", "-0", stream.events[0])
        assert b"confidential" not in await stream.replayed(lesser, first)
        assert b"confidential attic" in await stream.replayed(equal, first)
        assert b"confidential attic" in await stream.replayed(hall.keys["alice"], first)
        assert b"confidential" not in await stream.replayed(lesser, first), "also after others have read it"
        outcomes = [each.outcome for each in records(hall)]
        assert outcomes == ["ok", "NotFound", "repeated", "repeated", "NotFound"]


@pytest.mark.threat("K6")
async def test_K6_stream_events_are_not_replayed_after_the_grant_is_removed() -> None:
    """The same key may have lost what it was granted between the call and the replay."""
    async with inside(Rooms()) as hall:
        granted = await hall.hall.access.grants.add(NewGrant(callers="*", tools="*", effect="permit"), "test")
        stream = await Resumable.open(hall, NOVEMBER)
        assert b"confidential attic" in await stream.replayed(hall.keys["alice"], stream.events[0])
        await hall.hall.access.grants.remove(granted.id)
        assert b"confidential" not in await stream.replayed(hall.keys["alice"], stream.events[0])
        assert [each.outcome for each in records(hall)] == ["ok", "NotFound"], "nothing had changed the first time"


@pytest.mark.threat("K6")
async def test_K6_event_ids_have_128_random_bits_per_stream() -> None:
    """The ids of one stream have a random part of 128 bits in common, and no two streams share it."""
    async with inside(Rooms()) as hall:
        await hall.hall.access.grants.add(NewGrant(callers="*", tools="*", effect="permit"), "test")
        streams = [(await Resumable.open(hall, NOVEMBER)).events for _ in range(8)]
        names = {event.rpartition("-")[0] for events in streams for event in events}
        assert len(names) == len(streams)
        assert all(re.fullmatch(r"[0-9a-f]{32}", name) for name in names)


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.threat("B1")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("said", [{}, {"Authorization": "Bearer tk_x"}], ids=["none", "wrong"])
async def test_B1_refused_credential_is_recorded_up_to_a_limit_per_address(way: str, said: dict[str, str]) -> None:
    """Each refusal is recorded with its dialect; from one address only so many a minute."""
    async with inside() as hall:
        for _ in range(MAX_RECORDS + 5):
            assert not ran(await call(hall, way, said))
        found = records(hall)
    assert len(found) == MAX_RECORDS
    dialect = "openapi" if way == "rest" else way
    assert {(each.caller, each.dialect, each.verdict) for each in found[:5]} == {("anonymous", dialect, "deny")}
    assert found[0].outcome == "Unauthenticated"


async def test_audit_record_of_a_refused_machine_message_names_its_tool() -> None:
    async with inside() as hall:
        await call(hall, "machine")
        assert [each.tool for each in records(hall)] == ["hostile_tools.nonce"]


UNCLEAR_USER_IDS = {
    "nothing": "",
    "blanks around it": " dora",
    "a line break": "dora\n",
    "a zero-width space": "do\u200bra",
    "a direction mark": "dora\u202e",
    "a filler that is drawn as nothing": "dora\u3164",
    "a control character": "do\u0007ra",
    "an accent apart from its letter": "Rene\u0301",
    "a variation selector": "dora\ufe0f",
    "a style of a sign": "\u263a\ufe0f",
    "a variation of an ideograph": "\u845b\U000e0100",
    "nothing but an accent": "\u0345",
    "an accent in front": "\u0301dora",
    "an accent after a blank": "dora \u0301",
    "two blanks": "dora  maar",
    "too long": "d" * 257,
}


@pytest.mark.threat("K22")
@pytest.mark.parametrize("user", UNCLEAR_USER_IDS.values(), ids=UNCLEAR_USER_IDS)
@pytest.mark.parametrize("way", ["oxp", "machine"])
async def test_K22_user_id_with_invisible_or_ambiguous_characters_is_refused(way: str, user: str) -> None:
    """What looks like another user, or like nobody, is no user; the same way lets a plain id through."""
    plain = "Ren\u00e9 d'Or+1@example.com"
    async with inside() as hall:
        path, message = WAYS[way]()
        said: list[str] = []
        for each in (user, plain):
            (message["request"] if way == "oxp" else message["payload"])["context"] = {"user_id": each}
            said.append((await hall.send("POST", path, message, hall.bearer("proxy"))).text)
        assert "user_id" in said[0]
        assert "here" in said[1]
        found = [(each.outcome, each.acting_for) for each in records(hall)]
        assert found == [("Malformed", None), ("ok", plain)]


@pytest.mark.threat("B19")
@pytest.mark.parametrize("way", ["oxp", "machine"])
async def test_B19_refused_user_id_is_recorded_as_denied_and_counts_against_the_rate_limit(way: str) -> None:
    """Whoever claims to be another is recorded as denied in every dialect, and cannot go on trying."""
    async with inside(calls_per_second=0.001, call_burst=2) as hall:

        async def claim() -> Any:
            path, message = WAYS[way]()
            (message["request"] if way == "oxp" else message["payload"])["context"] = {"user_id": "admin"}
            return await hall.send("POST", path, message, hall.bearer("bob"))

        statuses = [(await claim()).status_code for _ in range(3)]
        found = [(each.caller, each.outcome, each.verdict) for each in records(hall)]
    assert statuses[2] == 429
    assert found == [("bob", "Denied", "deny")] * 2 + [("bob", "Limited", None)]


# --- guesses ----------------------------------------------------------------------------------------------------------


@pytest.mark.threat("B13")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", REMOTE_ADDRESS])
async def test_B13_right_key_from_an_address_with_many_failed_guesses_is_served(address: str) -> None:
    """Whoever shares an address with a guesser, as behind a proxy, is served with a right key all the same."""
    async with inside() as hall:
        wrong = [{"Authorization": f"Bearer tk_{number}"} for number in range(MAX_FAILURES + 5)]
        replies = [await hall.send("GET", "/tools", headers=each, address=address) for each in wrong]
        assert replies[-1].status_code == (429 if address == REMOTE_ADDRESS else 401)
        assert (await hall.send("GET", "/tools", headers=hall.bearer("bob"), address=address)).status_code == 200


@pytest.mark.threat("I4")
async def test_I4_anonymous_calls_are_rate_limited_per_address() -> None:
    """A stranger who calls too often is told to wait, and no other stranger is."""

    @tool(level=0, effect="reads")
    async def clock() -> str:
        return "here"

    async with inside(clock, allow_anonymous=True, calls_per_second=0.001, call_burst=2) as hall:

        async def read(address: str) -> int:
            path = "/tools/test_entrance/clock"
            return int((await hall.send("POST", path, {}, address=address)).status_code)

        assert [await read(REMOTE_ADDRESS) for _ in range(3)] == [200, 200, 429]
        assert await read("203.0.113.10") == 200
        assert [await read(f"2001:db8::{number}") for number in range(3)] == [200, 200, 429]


# --- pages of others --------------------------------------------------------------------------------------------------

OWN = "localhost:8000"
PAGES: dict[str, tuple[dict[str, str], int]] = {
    "own page": ({"origin": f"http://{OWN}", "sec-fetch-site": "same-origin"}, 200),
    "own page, an old browser": ({"origin": f"http://{OWN}"}, 200),
    "no page": ({}, 200),
    "typed by a person": ({"sec-fetch-site": "none"}, 200),
    "listed page": ({"origin": "http://localhost:5173", "sec-fetch-site": "same-site"}, 200),
    "listed host": ({"origin": "https://app.example", "sec-fetch-site": "cross-site"}, 200),
    "another port": ({"origin": "http://localhost:3000"}, 403),
    "no port": ({"origin": "http://localhost"}, 403),
    "another name of this machine": ({"origin": "http://127.0.0.1:8000"}, 403),
    "cross-site": ({"sec-fetch-site": "cross-site"}, 403),
    "same-site": ({"sec-fetch-site": "same-site"}, 403),
    "a form": ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
    "a contradiction": ({"origin": f"http://{OWN}", "sec-fetch-site": "cross-site"}, 403),
}


@tool(level=7, effect="writes")
async def push() -> str:
    """What no page may do."""
    return "pushed"


@pytest.mark.threat("B14")
@pytest.mark.threat("B15")
@pytest.mark.parametrize("page", PAGES)
async def test_B14_B15_request_from_a_page_of_another_origin_is_not_the_local_user(page: str) -> None:
    """A page of another port of this machine runs no tool, though its request needs no leave of a browser."""
    headers, status = PAGES[page]
    async with local_hall(allowed_hosts=("127.0.0.1", "localhost:5173", "app.example")) as hall:
        reply = await send_locally(hall, "POST", "/tools/test_entrance/push", headers)
        assert (reply.status_code, b"pushed" in reply.content) == (status, status == 200)


@pytest.mark.threat("B15")
async def test_B15_cross_site_navigation_to_a_page_is_served_but_a_background_fetch_is_not() -> None:
    """To follow a link is no forgery: approvals are linked to from wherever people read of them."""
    came = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    async with local_hall() as hall:
        assert (await send_locally(hall, "GET", "/health", came)).status_code == 200
        assert (await send_locally(hall, "GET", "/health", came | {"sec-fetch-mode": "no-cors"})).status_code == 403


@pytest.mark.threat("B15")
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/api/me", "/api/audit?caller=*z*", "/api/events", "/api/tools", "/api/access"])
async def test_B15_frame_of_another_page_reads_nothing_of_management(site: str, path: str) -> None:
    """It could not see the answer, but it could make the hall read its whole audit, and take the room of listeners."""
    async with local_hall() as hall:
        framed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
        assert (await send_locally(hall, "GET", path, framed)).status_code == 403
        assert (await send_locally(hall, "GET", "/api/me", {"sec-fetch-site": "none"})).status_code == 200


def local_hall(**settings: Any) -> AbstractAsyncContextManager[Inside]:
    """A hall of the `local` profile."""
    return inside(push, profile="local", public_url=None, **settings)


async def send_locally(hall: Inside, method: str, path: str, headers: dict[str, str]) -> Any:
    """A request without a body from this machine, which a page can send without asking."""
    return await hall.send(method, f"http://{OWN}{path}", headers=headers, address="127.0.0.1")


@pytest.mark.threat("B16")
@pytest.mark.parametrize(
    "header", ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via"]
)
def test_B16_request_forwarded_by_a_proxy_is_anonymous(header: str) -> None:
    """Whichever header a proxy says it with, a request that it forwards proves nobody."""
    scope: Any = {"path": "/mcp", "client": ("127.0.0.1", 1)}
    found = LocalAuthenticator().authenticate(scope, {header.encode(): b"x"})
    assert isinstance(found, Caller)
    assert (found.id, found.local) == ("anonymous", False)


# --- streams ----------------------------------------------------------------------------------------------------------


@tool(level=1, effect="reads")
async def news() -> str:
    """What everybody may know."""
    return "new"


@tool(level=1, effect="reads")
async def more() -> str:
    """This, too."""
    return "newer"


@pytest.mark.threat("B11")
@pytest.mark.parametrize("how", ["listen", "get"])
async def test_B11_notification_stream_ends_when_its_api_key_is_revoked(how: str) -> None:
    """Whoever listens for changes hears nothing more once its key is revoked, and its stream ends."""
    async with inside() as hall, Listener(hall, how) as listener:
        hall.hall.add(news)
        await listener.until(b"list_changed")
        heard = listener.sent
        (key,) = (key.id for key in hall.hall.access.keys.all if key.name == "alice")
        await hall.hall.access.keys.revoke(key)
        hall.hall.add(more)
        await listener.ended()
        assert listener.sent == heard
