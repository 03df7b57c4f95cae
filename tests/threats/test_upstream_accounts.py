# ruff: noqa: N802 - tests carry the names of their rows
"""Accounts at upstreams: whose token goes where, and what the metadata of a hostile upstream can bring about."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.servers.account_broker import ALICE, BOB, SECRET, broker_harness, egress_client_for, provider_settings
from tests.servers.http_server import HttpRequest, HttpResponse, run_http_server
from tests.servers.protected_upstream import ISSUER_METADATA, ProtectedUpstream, protected_upstream
from tests.servers.scripted_authority import json_response
from tests.servers.upstream_accounts import ACCOUNT, AccountsHarness, accounts_at
from toolhall.egress.client import EgressClient
from toolhall.model.caller import ANONYMOUS
from toolhall.model.errors import Malformed
from toolhall.model.messages import NULL_LINK, Call
from toolhall.model.requirements import (
    AccountRequirement,
    AccountToken,
    CallerCredentials,
    Requirements,
    ResolvedCredentials,
)
from toolhall.model.secret import Secret
from toolhall.model.upstream import UpstreamSettings
from toolhall.oauth.providers import LinkFailed
from toolhall.pipeline.equip import Equip

HUGE = HttpResponse(200, b'{"resource": "' + b"x" * 100_000 + b'"}')
CALLS = 400


@pytest.fixture
def notes() -> Iterator[ProtectedUpstream]:
    with protected_upstream() as server:
        yield server


async def refusal(server: ProtectedUpstream, **options: Any) -> str:
    """Why no account can be linked at this upstream; nothing was asked of its authorization server."""
    async with accounts_at(server, **options) as given:
        with pytest.raises(LinkFailed) as failed:
            await given.hall.begin(provider=ACCOUNT, scopes=())
        assert server.authority.count("/register") == 0
        assert await given.hall.broker.accounts() == ()
    return failed.value.message


async def post(given: AccountsHarness, call: Call | None, text: str) -> None:
    """Send what a session sends for a call, and renew a refused token as the runner does."""
    for _ in range(2):
        headers = dict(await given.accounts.headers(given.upstream, call))
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": text}}
        reply = await given.egress.fetch("POST", given.upstream.settings.url or "", headers=headers, json=message)
        challenge = reply.headers.get("www-authenticate")
        if reply.status != 401 or not await given.accounts.refresh(given.upstream, call, challenge):
            return


@pytest.mark.threat("D13")
async def test_D13_credentials_of_callers_and_other_users_reach_no_upstream(notes: ProtectedUpstream) -> None:
    """Two people at two upstreams, an anonymous caller and the hall itself, mixed, with tokens refused in between."""
    with protected_upstream() as other:
        async with accounts_at(notes) as first, accounts_at(other) as second:
            canaries = {each: Secret(f"canary-bearer-of-{each.id}-caller") for each in (ALICE, BOB)}
            callers = [msgspec.structs.replace(each, credential=canary) for each, canary in canaries.items()]
            for given in (first, second):
                await given.hall.connect(ALICE, (), ACCOUNT)
                await given.hall.connect(BOB, (), ACCOUNT)
            chance = random.Random(7)

            async def mixed(number: int) -> None:
                given, server = chance.choice([(first, notes), (second, other)])
                caller = chance.choice([*callers, ANONYMOUS, None])
                call = None if caller is None else await given.call(caller, f"c{number}")
                if call is not None and call.credentials is not None and chance.random() < 0.05:
                    server.refused.add(call.credentials.accounts[ACCOUNT].token.reveal())
                await post(given, call, "nobody" if caller is None else caller.id)

            for start in range(0, CALLS, 20):
                await asyncio.gather(*(mixed(number) for number in range(start, start + 20)))
            owners = {
                account.user: {await given.hall.token(AccountRequirement(ACCOUNT), account.user)}
                for given in (first,)
                for account in await given.hall.broker.accounts()
            }
            assert owners.keys() == {"alice", "bob"}
    for server, stranger in ((notes, other), (other, notes)):
        received = b"\n".join(everything(each) for each in server.received)
        assert received.count(b"tools/call") > CALLS / 3
        assert not [each for each in canaries.values() if each.reveal().encode() in received]
        assert not [each for each in stranger.authority.issued if each.encode() in received]
        by_caller = {
            token: {each.body for each in server.received if token in each.headers.get("authorization", "")}
            for token in server.authority.issued
        }
        assert all(len(bodies) <= 1 for bodies in by_caller.values())  # each token with one person's calls only
        assert b"refresh-" not in received


def everything(asked: HttpRequest) -> bytes:
    """Every byte of a request."""
    return repr((asked.method, asked.path, asked.query, asked.headers)).encode() + asked.body


@pytest.mark.threat("D13")
async def test_D13_token_that_a_caller_sends_for_an_upstream_is_refused() -> None:
    sent = CallerCredentials(tokens={ACCOUNT: Secret("token-of-the-caller")})
    call = Call("c1", "notes.list@1.0.0", {}, ALICE, NULL_LINK, "oxp", 10, 0.0, caller_credentials=sent)
    equip: Any = Equip(accept_credentials=("*",))  # what its caller sent is read by a private method
    with pytest.raises(Malformed, match="nothing that a caller sends goes to an upstream"):
        equip._caller_credentials(call, call.tool, Requirements((AccountRequirement(ACCOUNT),)))


@pytest.mark.threat("D13")
async def test_D13_account_of_another_upstream_is_not_sent(notes: ProtectedUpstream) -> None:
    async with accounts_at(notes) as given:
        token = AccountToken("upstream:other", Secret("token-for-another-upstream"))
        call = msgspec.structs.replace(
            await given.call(), credentials=ResolvedCredentials(accounts={"upstream:other": token})
        )
        assert await given.sent(call) is None


@pytest.mark.parametrize("resource", ["https://mail.example.com", "http://127.0.0.1:1/mcp", None, 5, {"a": 1}])
@pytest.mark.threat("D14")
async def test_D14_upstream_metadata_for_another_resource_links_no_account(
    notes: ProtectedUpstream, resource: Any
) -> None:
    notes.metadata = {"resource": resource}
    words = await refusal(notes)
    assert notes.url in words
    assert notes.authority.asked == []


@pytest.mark.threat("D14")
async def test_D14_token_requests_name_the_upstream_as_the_resource(notes: ProtectedUpstream) -> None:
    async with accounts_at(notes) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        given.hall.clock.now += 3_599
        await given.call()
        asked = [each for each in notes.authority.asked if each.path in ("/authorize", "/token")]
        assert len(asked) == 3
        assert all((each.query | each.form)["resource"] == notes.url for each in asked)


@pytest.mark.threat("D15")
async def test_D15_upstream_cannot_have_the_client_of_another_service(notes: ProtectedUpstream) -> None:
    """It names the authorization server of a mail service, at which the operator registered this hall."""
    notes.authority.metadata = {"registration_endpoint": None}
    words = await refusal(notes, providers={"mail": provider_settings(notes.authority.issuer)})
    assert 'upstreams = ["notes"] in [providers.mail]' in words
    assert SECRET not in words


@pytest.mark.threat("D15")
async def test_D15_authorization_server_that_names_another_issuer_is_not_used(notes: ProtectedUpstream) -> None:
    notes.authority.metadata = {"issuer": "https://accounts.example.com"}
    assert "names another issuer" in await refusal(notes)


@pytest.mark.parametrize("iss", ["https://accounts.example.com", None, "{issuer}/"])
@pytest.mark.threat("D15")
async def test_D15_answer_of_another_issuer_sends_no_code(notes: ProtectedUpstream, iss: str | None) -> None:
    notes.authority.callback = {"iss": None if iss is None else iss.format(issuer=notes.authority.issuer)}
    async with accounts_at(notes) as given:
        visit = await given.hall.agree(await given.hall.begin(provider=ACCOUNT, scopes=()))
        with pytest.raises(LinkFailed):
            await given.hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert notes.authority.count("/token") == 0


@pytest.mark.threat("D15")
async def test_D15_two_upstreams_without_iss_have_redirects_of_their_own(notes: ProtectedUpstream) -> None:
    """A code that comes back at the address of another issuer is not sent anywhere."""
    with protected_upstream() as other:
        for server in (notes, other):
            server.authority.metadata = {"authorization_response_iss_parameter_supported": None}
            server.authority.callback = {"iss": None}
        settings = {"notes": UpstreamSettings(url=notes.url), "other": UpstreamSettings(url=other.url)}
        egress = egress_client_for(notes.origin, notes.authority.issuer, other.origin, other.authority.issuer)
        async with broker_harness({}, egress=egress, upstreams=settings) as hall:
            first = await hall.agree(await hall.begin(provider="upstream:notes", scopes=()))
            second = await hall.agree(await hall.begin(provider="upstream:other", scopes=()))
            assert first.path != second.path
            with pytest.raises(LinkFailed):
                await hall.broker.finish_redirect(second.path, first.query, first.nonce)
            assert notes.authority.count("/token") == other.authority.count("/token") == 0


@pytest.mark.threat("D16")
async def test_D16_metadata_of_an_upstream_reaches_no_address_that_is_not_allowed(notes: ProtectedUpstream) -> None:
    """The issuer, the document that the challenge names, and the endpoints are at a service inside."""
    asked: list[HttpRequest] = []

    def inside(request: HttpRequest) -> HttpResponse:
        asked.append(request)
        return json_response(notes.authority.default_metadata())

    with run_http_server(inside) as service:
        notes.challenge = f'Bearer resource_metadata="{service}/secrets"'
        notes.metadata = {"authorization_servers": [service, f"{service}/tenant"]}
        await refusal(notes)
        notes.metadata = {}
        for name in ("token_endpoint", "authorization_endpoint", "revocation_endpoint"):
            notes.authority.metadata = {name: f"{service}/x"}
            await refusal(notes)
        notes.authority.metadata = {"registration_endpoint": f"{service}/x"}
        await refusal(notes)
    assert asked == []


LIES: dict[str, Callable[[HttpRequest], HttpResponse]] = {
    "redirect": lambda _: HttpResponse(302, headers=(("Location", "http://127.0.0.1:9/"),)),
    "huge": lambda _: HUGE,
    "deep": lambda _: HttpResponse(200, b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
    "not UTF-8": lambda _: HttpResponse(200, b'{"issuer": "\xff"}'),
    "a list": lambda _: HttpResponse(200, b"[]"),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
@pytest.mark.threat("D16")
async def test_D16_metadata_that_is_large_deep_or_moved_is_not_used(
    notes: ProtectedUpstream, lie: Callable[[HttpRequest], HttpResponse]
) -> None:
    notes.paths[notes.metadata_path] = lie
    await refusal(notes)
    del notes.paths[notes.metadata_path]
    notes.authority.paths[ISSUER_METADATA] = lie
    await refusal(notes)


@pytest.mark.threat("D16")
async def test_D16_redirect_of_a_token_or_registration_endpoint_is_not_followed(notes: ProtectedUpstream) -> None:
    asked: list[HttpRequest] = []

    def elsewhere(request: HttpRequest) -> HttpResponse:
        asked.append(request)
        return json_response(notes.authority.grant(request))

    with run_http_server(elsewhere) as thief:
        moved = HttpResponse(307, headers=(("Location", f"{thief}/token"),))
        notes.authority.paths["/register"] = lambda _: moved
        async with accounts_at(notes, more=(thief,)) as given:
            with pytest.raises(LinkFailed):
                await given.hall.begin(provider=ACCOUNT, scopes=())
            del notes.authority.paths["/register"]
            notes.authority.paths["/token"] = lambda _: moved
            given.hall.clock.now += 10
            visit = await given.hall.agree(await given.hall.begin(provider=ACCOUNT, scopes=()))
            with pytest.raises(LinkFailed):
                await given.hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
    assert asked == []


@pytest.mark.threat("D16")
async def test_D16_upstream_that_names_many_servers_costs_few_requests(notes: ProtectedUpstream) -> None:
    notes.metadata = {"authorization_servers": [f"{notes.authority.issuer}/{number}" for number in range(1_000)]}
    await refusal(notes)
    assert len(notes.authority.asked) <= 15


@pytest.mark.threat("D17")
async def test_D17_tokens_registrations_and_states_are_in_no_log_or_message(
    notes: ProtectedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "toolhall")
    secret = "registered-secret-that-nobody-may-see"
    notes.authority.registration = {"client_secret": secret}
    async with accounts_at(notes) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        call = await given.call()
        notes.authority.paths["/token"] = lambda _: json_response({"error": "invalid_client", "hint": secret}, 401)
        with pytest.raises(Exception) as failed:  # noqa: PT011 - any error; its text is what is tested
            await given.accounts.refresh(given.upstream, call, "Bearer")
        assert isinstance(given.egress, EgressClient)
        (issued,) = notes.authority.issued
        state = notes.authority.last("/authorize").query["state"]
        row = [each for each in await given.hall.store.all() if not each.user]
        shown = "\n".join([caplog.text, str(failed.value), repr(given.accounts), repr(row), repr(call)])
        assert not [each for each in (secret, issued, state) if each in shown]
        assert secret.encode() not in b"".join(each.sealed for each in row)


@pytest.mark.threat("D17")
async def test_D17_registration_of_the_hall_is_no_account_of_anybody(notes: ProtectedUpstream) -> None:
    async with accounts_at(notes) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        assert [each.user for each in await given.hall.broker.accounts()] == ["alice"]
        assert await given.hall.broker.accounts("") == ()
