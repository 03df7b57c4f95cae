"""Providers that take their time: no call waits for long, and no refresh that was begun is given up."""

import asyncio
from typing import Any

import pytest

from tests.servers.authority import METADATA, Authority
from tests.servers.liar import Liar
from tests.servers.linking import MAIL, Clock, Kept, Linking, linking, opened, settings
from tests.servers.serving import Answer
from toolhall.egress.addresses import EgressFailed
from toolhall.egress.client import EgressClient, EgressResponse
from toolhall.model.errors import Unavailable
from toolhall.model.requirements import AccountRequirement
from toolhall.oauth import refresh
from toolhall.oauth.client import CACHE_SECONDS, STALE_SECONDS
from toolhall.oauth.refresh import LEASE_SECONDS, REFRESH_TIMEOUT_SECONDS
from toolhall.stores.accounts import MemoryAccountStore
from toolhall.stores.vault.store import MemoryVaultStore

REFRESH = ("/token", "refresh_token")


class Far:
    """A door to providers whose answers take so many seconds: they did what was asked, whoever waits for it."""

    def __init__(self, door: EgressClient, clock: Clock) -> None:
        self._door = door
        self._clock = clock
        self.takes = 0.0

    async def fetch(self, method: str, url: str, *, seconds: float, **said: Any) -> EgressResponse:
        reply = await self._door.fetch(method, url, seconds=seconds, **said)
        self._clock.now += min(seconds, self.takes)
        if seconds < self.takes:
            raise EgressFailed("did not answer in time")
        return reply


async def access(hall: Linking) -> str:
    token = await hall.token()
    assert token is not None
    return token.token.reveal()


async def test_an_answer_that_comes_late_is_not_lost(acme: Authority) -> None:
    """By then the provider has replaced the refresh token; to send the old one again would end the whole grant."""
    clock = Clock()
    far = Far(opened(acme.issuer), clock)
    async with linking({"acme": settings(acme.issuer)}, clock=clock, door=far) as hall:
        await hall.connect()
        clock.now += 3600
        far.takes = REFRESH_TIMEOUT_SECONDS - 1
        assert await access(hall) == acme.issued[1].access
        assert acme.count(*REFRESH) == 1
        assert not acme.issued[1].revoked


async def test_who_waits_gives_up_and_the_refresh_goes_on(acme: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600
        monkeypatch.setattr(refresh, "WAIT_SECONDS", 0.0)
        with acme.holding("/token") as held:
            for _ in range(3):
                with pytest.raises(Unavailable, match="has not renewed the account yet"):
                    await hall.token()
            await held.reached()
            hall.clock.now += REFRESH_TIMEOUT_SECONDS
            with pytest.raises(Unavailable):
                await hall.token()
        await hall.broker.close()
        monkeypatch.undo()
        assert await access(hall) == acme.issued[1].access
        assert acme.count(*REFRESH) == 1


async def test_a_token_that_is_still_good_is_used_meanwhile(acme: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600 - 30
        monkeypatch.setattr(refresh, "WAIT_SECONDS", 0.0)
        with acme.holding("/token") as held:
            assert await access(hall) == acme.issued[0].access
            await held.reached()
            assert await access(hall) == acme.issued[0].access


async def test_no_other_process_asks_while_a_refresh_may_be_under_way(acme: Authority) -> None:
    clock = Clock()
    kept = Kept(MemoryAccountStore(clock), MemoryVaultStore())
    providers = {"acme": settings(acme.issuer)}

    async def at_once(_: float) -> None:
        """The next look."""

    async with linking(providers, kept=kept, clock=clock) as one:
        await one.connect()
        clock.now += 3600
        async with linking(providers, kept=kept, clock=clock, sleep=at_once) as two:
            with acme.holding("/token") as held:
                waiting = asyncio.ensure_future(one.token())
                await held.reached()
                clock.now += REFRESH_TIMEOUT_SECONDS + 1
                with pytest.raises(Unavailable, match="renewed elsewhere"):
                    await two.token()
            assert await waiting is not None
            assert await access(two) == acme.issued[1].access
            assert acme.count(*REFRESH) == 1


def test_a_claim_outlasts_the_refresh_with_a_margin() -> None:
    assert LEASE_SECONDS >= REFRESH_TIMEOUT_SECONDS + 10


async def test_an_issuer_that_is_silent_is_asked_once_a_minute(lying: Liar) -> None:
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await hall.connect()
        lying.paths[METADATA] = lambda _: Answer(503)
        asked = lying.count(METADATA)
        lying.tokens = {"expires_in": 4}
        hall.clock.now += CACHE_SECONDS
        for _ in range(5):
            assert await hall.token() is not None
            hall.clock.now += 4
        assert lying.count(METADATA) == asked + 1
        hall.clock.now += STALE_SECONDS
        assert await hall.token() is not None
        assert lying.count(METADATA) == asked + 2


async def test_nothing_is_claimed_before_it_is_known_where_to_ask(acme: Authority) -> None:
    """Otherwise a claim could end while its refresh is under way."""
    async with linking({"acme": settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += CACHE_SECONDS
        before = await hall.broker.accounts()
        with acme.holding(METADATA) as held:
            waiting = asyncio.ensure_future(hall.token())
            await held.reached()
            assert await hall.broker.accounts() == before
        assert await waiting is not None


async def test_the_other_name_of_a_scope_is_at_hand_too(lying: Liar) -> None:
    """Google has two for some; which of them a tool uses makes no difference."""
    given = settings(
        lying.issuer, preset="google", authorize_url=f"{lying.issuer}/authorize", token_url=f"{lying.issuer}/token"
    )
    async with linking({"acme": given}) as hall:
        await hall.connect(scopes=("email",))
        assert await hall.token(AccountRequirement("acme", ("email",))) is not None
        other = AccountRequirement("acme", ("https://www.googleapis.com/auth/userinfo.email",))
        assert hall.broker.cached_token("alice", other) is not None
        assert hall.broker.cached_token("alice", MAIL) is None
