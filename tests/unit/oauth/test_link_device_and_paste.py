"""For terminals without a browser: a code that is entered elsewhere, or an address that is pasted."""

import asyncio
from collections.abc import Callable

import pytest

from tests.harness.patience import patience
from tests.servers.authority import Authority
from tests.servers.liar import Liar, answered
from tests.servers.linking import ALICE, BOB, Clock, Linking, Visit, linking, settings, visited
from toolhall.model.caller import Caller
from toolhall.oauth.providers import LinkFailed
from toolhall.stores.accounts import AccountLink

FOR_ALICE = Caller("service", proof="key", person="service", scopes=frozenset({"act_as"}), acting_for="alice")


def nothing() -> None:
    """Nobody has entered it yet."""


class Waiting:
    """Sleeps in no time, and does what a test wants done before the next look."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.slept: list[float] = []
        self.then: list[Callable[[], None]] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.now += seconds
        if self.then:
            self.then.pop(0)()


async def ended(hall: Linking, link: AccountLink) -> AccountLink:
    """The link, once the hall asks no more."""
    await asyncio.wait_for(asyncio.gather(*hall.broker.devices.tasks), patience())
    found = await hall.broker.find_link(link.id)
    assert found is not None
    return found


async def test_a_code_is_entered_elsewhere(acme: Authority) -> None:
    clock = Clock()
    waiting = Waiting(clock)
    async with linking({"acme": settings(acme.issuer)}, clock=clock, sleep=waiting) as hall:
        link = await hall.begin(how="device")
        acme.slow_downs = [False, True]
        waiting.then = [nothing, nothing, nothing, lambda: acme.entered.update({code.user_code: True})]
        code = await hall.broker.start_device(link)
        assert code.verification_uri == f"{acme.issuer}/device"
        assert (await ended(hall, link)).state == "completed"
        assert waiting.slept == [3.0, 8.0, 8.0, 8.0]  # the server asked to be slower, once
        token = await hall.token()
        assert token is not None
        assert token.token.reveal() == acme.issued[0].access
        assert code.device_code.reveal() not in repr(code)


async def test_a_code_that_is_refused(acme: Authority) -> None:
    clock = Clock()
    waiting = Waiting(clock)
    async with linking({"acme": settings(acme.issuer)}, clock=clock, sleep=waiting) as hall:
        link = await hall.begin(how="device")
        waiting.then = [lambda: acme.entered.update({code.user_code: False})]
        code = await hall.broker.start_device(link)
        found = await ended(hall, link)
        assert (found.state, found.reason) == ("failed", "access was denied: nothing was connected")


async def test_a_code_that_nobody_enters(acme: Authority) -> None:
    clock = Clock()
    waiting = Waiting(clock)
    async with linking({"acme": settings(acme.issuer)}, clock=clock, sleep=waiting) as hall:
        link = await hall.begin(how="device")
        await hall.broker.start_device(link)
        await asyncio.wait_for(asyncio.gather(*hall.broker.devices.tasks), patience())
        assert await hall.state(link) is None
        assert sum(waiting.slept) <= 603


async def test_a_provider_that_is_down_is_asked_less_often(acme: Authority) -> None:
    clock = Clock()
    waiting = Waiting(clock)

    def up() -> None:
        acme.down = False
        acme.entered[code.user_code] = True

    async with linking({"acme": settings(acme.issuer)}, clock=clock, sleep=waiting) as hall:
        link = await hall.begin(how="device")
        waiting.then = [lambda: setattr(acme, "down", True), nothing, nothing, up]
        code = await hall.broker.start_device(link)
        assert (await ended(hall, link)).state == "completed"
        assert waiting.slept == [3.0, 6.0, 12.0, 24.0]


async def test_closing_asks_no_more(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
        await hall.broker.start_device(await hall.begin(how="device"))
        await hall.broker.close()
        assert not hall.broker.devices.tasks


async def test_what_a_provider_gives_while_the_hall_closes_is_kept(acme: Authority) -> None:
    clock = Clock()
    async with linking({"acme": settings(acme.issuer)}, clock=clock, sleep=Waiting(clock)) as hall:
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


async def test_a_code_that_is_entered_after_the_hall_closed_is_not_asked_for(acme: Authority) -> None:
    clock = Clock()
    async with linking({"acme": settings(acme.issuer)}, clock=clock, sleep=Waiting(clock)) as hall:
        link = await hall.begin(how="device")
        with acme.holding("/token") as held:
            await hall.broker.start_device(link)
            await held.reached()
            closing = asyncio.ensure_future(hall.broker.close())
            await asyncio.sleep(0)
        await closing
        assert (await hall.state(link), acme.count("/token")) == ("pending", 1)


async def test_where_to_ask_about_a_code_is_settled_when_it_is_shown(lying: Liar) -> None:
    """A task that dies of metadata that went bad meanwhile would be seen by nobody."""
    lying.metadata = {"device_authorization_endpoint": f"{lying.issuer}/device"}
    given = {"device_code": "d3vice-code", "user_code": "ABCD-EFGH", "verification_uri": "https://acme.example/device"}
    lying.paths["/device"] = lambda _: answered(given)
    clock = Clock()
    async with linking({"acme": settings(lying.issuer)}, clock=clock, sleep=Waiting(clock)) as hall:
        link = await hall.begin(how="device")
        await hall.broker.start_device(link)
        lying.metadata = {"issuer": "https://another.example"}
        clock.now += 3_601  # what the issuer said is not good any more
        assert await asyncio.wait_for(asyncio.gather(*hall.broker.devices.tasks), patience()) == [None]


async def test_a_code_for_another_account_replaces_the_one_at_hand(acme: Authority) -> None:
    clock = Clock()
    waiting = Waiting(clock)
    async with linking({"acme": settings(acme.issuer)}, clock=clock, sleep=waiting) as hall:
        await hall.connect()
        assert await hall.token() is not None
        link = await hall.begin(how="device")
        waiting.then = [lambda: acme.entered.update({code.user_code: True})]
        code = await hall.broker.start_device(link)
        assert (await ended(hall, link)).state == "completed"
        token = await hall.token()
        assert token is not None
        assert token.token.reveal() == acme.issued[1].access


async def test_a_provider_without_codes(lying: Liar) -> None:
    async with linking({"acme": settings(lying.issuer)}) as hall:
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
async def test_codes_that_nobody_should_enter(lying: Liar, said: dict[str, str | None]) -> None:
    lying.metadata = {"device_authorization_endpoint": f"{lying.issuer}/device"}
    right = {"device_code": "d3vice-code", "user_code": "ABCD-EFGH", "verification_uri": "https://acme.example/device"}
    lying.paths["/device"] = lambda _: answered(right | said)
    async with linking({"acme": settings(lying.issuer)}) as hall:
        with pytest.raises(LinkFailed, match="cannot be used now"):
            await hall.broker.start_device(await hall.begin(how="device"))
        assert not hall.broker.devices.tasks


async def test_only_the_person_at_the_terminal(acme: Authority) -> None:
    """Who acts for others could enter a code of its own for them."""
    async with linking({"acme": settings(acme.issuer)}) as hall:
        for how in ("device", "paste"):
            with pytest.raises(LinkFailed, match="in a browser"):
                await hall.begin(FOR_ALICE, how=how)


async def pasted(hall: Linking) -> tuple[AccountLink, Visit]:
    link = await hall.begin(how="paste")
    url, nonce = await hall.broker.consent(link.id, ALICE)
    return link, Visit(url, nonce, await visited(url))


async def test_an_address_is_pasted(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
        link, visit = await pasted(hall)
        assert (await hall.broker.finish_pasted(link.id, ALICE, f" {visit.back}\n")).state == "completed"
        assert await hall.token() is not None
        with pytest.raises(LinkFailed):
            await hall.broker.finish_pasted(link.id, ALICE, visit.back)


async def test_who_may_paste_and_what(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
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


async def test_a_link_for_a_browser_cannot_be_pasted(acme: Authority) -> None:
    async with linking({"acme": settings(acme.issuer)}) as hall:
        link = await hall.begin()
        visit = await hall.agree(link)
        with pytest.raises(LinkFailed):
            await hall.broker.finish_pasted(link.id, ALICE, visit.back)
        assert acme.count("/token") == 0
