"""For terminals without a browser: a code that is entered elsewhere, or an address that is pasted."""

import asyncio
from collections.abc import Callable

import pytest

from tests.harness.patience import patience
from tests.servers.account_broker import (
    ALICE,
    BOB,
    BrokerHarness,
    BrowserVisit,
    Clock,
    authorize_in_browser,
    broker_harness,
    provider_settings,
)
from tests.servers.authority import Authority
from tests.servers.scripted_authority import ScriptedAuthority, json_response
from toolhall.model.caller import Caller
from toolhall.oauth.providers import LinkFailed
from toolhall.stores.accounts import AccountLink

FOR_ALICE = Caller("service", proof="key", person="service", scopes=frozenset({"act_as"}), acting_for="alice")


def nothing() -> None:
    """Nobody has entered it yet."""


class ScriptedSleep:
    """A sleep that advances the clock, and then runs the next action of the test."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.slept: list[float] = []
        self.then: list[Callable[[], None]] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.now += seconds
        if self.then:
            self.then.pop(0)()


async def ended(hall: BrokerHarness, link: AccountLink) -> AccountLink:
    """The link, once the hall asks no more."""
    await asyncio.wait_for(asyncio.gather(*hall.broker.devices.tasks), patience())
    found = await hall.broker.find_link(link.id)
    assert found is not None
    return found


async def test_device_link_completes_once_the_code_is_entered_and_obeys_slow_down(acme: Authority) -> None:
    clock = Clock()
    sleep = ScriptedSleep(clock)
    async with broker_harness({"acme": provider_settings(acme.issuer)}, clock=clock, sleep=sleep) as hall:
        link = await hall.begin(how="device")
        acme.slow_downs = [False, True]
        sleep.then = [nothing, nothing, nothing, lambda: acme.entered.update({code.user_code: True})]
        code = await hall.broker.start_device(link)
        assert code.verification_uri == f"{acme.issuer}/device"
        assert (await ended(hall, link)).state == "completed"
        assert sleep.slept == [3.0, 8.0, 8.0, 8.0]  # the server asked to be slower, once
        token = await hall.token()
        assert token is not None
        assert token.token.reveal() == acme.issued[0].access
        assert code.device_code.reveal() not in repr(code)


async def test_device_link_denied_by_the_person_fails(acme: Authority) -> None:
    clock = Clock()
    sleep = ScriptedSleep(clock)
    async with broker_harness({"acme": provider_settings(acme.issuer)}, clock=clock, sleep=sleep) as hall:
        link = await hall.begin(how="device")
        sleep.then = [lambda: acme.entered.update({code.user_code: False})]
        code = await hall.broker.start_device(link)
        found = await ended(hall, link)
        assert (found.state, found.reason) == ("failed", "access was denied: nothing was connected")


async def test_device_link_expires_when_the_code_is_never_entered(acme: Authority) -> None:
    clock = Clock()
    sleep = ScriptedSleep(clock)
    async with broker_harness({"acme": provider_settings(acme.issuer)}, clock=clock, sleep=sleep) as hall:
        link = await hall.begin(how="device")
        await hall.broker.start_device(link)
        await asyncio.wait_for(asyncio.gather(*hall.broker.devices.tasks), patience())
        assert await hall.state(link) is None
        assert sum(sleep.slept) <= 603


async def test_device_link_backs_off_while_the_provider_is_unavailable(acme: Authority) -> None:
    clock = Clock()
    sleep = ScriptedSleep(clock)

    def up() -> None:
        acme.down = False
        acme.entered[code.user_code] = True

    async with broker_harness({"acme": provider_settings(acme.issuer)}, clock=clock, sleep=sleep) as hall:
        link = await hall.begin(how="device")
        sleep.then = [lambda: setattr(acme, "down", True), nothing, nothing, up]
        code = await hall.broker.start_device(link)
        assert (await ended(hall, link)).state == "completed"
        assert sleep.slept == [3.0, 6.0, 12.0, 24.0]


async def test_broker_close_ends_device_polling(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.broker.start_device(await hall.begin(how="device"))
        await hall.broker.close()
        assert not hall.broker.devices.tasks


async def test_device_link_granted_during_close_is_stored(acme: Authority) -> None:
    clock = Clock()
    async with broker_harness(
        {"acme": provider_settings(acme.issuer)}, clock=clock, sleep=ScriptedSleep(clock)
    ) as hall:
        link = await hall.begin(how="device")
        with acme.holding("/token") as held:
            code = await hall.broker.start_device(link)
            await held.reached()
            closing = asyncio.ensure_future(hall.broker.close())
            await asyncio.sleep(0)
            acme.entered[code.user_code] = True
        await closing
        assert await hall.state(link) == "completed"
        assert [each.state for each in await hall.broker.accounts()] == ["connected"]


async def test_device_link_not_granted_before_close_stays_pending(acme: Authority) -> None:
    clock = Clock()
    async with broker_harness(
        {"acme": provider_settings(acme.issuer)}, clock=clock, sleep=ScriptedSleep(clock)
    ) as hall:
        link = await hall.begin(how="device")
        with acme.holding("/token") as held:
            await hall.broker.start_device(link)
            await held.reached()
            closing = asyncio.ensure_future(hall.broker.close())
            await asyncio.sleep(0)
        await closing
        assert (await hall.state(link), acme.count("/token")) == ("pending", 1)


async def test_device_link_keeps_its_token_endpoint_when_metadata_changes(scripted: ScriptedAuthority) -> None:
    """A task that dies of metadata that went bad meanwhile would be seen by nobody."""
    scripted.metadata = {"device_authorization_endpoint": f"{scripted.issuer}/device"}
    given = {"device_code": "d3vice-code", "user_code": "ABCD-EFGH", "verification_uri": "https://acme.example/device"}
    scripted.paths["/device"] = lambda _: json_response(given)
    clock = Clock()
    async with broker_harness(
        {"acme": provider_settings(scripted.issuer)}, clock=clock, sleep=ScriptedSleep(clock)
    ) as hall:
        link = await hall.begin(how="device")
        await hall.broker.start_device(link)
        scripted.metadata = {"issuer": "https://another.example"}
        clock.now += 3_601  # what the issuer said is not good any more
        assert await asyncio.wait_for(asyncio.gather(*hall.broker.devices.tasks), patience()) == [None]


async def test_device_link_replaces_the_cached_token_of_the_account(acme: Authority) -> None:
    clock = Clock()
    sleep = ScriptedSleep(clock)
    async with broker_harness({"acme": provider_settings(acme.issuer)}, clock=clock, sleep=sleep) as hall:
        await hall.connect()
        assert await hall.token() is not None
        link = await hall.begin(how="device")
        sleep.then = [lambda: acme.entered.update({code.user_code: True})]
        code = await hall.broker.start_device(link)
        assert (await ended(hall, link)).state == "completed"
        token = await hall.token()
        assert token is not None
        assert token.token.reveal() == acme.issued[1].access


async def test_device_link_with_a_provider_without_device_endpoint_is_refused(scripted: ScriptedAuthority) -> None:
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        with pytest.raises(LinkFailed, match="connect it in a browser"):
            await hall.broker.start_device(await hall.begin(how="device"))


@pytest.mark.parametrize(
    "said",
    [
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": "http://evil.example/device"},
        {"user_code": "<script>"},
        {"user_code": "call 0800 EVIL and tell them your password"},
        {"device_code": None},
    ],
)
async def test_device_link_with_an_unsafe_device_response_is_refused(
    scripted: ScriptedAuthority, said: dict[str, str | None]
) -> None:
    scripted.metadata = {"device_authorization_endpoint": f"{scripted.issuer}/device"}
    right = {"device_code": "d3vice-code", "user_code": "ABCD-EFGH", "verification_uri": "https://acme.example/device"}
    scripted.paths["/device"] = lambda _: json_response(right | said)
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        with pytest.raises(LinkFailed, match="cannot be used now"):
            await hall.broker.start_device(await hall.begin(how="device"))
        assert not hall.broker.devices.tasks


async def test_device_and_paste_links_on_behalf_of_another_user_are_refused(acme: Authority) -> None:
    """Who acts for others could enter a code of its own for them."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        for how in ("device", "paste"):
            with pytest.raises(LinkFailed, match="in a browser"):
                await hall.begin(FOR_ALICE, how=how)


