"""UpstreamAccounts: what the hall sends to an upstream, and what follows when the upstream refuses it."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.servers.account_broker import ALICE, BOB, SECRET, provider_settings
from tests.servers.http_server import HttpResponse
from tests.servers.protected_upstream import ProtectedUpstream, protected_upstream
from tests.servers.scripted_authority import json_response
from tests.servers.upstream_accounts import ACCOUNT, NAME, accounts_at
from toolhall.model.errors import NeedsRequirement, Unavailable
from toolhall.model.requirements import AccountRequirement
from toolhall.model.upstream import UpstreamAuth
from toolhall.oauth.providers import ProviderSettings


@pytest.fixture
def server() -> Iterator[ProtectedUpstream]:
    with protected_upstream() as upstream:
        yield upstream


async def test_headers_of_a_call_have_the_token_of_its_user_only(server: ProtectedUpstream) -> None:
    async with accounts_at(server) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        assert await given.sent(await given.call(ALICE)) == server.authority.issued[0]
        assert await given.sent(await given.call(BOB)) is None
        assert await given.sent(None) is None


async def test_headers_without_a_call_have_a_lent_token_while_it_is_lent(server: ProtectedUpstream) -> None:
    async with accounts_at(server) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        with given.accounts.lend(NAME, "alice"):
            assert await given.sent(None) == server.authority.issued[0]
        assert await given.sent(None) is None


async def test_refresh_of_a_refused_token_renews_it_once_for_all_calls(server: ProtectedUpstream) -> None:
    async with accounts_at(server) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        calls = [await given.call(call_id=f"c{number}") for number in range(10)]
        assert all(await asyncio.gather(*(given.accounts.refresh(given.upstream, each, None) for each in calls)))
        assert server.authority.count("/token", "refresh_token") == 1
        renewed = server.authority.issued[1]
        assert {await given.sent(each) for each in calls} == {renewed}
        assert [each.reveal() for each in given.accounts.secrets(given.upstream, calls[0])] == [renewed]
        assert await given.sent(await given.call(call_id="later")) == renewed


async def test_refresh_without_a_refresh_token_or_account_does_not_help(server: ProtectedUpstream) -> None:
    server.authority.tokens = {"refresh_token": None}
    async with accounts_at(server) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        assert not await given.accounts.refresh(given.upstream, await given.call(), None)
        assert not await given.accounts.refresh(given.upstream, await given.call(BOB), None)
        assert not await given.accounts.refresh(given.upstream, None, None)


async def test_refresh_while_the_authorization_server_is_away_is_unavailable(server: ProtectedUpstream) -> None:
    async with accounts_at(server) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        call = await given.call()
        server.authority.paths["/token"] = lambda _: HttpResponse(503)
        with pytest.raises(Unavailable):
            await given.accounts.refresh(given.upstream, call, None)


async def test_refusal_asks_to_link_with_the_union_of_the_scopes(server: ProtectedUpstream) -> None:
    server.challenge = 'Bearer scope="read", resource_metadata="{origin}{path}"'
    async with accounts_at(server) as given:
        await given.hall.connect(ALICE, (), ACCOUNT)
        challenge = 'Bearer error="insufficient_scope", scope="write"'
        assert not await given.accounts.refresh(given.upstream, await given.call(), challenge)
        error = await given.accounts.refusal(given.upstream, await given.call(), challenge)
        assert isinstance(error, NeedsRequirement)
        (missing,) = error.missing
        assert missing.account == AccountRequirement(ACCOUNT, ("read", "write"))
        link = await given.hall.broker.find_link(missing.id or "")
        assert link is not None
        visit = await given.hall.agree(link)
        assert visit.sent["scope"].split() == ["read", "write"]
        await given.hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)

        again = await given.accounts.refusal(given.upstream, await given.call(), challenge)
        assert isinstance(again, Unavailable)  # a third link would not help
        assert "every scope that it asks for" in again.message
        bob = await given.accounts.refusal(given.upstream, await given.call(BOB), None)
        assert isinstance(bob, NeedsRequirement)
        assert bob.missing[0].account == AccountRequirement(ACCOUNT)  # what Alice needed, Bob is not asked for


async def test_refusal_after_the_authorization_server_changed_links_at_the_new_one(server: ProtectedUpstream) -> None:
    with protected_upstream() as other:
        server.authority.tokens = {"refresh_token": None}
        async with accounts_at(server, more=(other.authority.issuer,)) as given:
            await given.hall.connect(ALICE, (), ACCOUNT)
            old = server.authority
            server.authority = other.authority
            call = await given.call()
            challenge = f'Bearer error="invalid_token", resource_metadata="{server.origin}{server.metadata_path}"'
            assert not await given.accounts.refresh(given.upstream, call, challenge)
            error = await given.accounts.refusal(given.upstream, call, challenge)
            assert isinstance(error, NeedsRequirement)
            link = await given.hall.broker.find_link(error.missing[0].id or "")
            assert link is not None
            visit = await given.hall.agree(link)
            assert visit.url.startswith(other.authority.issuer)
            assert visit.sent["client_id"] == other.authority.clients[0]
            await given.hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
            assert await given.sent(await given.call(call_id="c2")) == other.authority.issued[0]
            assert old.issued[0].encode() not in b"".join(each.body for each in other.authority.asked)


@pytest.mark.parametrize(
    ("challenge", "found"),
    [("Bearer", "oauth"), (None, "none"), ("Basic realm=x", "none")],
    ids=["bearer", "no", "basic"],
)
async def test_detect_says_whether_people_can_have_accounts(
    server: ProtectedUpstream, challenge: str | None, found: UpstreamAuth
) -> None:
    async with accounts_at(server) as given:
        if found == "none":
            server.metadata, server.challenge = None, challenge
        assert await given.accounts.detect(given.upstream, challenge) == found


# --- the hall's own account


def own(server: ProtectedUpstream, **changed: object) -> dict[str, ProviderSettings]:
    return {"notes": provider_settings(server.authority.issuer, upstreams=("notes",), **changed)}


async def test_hall_token_is_fetched_once_and_sent_with_everything(server: ProtectedUpstream) -> None:
    server.metadata = {"scopes_supported": ["all"]}
    async with accounts_at(server, "client_credentials", own(server)) as given:
        sent = await asyncio.gather(*(given.sent(each) for each in [None, await given.call(), await given.call(BOB)]))
        assert set(sent) == {server.authority.issued[0]}
        form = server.authority.last("/token").form
        assert form == {"grant_type": "client_credentials", "resource": server.url, "scope": "all"}
        assert server.authority.count("/token") == 1
        assert [each.reveal() for each in given.accounts.secrets(given.upstream, None)] == [server.authority.issued[0]]


async def test_hall_token_is_fetched_again_before_its_end_and_when_it_is_refused(server: ProtectedUpstream) -> None:
    async with accounts_at(server, "client_credentials", own(server)) as given:
        assert await given.sent(None) == server.authority.issued[0]
        given.hall.clock.now += 3_550
        assert await given.sent(None) == server.authority.issued[1]
        assert await given.accounts.refresh(given.upstream, None, "Bearer")
        assert await given.sent(None) == server.authority.issued[2]


async def test_hall_token_of_a_server_without_people_needs_no_authorization_endpoint(server: ProtectedUpstream) -> None:
    server.authority.metadata = {"authorization_endpoint": None, "code_challenge_methods_supported": None}
    async with accounts_at(server, "client_credentials", own(server)) as given:
        assert await given.sent(None) == server.authority.issued[0]


async def test_hall_token_that_is_refused_is_unavailable_and_not_asked_for_by_every_call(
    server: ProtectedUpstream,
) -> None:
    server.authority.paths["/token"] = lambda _: json_response({"error": "invalid_client"}, 401)
    async with accounts_at(server, "client_credentials", own(server)) as given:
        for _ in range(3):
            with pytest.raises(Unavailable) as failed:
                await given.sent(None)
            assert "invalid_client" in failed.value.message
            assert SECRET not in failed.value.message
        assert server.authority.count("/token") == 1


async def test_hall_token_without_a_configured_client_names_the_settings(server: ProtectedUpstream) -> None:
    async with accounts_at(server, "client_credentials") as given:
        with pytest.raises(Unavailable, match=r"add \[providers.notes\] with issuer"):
            await given.sent(None)
