"""Providers that take their time: no call waits for long, and no refresh that was begun is given up."""

import asyncio
from typing import Any

import pytest

from tests.servers.account_broker import (
    MAIL,
    BrokerHarness,
    BrokerStorage,
    Clock,
    broker_harness,
    egress_client_for,
    provider_settings,
)
from tests.servers.authority import METADATA, Authority
from tests.servers.http_server import HttpResponse
from tests.servers.scripted_authority import ScriptedAuthority
from toolhall.egress.addresses import EgressFailed
from toolhall.egress.client import EgressClient, EgressResponse
from toolhall.model.errors import Unavailable
from toolhall.model.requirements import AccountRequirement
from toolhall.oauth import refresh
from toolhall.oauth.discovery import CACHE_SECONDS, STALE_SECONDS
from toolhall.oauth.refresh import LEASE_SECONDS, REFRESH_TIMEOUT_SECONDS
from toolhall.stores.accounts import MemoryAccountStore
from toolhall.stores.vault.store import MemoryVaultStore

REFRESH = ("/token", "refresh_token")


class SlowEgress:
    """An egress client whose requests are executed, but whose responses take `takes` seconds."""

    def __init__(self, egress: EgressClient, clock: Clock) -> None:
        self._egress = egress
        self._clock = clock
        self.takes = 0.0

    async def fetch(self, method: str, url: str, *, seconds: float, **said: Any) -> EgressResponse:
        reply = await self._egress.fetch(method, url, seconds=seconds, **said)
        self._clock.now += min(seconds, self.takes)
        if seconds < self.takes:
            raise EgressFailed("did not answer in time")
        return reply


async def access(hall: BrokerHarness) -> str:
    token = await hall.token()
    assert token is not None
    return token.token.reveal()


async def test_refresh_response_just_before_the_timeout_is_used(acme: Authority) -> None:
    """By then the provider has replaced the refresh token; to send the old one again would end the whole grant."""
    clock = Clock()
    slow_egress = SlowEgress(egress_client_for(acme.issuer), clock)
    async with broker_harness({"acme": provider_settings(acme.issuer)}, clock=clock, egress=slow_egress) as hall:
        await hall.connect()
        clock.now += 3600
        slow_egress.takes = REFRESH_TIMEOUT_SECONDS - 1
        assert await access(hall) == acme.issued[1].access
        assert acme.count(*REFRESH) == 1
        assert not acme.issued[1].revoked


async def test_refresh_goes_on_after_waiting_callers_time_out(acme: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
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


async def test_valid_token_is_used_while_a_refresh_is_running(acme: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600 - 30
        monkeypatch.setattr(refresh, "WAIT_SECONDS", 0.0)
        with acme.holding("/token") as held:
            assert await access(hall) == acme.issued[0].access
            await held.reached()
            assert await access(hall) == acme.issued[0].access


async def test_refresh_lease_keeps_other_processes_from_refreshing(acme: Authority) -> None:
    clock = Clock()
    storage = BrokerStorage(MemoryAccountStore(clock), MemoryVaultStore())
    providers = {"acme": provider_settings(acme.issuer)}

    async def at_once(_: float) -> None:
        """The next look."""

    async with broker_harness(providers, storage=storage, clock=clock) as one:
        await one.connect()
        clock.now += 3600
        async with broker_harness(providers, storage=storage, clock=clock, sleep=at_once) as two:
            with acme.holding("/token") as held:
                waiting = asyncio.ensure_future(one.token())
                await held.reached()
                clock.now += REFRESH_TIMEOUT_SECONDS + 1
                with pytest.raises(Unavailable, match="renewed elsewhere"):
                    await two.token()
            assert await waiting is not None
            assert await access(two) == acme.issued[1].access
            assert acme.count(*REFRESH) == 1


def test_refresh_lease_outlasts_the_refresh_timeout() -> None:
    assert LEASE_SECONDS >= REFRESH_TIMEOUT_SECONDS + 10


async def test_provider_metadata_of_a_failing_issuer_is_requested_once_a_minute(scripted: ScriptedAuthority) -> None:
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await hall.connect()
        scripted.paths[METADATA] = lambda _: HttpResponse(503)
        asked = scripted.count(METADATA)
        scripted.tokens = {"expires_in": 4}
        hall.clock.now += CACHE_SECONDS
        for _ in range(5):
            assert await hall.token() is not None
            hall.clock.now += 4
        assert scripted.count(METADATA) == asked + 1
        hall.clock.now += STALE_SECONDS
        assert await hall.token() is not None
        assert scripted.count(METADATA) == asked + 2


async def test_refresh_lease_is_taken_after_the_metadata_is_fetched(acme: Authority) -> None:
    """Otherwise a claim could end while its refresh is under way."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += CACHE_SECONDS
        before = await hall.broker.accounts()
        with acme.holding(METADATA) as held:
            waiting = asyncio.ensure_future(hall.token())
            await held.reached()
            assert await hall.broker.accounts() == before
        assert await waiting is not None


async def test_cached_token_is_found_by_a_scope_alias(scripted: ScriptedAuthority) -> None:
    """Google has two for some; which of them a tool uses makes no difference."""
    given = provider_settings(
        scripted.issuer,
        preset="google",
        authorize_url=f"{scripted.issuer}/authorize",
        token_url=f"{scripted.issuer}/token",
    )
    async with broker_harness({"acme": given}) as hall:
        await hall.connect(scopes=("email",))
        assert await hall.token(AccountRequirement("acme", ("email",))) is not None
        other = AccountRequirement("acme", ("https://www.googleapis.com/auth/userinfo.email",))
        assert hall.broker.cached_token("alice", other) is not None
        assert hall.broker.cached_token("alice", MAIL) is None
