"""Connecting an account at an authorization server that is not ours, over real HTTP."""

import asyncio
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from tests.servers.account_broker import (
    ALICE,
    BOB,
    HALL,
    MAIL,
    REDIRECT,
    BrowserVisit,
    authorize_in_browser,
    broker_harness,
    provider_settings,
    register_hall,
)
from tests.servers.authority import Authority
from toolhall.model.caller import ANONYMOUS, Caller
from toolhall.model.requirements import AccountRequirement
from toolhall.oauth.link import LINK_TTL_SECONDS
from toolhall.oauth.providers import LinkFailed, TooManyLinks, UnknownProvider
from toolhall.stores.accounts import MAX_PENDING_PER_USER


async def test_browser_link_completed_gives_tools_the_token_of_that_user_only(acme: Authority) -> None:
    async with broker_harness(
        {"acme": provider_settings(acme.issuer, scopes=("profile",), resource="https://api.acme.example")}
    ) as hall:
        assert await hall.token() is None
        missing, words = await hall.broker.link_requirement(ALICE, MAIL, "Mail.list@1.0.0")
        assert missing.url == f"{HALL}/connect/{missing.id}"
        assert f"{HALL}/connect/{missing.id}" in words
        link = await hall.broker.find_link(missing.id or "")
        assert link is not None
        assert link.state == "pending"
        consent = await hall.broker.describe_consent(link.id, ALICE)
        assert consent.scopes == ("mail.read", "profile")
        assert consent.redirect_host == "127.0.0.1:8000"

        visit = await hall.agree(link)
        assert visit.back.startswith(f"{REDIRECT}?")
        done = await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)

        assert done.state == "completed"
        assert await hall.state(link) == "completed"
        token = await hall.token()
        assert token is not None
        assert token.token.reveal() == acme.issued[0].access
        assert set(token.scopes) == {"mail.read", "profile"}
        assert hall.broker.cached_token("alice", MAIL) == token
        assert await hall.token(user="bob") is None


async def test_browser_link_sends_pkce_redirect_uri_and_resource_and_no_secret_in_the_url(acme: Authority) -> None:
    """PKCE with S256, the exact redirect, the resource; the hall's secret goes to the token endpoint alone."""
    async with broker_harness({"acme": provider_settings(acme.issuer, resource="https://api.acme.example")}) as hall:
        visit = await hall.agree(await hall.begin())
        sent = visit.sent
        assert sent["code_challenge_method"] == "S256"
        assert len(sent["code_challenge"]) == 43
        assert sent["redirect_uri"] == REDIRECT
        assert sent["resource"] == "https://api.acme.example"
        assert "client_secret" not in sent
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        form = next(each.form for each in acme.asked if each.path == "/token")
        assert form["redirect_uri"] == REDIRECT
        assert form["resource"] == "https://api.acme.example"
        assert len(form["code_verifier"]) >= 43
        assert "client_secret" not in form  # it is in the header: the server wants basic


@pytest.mark.parametrize(
    ("way", "auth"),
    [("client_secret_post", {"token_auth": "post"}), ("none", {"client_secret": None})],
    ids=["post", "none"],
)
async def test_browser_link_uses_the_token_endpoint_authentication_of_the_provider(
    acme: Authority, way: str, auth: dict[str, Any]
) -> None:
    register_hall(acme, way)
    async with broker_harness({"acme": provider_settings(acme.issuer, **auth)}) as hall:
        assert (await hall.connect()).state == "completed"


async def test_authority_refuses_authorization_and_code_exchange_without_pkce(acme: Authority) -> None:
    """Proof that the server checks what the hall always sends: without it, neither step succeeds."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        url, _ = await hall.broker.consent((await hall.begin()).id, ALICE)
        visit = BrowserVisit(url, "", "")
        bare = {name: value for name, value in visit.sent.items() if not name.startswith("code_challenge")}
        refused = BrowserVisit("", "", await authorize_in_browser(f"{acme.issuer}/authorize?{urlencode(bare)}"))
        assert refused.query["error"] == "invalid_request"
        stolen = BrowserVisit("", "", await authorize_in_browser(url)).query["code"]
        form = {"grant_type": "authorization_code", "code": stolen, "redirect_uri": REDIRECT}
        async with httpx2.AsyncClient(trust_env=False) as thief:
            reply = await thief.post(f"{acme.issuer}/token", data=form, auth=("hall", "client-secret-of-the-hall"))
        assert reply.status_code == 400
        assert acme.issued == []


async def test_browser_link_denied_by_the_person_fails_and_connects_nothing(acme: Authority) -> None:
    acme.agrees = False
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        link = await hall.begin()
        visit = await hall.agree(link)
        with pytest.raises(LinkFailed, match="access was denied"):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        ended = await hall.broker.find_link(link.id)
        assert ended is not None
        assert (ended.state, ended.reason) == ("failed", "access was denied: nothing was connected")
        assert await hall.token() is None


async def test_callback_with_wrong_state_is_refused_and_the_link_stays_usable(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        link = await hall.begin()
        visit = await hall.agree(link)
        for state in ("", "x", f"{link.id}.", f"{link.id}.guess", visit.query["state"] + "x", "\ud800"):
            with pytest.raises(LinkFailed, match="not good any more"):
                await hall.broker.finish_redirect(visit.path, visit.query | {"state": state}, visit.nonce)
        assert acme.count("/token") == 0
        assert (await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)).state == "completed"


async def test_callback_repeated_concurrently_completes_once(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        visit = await hall.agree(await hall.begin())
        tries = [hall.broker.finish_redirect(visit.path, visit.query, visit.nonce) for _ in range(10)]
        ended = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(not isinstance(each, BaseException) for each in ended) == 1
        assert acme.count("/token") == 1
        with pytest.raises(LinkFailed):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)


async def test_callback_with_a_reused_code_connects_nothing_and_breaks_the_first_account(acme: Authority) -> None:
    """The provider finds the replay, and revokes what came of the code; so the first account breaks as well."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        first = await hall.agree(await hall.begin())
        await hall.broker.finish_redirect(first.path, first.query, first.nonce)
        second = await hall.agree(await hall.begin(BOB), BOB)
        with pytest.raises(LinkFailed, match="invalid_grant"):
            await hall.broker.finish_redirect(second.path, second.query | {"code": first.query["code"]}, second.nonce)
        assert await hall.token(user="bob") is None
        hall.clock.now += 4000
        assert await hall.token() is None


