"""Taking an account away: revoked at the provider, forgotten here in any case, by its owner or an operator."""

import asyncio

import pytest

from tests.servers.authority import Authority
from tests.servers.linking import ALICE, BOB, linking, settings
from toolhall.model.caller import LOCAL
from toolhall.oauth.broker import NotConnected


async def test_disconnecting_revokes(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
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


async def test_it_is_forgotten_also_when_revoking_fails(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
        await hall.connect()
        acme.down = True
        (account,) = await hall.broker.accounts()
        ended = await hall.broker.disconnect(account.id, LOCAL)
        assert ended.revocation_error == "acme answers with status 503"
        assert await hall.token() is None


async def test_what_was_linked_elsewhere_is_forgotten_and_goes_nowhere(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        async with linking({}) as other:
            other.broker.open(hall.store)
            ended = await other.broker.disconnect(account.id, ALICE)
        assert "not set up any more" in (ended.revocation_error or "")
        assert acme.count("/revoke") == 0


async def test_a_refresh_under_way_is_waited_for_and_what_it_brought_is_revoked(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
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


async def test_what_another_process_renews_meanwhile_is_revoked_too(acme: Authority) -> None:
    """The account is gone when the new tokens come, so they are given back."""
    async with linking({"acme": settings(acme.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        hall.clock.now += 3600
        with acme.holding("/token") as held:
            asking = asyncio.ensure_future(hall.token())
            await held.reached()
            await hall.store.remove(account.id)
        assert await asking is None
        assert acme.issued[1].revoked