async def pasted(hall: BrokerHarness) -> tuple[AccountLink, BrowserVisit]:
    link = await hall.begin(how="paste")
    url, nonce = await hall.broker.consent(link.id, ALICE)
    return link, BrowserVisit(url, nonce, await authorize_in_browser(url))


async def test_paste_link_completes_once_with_the_pasted_redirect(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        link, visit = await pasted(hall)
        assert (await hall.broker.finish_pasted(link.id, ALICE, f" {visit.back}\n")).state == "completed"
        assert await hall.token() is not None
        with pytest.raises(LinkFailed):
            await hall.broker.finish_pasted(link.id, ALICE, visit.back)


async def test_paste_link_refuses_other_callers_other_attempts_and_browser_callbacks(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        link, visit = await pasted(hall)
        _, other = await pasted(hall)
        with pytest.raises(LinkFailed, match="not good any more"):
            await hall.broker.finish_pasted(link.id, BOB, visit.back)
        with pytest.raises(LinkFailed, match="another attempt"):
            await hall.broker.finish_pasted(link.id, ALICE, other.back)
        with pytest.raises(LinkFailed):  # a browser that comes by itself is not the terminal
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert acme.count("/token") == 0
        await hall.broker.finish_pasted(link.id, ALICE, visit.back)


async def test_browser_link_cannot_be_completed_by_pasting(acme: Authority) -> None:
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        link = await hall.begin()
        visit = await hall.agree(link)
        with pytest.raises(LinkFailed):
            await hall.broker.finish_pasted(link.id, ALICE, visit.back)
        assert acme.count("/token") == 0