async def test_callback_with_a_wrong_or_missing_nonce_is_refused(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        visit = await hall.agree(await hall.begin())
        for nonce in (None, "", "guessed", visit.nonce + "x"):
            with pytest.raises(LinkFailed):
                await hall.broker.finish_redirect(visit.path, visit.query, nonce)
        assert acme.count("/token") == 0


async def test_consent_in_a_second_browser_invalidates_the_first(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        link = await hall.begin()
        first, second = await hall.agree(link), await hall.agree(link)
        with pytest.raises(LinkFailed):
            await hall.broker.finish_redirect(first.path, first.query, first.nonce)
        assert (await hall.broker.finish_redirect(second.path, second.query, second.nonce)).state == "completed"


SERVICE = Caller("service", proof="key", person="service", scopes=frozenset({"act_as"}))
FOR_ALICE = Caller("service", proof="key", person="service", scopes=frozenset({"act_as"}), acting_for="alice")


@pytest.mark.parametrize("visitor", [BOB, ANONYMOUS, SERVICE, FOR_ALICE], ids=["bob", "nobody", "service", "for alice"])
async def test_consent_by_another_caller_is_refused(acme: Authority, visitor: Caller) -> None:
    """Also the service that asked for Alice cannot connect in her place."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        for asker in (ALICE, FOR_ALICE):
            link = await hall.begin(asker)
            for attempt in (hall.broker.describe_consent, hall.broker.consent):
                with pytest.raises(LinkFailed, match="not good any more"):
                    await attempt(link.id, visitor)
            assert await hall.state(link) == "pending"


async def test_link_begun_by_a_service_for_a_user_connects_the_account_of_that_user(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        visit = await hall.agree(await hall.begin(FOR_ALICE))
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert await hall.token() is not None
        assert await hall.token(user="service") is None


async def test_link_expires_after_its_lifetime(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        link = await hall.begin()
        visit = await hall.agree(link)
        hall.clock.now += LINK_TTL_SECONDS + 1
        with pytest.raises(LinkFailed):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        with pytest.raises(LinkFailed):
            await hall.broker.consent(link.id, ALICE)
        assert await hall.state(link) is None
        assert acme.count("/token") == 0


async def test_begin_link_reuses_a_pending_link_and_limits_pending_links_per_user(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        assert (await hall.begin()).id == (await hall.begin()).id
        assert (await hall.begin(BOB)).id != (await hall.begin()).id
        for number in range(MAX_PENDING_PER_USER - 1):
            await hall.begin(scopes=(f"scope{number}",))
        with pytest.raises(TooManyLinks, match="open one of the links"):
            await hall.begin(scopes=("one.more",))


@pytest.mark.parametrize("caller", [ANONYMOUS, Caller("all", proof="shared")], ids=["nobody", "shared"])
async def test_begin_link_without_a_personal_credential_is_refused(acme: Authority, caller: Caller) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        with pytest.raises(LinkFailed, match="credential of your own"):
            await hall.begin(caller)


async def test_begin_link_with_an_unknown_provider_is_refused(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        with pytest.raises(UnknownProvider, match="known are acme"):
            await hall.begin(provider="evil")
        missing, words = await hall.broker.link_requirement(ALICE, AccountRequirement("evil", ()), "Mail.list@1.0.0")
        assert missing.url is None
        assert "the operator adds it" in words


async def test_link_for_more_scopes_keeps_the_scopes_already_granted(acme: Authority) -> None:
    """Two tools that need different scopes do not take the account from each other."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        send = AccountRequirement("acme", ("mail.send",))
        assert await hall.token(send) is None
        link = await hall.begin(scopes=send.scopes)
        assert link.scopes == ("mail.send",)
        assert (await hall.broker.describe_consent(link.id, ALICE)).scopes == ("mail.send", "mail.read")
        visit = await hall.agree(link)
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert await hall.token(send) is not None
        assert await hall.token() is not None
        assert len(await hall.broker.accounts("alice")) == 1


async def test_callback_cancelled_by_the_browser_completes_the_link(acme: Authority) -> None:
    """The code is worth nothing once it was used, so the exchange is finished whoever waits."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        visit = await hall.agree(await hall.begin())
        with acme.holding("/token") as held:
            waiting = asyncio.ensure_future(hall.broker.finish_redirect(visit.path, visit.query, visit.nonce))
            await held.reached()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await hall.broker.close()
        assert await hall.token() is not None
