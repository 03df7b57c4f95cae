"""Taking an account away: revoked at the provider, forgotten here in any case, by its owner or an operator."""

import asyncio

import pytest

from tests.servers.account_broker import ALICE, BOB, broker_harness, provider_settings
from tests.servers.authority import Authority
from toolhall.model.caller import LOCAL
from toolhall.oauth.broker import NotConnected


async def test_disconnect_revokes_both_tokens_and_removes_the_account(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts("alice")
        with pytest.raises(NotConnected):
            await hall.broker.disconnect(account.id, BOB)
        ended = await hall.broker.disconnect(account.id, ALICE)
        assert ended.revocation_error is None
        assert all(each.revoked for each in acme.issued)
        hints = [each.form["token_type_hint"] for each in acme.asked if each.path == "/revoke"]
        assert hints == ["refresh_token", "access_token"]
        assert await hall.token() is None
        assert await hall.broker.accounts() == ()
        with pytest.raises(NotConnected):
            await hall.broker.disconnect(account.id, ALICE)


async def test_disconnect_with_failing_revocation_still_removes_the_account(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        acme.down = True
        (account,) = await hall.broker.accounts()
        ended = await hall.broker.disconnect(account.id, LOCAL)
        assert ended.revocation_error == "acme answers with status 503"
        assert await hall.token() is None


async def test_disconnect_of_a_removed_provider_revokes_nothing_and_removes_the_account(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        async with broker_harness({}) as other:
            other.broker.open(hall.store)
            ended = await other.broker.disconnect(account.id, ALICE)
        assert "not set up any more" in (ended.revocation_error or "")
        assert acme.count("/revoke") == 0


async def test_disconnect_during_a_refresh_waits_and_revokes_the_new_tokens(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        hall.clock.now += 3600
        with acme.holding("/token") as held:
            asking = asyncio.ensure_future(hall.token())
            await held.reached()
            ending = asyncio.ensure_future(hall.broker.disconnect(account.id, ALICE))
        await asking
        assert (await ending).revocation_error is None
        assert len(acme.issued) == 2
        assert all(each.revoked for each in acme.issued)
        assert await hall.token() is None


async def test_refresh_of_an_account_removed_meanwhile_revokes_the_new_tokens(acme: Authority) -> None:
    """The account is gone when the new tokens come, so they are given back."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        hall.clock.now += 3600
        with acme.holding("/token") as held:
            asking = asyncio.ensure_future(hall.token())
            await held.reached()
            await hall.store.remove(account.id)
        assert await asking is None
        assert acme.issued[1].revoked
