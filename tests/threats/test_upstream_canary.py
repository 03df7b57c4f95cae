# ruff: noqa: N802 - tests carry the names of their rows
"""The canary of a whole hall: callers, people and upstreams mixed, and every byte that an upstream receives."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.harness.patience import patience
from tests.servers.account_broker import authorize_in_browser
from tests.servers.protected_upstream import ProtectedUpstream, protected_upstream
from toolhall import Config, Toolhall
from toolhall.model.caller import ALL_TOOLS, Caller
from toolhall.model.messages import Answer, CallTool, CompletedCall
from toolhall.model.secret import Secret
from toolhall.model.upstream import UpstreamSettings
from toolhall.registration.access import NewGrant

CALLS = 600
PEOPLE = ("alice", "bob")


def caller_of(person: str) -> Caller:
    """A program of this person, with the bearer token that it came with."""
    bearer = Secret(f"bearer-canary-of-{person}-cli")
    soon = time.time() + 3_600
    scopes = frozenset({ALL_TOOLS})
    return Caller(f"{person}-cli", proof="key", person=person, scopes=scopes, credential=bearer, expires_at=soon)


@asynccontextmanager
async def hall_with(upstreams: dict[str, ProtectedUpstream]) -> AsyncGenerator[Toolhall]:
    """A hall whose people have linked accounts at all upstreams, and which has fetched their tools."""
    settings = {name: UpstreamSettings(url=each.url, auth="oauth") for name, each in upstreams.items()}
    places = [urlsplit(url).netloc for each in upstreams.values() for url in (each.origin, each.authority.issuer)]
    with Toolhall(config=Config(upstreams=settings, egress_allow=tuple(places))) as hall:
        await hall.open()
        try:
            await hall.access.grants.add(NewGrant(callers="*", tools="*"), "local")
            for person in PEOPLE:
                for name in upstreams:
                    await link(hall, person, f"upstream:{name}")
            async with asyncio.timeout(patience()):
                while {each.tool.id.toolkit for each in hall.registry.snapshot.entries} != {*upstreams}:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            yield hall
        finally:
            await hall.settle()


async def link(hall: Toolhall, person: str, provider: str) -> None:
    """Link an account in a browser."""
    broker = hall.credentials.broker
    someone = Caller(person, proof="key", person=person)
    begun = await broker.start_link(someone, provider, ())
    url, nonce = await broker.consent(begun.id, someone)
    back = urlsplit(await authorize_in_browser(url))
    await broker.finish_redirect(back.path, dict(parse_qsl(back.query)), nonce)


@pytest.mark.threat("D13")
async def test_D13_no_upstream_of_a_hall_receives_a_callers_bearer_or_a_foreign_token() -> None:
    with ExitStack() as stack:
        upstreams = {name: stack.enter_context(protected_upstream()) for name in ("notes", "mail")}
        async with hall_with(upstreams) as hall:
            chance = random.Random(11)

            async def one(number: int) -> Answer:
                person, name = chance.choice(PEOPLE), chance.choice([*upstreams])
                if chance.random() < 0.02 and len(upstreams[name].authority.issued) > 2:
                    upstreams[name].refused.add(upstreams[name].authority.issued[-1])
                asked = CallTool(f"{name}_list_notes", {"of": person}, "test", number)
                return await hall.dispatcher.answer(asked, caller_of(person))

            answers = [await asyncio.gather(*(one(at + each) for each in range(20))) for at in range(0, CALLS, 20)]
            failed = [repr(each) for few in answers for each in few if not isinstance(each, CompletedCall)]
            assert not failed, (len(failed), {*failed})
    for name, server in upstreams.items():
        received = [repr((each.path, each.query, each.headers)).encode() + each.body for each in server.received]
        assert b"tools/call" in b"".join(received)
        foreign = [token for other, each in upstreams.items() if other != name for token in each.authority.issued]
        canaries = [f"bearer-canary-of-{person}-cli" for person in PEOPLE]
        assert not [each for each in (*foreign, *canaries, "refresh-") if each.encode() in b"\n".join(received)]
        whose = {
            token: {person for person in PEOPLE for each in received if _is_call(each, token, person)}
            for token in server.authority.issued
        }
        assert all(len(people) <= 1 for people in whose.values()), whose
        assert {person for people in whose.values() for person in people} == {*PEOPLE}


def _is_call(received: bytes, token: str, person: str) -> bool:
    return token.encode() in received and f'"of":"{person}"'.encode() in received
