"""Keeping tokens fresh: one refresh for all who ask, kept before it is used, and honest when it fails."""

import asyncio
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.servers.account_broker import (
    ALICE,
    MAIL,
    BrokerHarness,
    BrokerStorage,
    Clock,
    broker_harness,
    provider_settings,
)
from tests.servers.authority import Authority
from tests.servers.scripted_authority import ScriptedAuthority, json_response
from toolhall.model.errors import Unavailable
from toolhall.model.requirements import AccountToken
from toolhall.oauth.refresh import LEASE_SECONDS, REFRESH_EARLY_SECONDS
from toolhall.stores.accounts import Account, MemoryAccountStore
from toolhall.stores.common import StoreFailed
from toolhall.stores.open import open_stores
from toolhall.stores.vault.store import MemoryVaultStore

REFRESH = ("/token", "refresh_token")


def distinct(tokens: list[AccountToken | None]) -> set[str]:
    assert all(tokens)
    return {each.token.reveal() for each in tokens if each is not None}


async def test_refresh_requested_concurrently_is_sent_once(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600
        tokens = await asyncio.gather(*(hall.token() for _ in range(50)))
        assert acme.count(*REFRESH) == 1
        assert distinct(list(tokens)) == {acme.issued[1].access}


async def test_refresh_requested_concurrently_by_two_processes_is_sent_once(acme: Authority, tmp_path: Path) -> None:
    """Two halls over one file: one claims the refresh, the other waits for what it brings."""
    clock = Clock()
    with (
        closing(open_stores(tmp_path, allow_readonly=False, role="first")) as first,
        closing(open_stores(tmp_path, allow_readonly=False, role="sibling")) as second,
    ):
        mine = BrokerStorage(first.accounts, first.vault)
        theirs = BrokerStorage(second.accounts, second.vault, mine.key)
        providers = {"acme": provider_settings(acme.issuer)}
        async with (
            broker_harness(providers, storage=mine, clock=clock) as one,
            broker_harness(providers, storage=theirs, clock=clock) as two,
        ):
            await one.connect()
            clock.now += 3600
            tokens = await asyncio.gather(*(hall.token() for _ in range(25) for hall in (one, two)))
            assert acme.count(*REFRESH) == 1
            assert distinct(list(tokens)) == {acme.issued[1].access}


async def test_refresh_starts_shortly_before_the_token_expires(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600 - REFRESH_EARLY_SECONDS - 1
        await hall.token()
        assert acme.count(*REFRESH) == 0
        hall.clock.now += 2
        assert hall.broker.cached_token("alice", MAIL) is None
        assert distinct([await hall.token()]) == {acme.issued[1].access}


async def test_refresh_of_a_short_lived_token_starts_near_its_end(acme: Authority) -> None:
    acme.lifetime = 40
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 29
        await hall.token()
        assert acme.count(*REFRESH) == 0
        hall.clock.now += 2
        await hall.token()
        assert acme.count(*REFRESH) == 1


class CrashingAccountStore(MemoryAccountStore):
    """An account store that crashes right after the save with this number."""

    def __init__(self, clock: Clock, number: int) -> None:
        super().__init__(clock)
        self.left = number

    async def save(self, account: Account, serial: int) -> Account | None:
        saved = await super().save(account, serial)
        self.left -= 1
        if self.left == 0:
            raise Crash
        return saved


class Crash(Exception):
    """A simulated crash of the process."""


async def test_refresh_stored_before_a_crash_is_used_by_the_next_process(acme: Authority) -> None:
    """Saves: the account, the claim, the new tokens; then the process dies, and the next one has them."""
    clock = Clock()
    storage = BrokerStorage(CrashingAccountStore(clock, 3), MemoryVaultStore())
    async with broker_harness({"acme": provider_settings(acme.issuer)}, storage=storage, clock=clock) as hall:
        await hall.connect()
        clock.now += 3600
        with pytest.raises(Crash):
            await hall.token()
    async with broker_harness({"acme": provider_settings(acme.issuer)}, storage=storage, clock=clock) as again:
        assert distinct([await again.token()]) == {acme.issued[1].access}
        assert acme.count(*REFRESH) == 1
        clock.now += 3600
        assert distinct([await again.token()]) == {acme.issued[2].access}


async def test_refresh_lease_of_a_crashed_process_delays_others_until_it_expires(acme: Authority) -> None:
    """Nobody knows whether the provider was asked, so the claim stands until that can no longer be under way."""
    clock = Clock()
    storage = BrokerStorage(CrashingAccountStore(clock, 2), MemoryVaultStore())
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        clock.now += LEASE_SECONDS / 3

    async with broker_harness({"acme": provider_settings(acme.issuer)}, storage=storage, clock=clock) as hall:
        await hall.connect()
        clock.now += 3600
        with pytest.raises(Crash):
            await hall.token()
    async with broker_harness(
        {"acme": provider_settings(acme.issuer)}, storage=storage, clock=clock, sleep=sleep
    ) as again:
        assert distinct([await again.token()]) == {acme.issued[1].access}
        assert len(waited) == 3


class FullDiskAccountStore(MemoryAccountStore):
    """An account store whose disk is full for the save with this number."""

    def __init__(self, clock: Clock, number: int) -> None:
        super().__init__(clock)
        self.left = number

    async def save(self, account: Account, serial: int) -> Account | None:
        self.left -= 1
        if self.left == 0:
            raise StoreFailed("the disk is full; free some space")
        return await super().save(account, serial)


async def test_refresh_that_cannot_be_stored_is_unavailable_and_stored_by_the_next_request(acme: Authority) -> None:
    clock = Clock()
    storage = BrokerStorage(FullDiskAccountStore(clock, 3), MemoryVaultStore())
    async with broker_harness({"acme": provider_settings(acme.issuer)}, storage=storage, clock=clock) as hall:
        await hall.connect()
        clock.now += 3600
        with pytest.raises(Unavailable):
            await hall.token()
        assert distinct([await hall.token()]) == {acme.issued[1].access}
        assert acme.count(*REFRESH) == 1


async def test_refresh_goes_on_when_its_caller_is_cancelled(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600
        with acme.holding("/token") as held:
            waiting = asyncio.ensure_future(hall.token())
            await held.reached()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await hall.broker.close()
        assert distinct([await hall.token()]) == {acme.issued[1].access}
        assert acme.count(*REFRESH) == 1


async def test_refresh_of_a_revoked_grant_breaks_the_account_until_it_is_linked_again(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        acme.revoke_all()
        hall.clock.now += 3600
        tokens = await asyncio.gather(*(hall.token() for _ in range(10)))
        assert set(tokens) == {None}
        (account,) = await hall.broker.accounts("alice")
        assert account.state == "broken"
        assert await hall.token() is None
        assert acme.count(*REFRESH) == 1  # a grant that is over is not asked for again
        missing, _ = await hall.broker.link_requirement(ALICE, MAIL, "Mail.list@1.0.0")
        assert missing.url
        assert (await hall.connect()).state == "completed"
        assert await hall.token() is not None
        assert [each.state for each in await hall.broker.accounts("alice")] == ["connected"]


async def test_refresh_with_an_unavailable_provider_uses_the_old_token_until_it_expires(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        acme.down = True
        hall.clock.now += 3600 - 30
        assert distinct([await hall.token()]) == {acme.issued[0].access}
        hall.clock.now += 30
        with pytest.raises(Unavailable, match="cannot be renewed now"):
            await hall.token()


async def test_refresh_backs_off_exponentially_while_the_provider_is_unavailable(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        acme.down = True
        hall.clock.now += 3600
        asked: list[float] = []
        for _ in range(200):
            before = acme.count("/token")
            with pytest.raises(Unavailable):
                await hall.token()
            if acme.count("/token") > before:
                asked.append(hall.clock.now)
            hall.clock.now += 1.0
        gaps = [round(later - sooner) for sooner, later in pairwise(asked)]
        assert gaps == [1, 2, 4, 8, 16, 32, 60, 60]
        acme.down = False
        hall.clock.now += 60
        assert await hall.token() is not None


async def test_refresh_that_loses_the_race_uses_the_token_of_the_other_process(acme: Authority) -> None:
    """Another process has renewed it between our look and our claim: its token is used, and nobody is asked."""
    clock = Clock()

    class Faster(MemoryAccountStore):
        after: Account | None = None

        async def save(self, account: Account, serial: int) -> Account | None:
            if self.after is not None:
                theirs, self.after = self.after, None
                await super().save(theirs, serial)
            return await super().save(account, serial)

    store = Faster(clock)
    async with broker_harness(
        {"acme": provider_settings(acme.issuer)}, storage=BrokerStorage(store, MemoryVaultStore()), clock=clock
    ) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        clock.now += 3600
        store.after = msgspec.structs.replace(account, expires_at=clock.now + 3600, refreshed_at=clock.now)
        assert distinct([await hall.token()]) == {acme.issued[0].access}
        assert acme.count(*REFRESH) == 0


async def connected(hall: BrokerHarness, scripted: ScriptedAuthority) -> None:
    await hall.connect()
    hall.clock.now += 3600
    scripted.asked.clear()


async def test_refresh_response_without_refresh_token_keeps_the_old_one(scripted: ScriptedAuthority) -> None:
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await connected(hall, scripted)
        scripted.tokens = {"refresh_token": None}
        for _ in range(2):
            assert await hall.token() is not None
            hall.clock.now += 3600
        sent = [each.form["refresh_token"] for each in scripted.asked if each.path == "/token"]
        assert len(sent) == 2
        assert len(set(sent)) == 1


async def test_account_without_refresh_token_breaks_when_its_token_expires(scripted: ScriptedAuthority) -> None:
    scripted.tokens = {"refresh_token": None}
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600 - 30
        assert await hall.token() is not None
        hall.clock.now += 30
        assert await hall.token() is None
        assert scripted.count("/token") == 1
        assert [each.state for each in await hall.broker.accounts()] == ["broken"]


async def test_token_without_expiry_is_never_refreshed(scripted: ScriptedAuthority) -> None:
    scripted.tokens = {"refresh_token": None, "expires_in": None}
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 10 * 365 * 86_400
        assert await hall.token() is not None


async def test_refresh_response_with_fewer_scopes_removes_them_from_the_account(scripted: ScriptedAuthority) -> None:
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await connected(hall, scripted)
        scripted.tokens = {"scope": "something.else"}
        assert await hall.token() is None
        (account,) = await hall.broker.accounts()
        assert account.scopes == ()


@pytest.mark.parametrize("code", ["invalid_grant", "bad_refresh_token", "invalid_refresh_token"])
@pytest.mark.parametrize("status", [200, 400, 401])
async def test_refresh_error_codes_of_an_ended_grant_break_the_account(
    scripted: ScriptedAuthority, code: str, status: int
) -> None:
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await connected(hall, scripted)
        scripted.token = lambda _: json_response({"ok": False, "error": code}, status)
        assert await hall.token() is None
        assert [each.state for each in await hall.broker.accounts()] == ["broken"]


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client", "server_error", "\u202eevil", 7])
async def test_refresh_error_codes_of_the_client_or_server_keep_the_account(
    scripted: ScriptedAuthority, code: object
) -> None:
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await connected(hall, scripted)
        scripted.token = lambda _: json_response({"error": code}, 400)
        with pytest.raises(Unavailable):
            await hall.token()
        scripted.token = None
        hall.clock.now += 5
        assert await hall.token() is not None
