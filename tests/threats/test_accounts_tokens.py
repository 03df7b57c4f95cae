# ruff: noqa: N802 - tests carry the names of their rows
"""What the hall holds for people: asked for where it may be, renewed once, for one tool's scopes, at one issuer."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.servers.account_broker import (
    ALICE,
    MAIL,
    SECRET,
    BrokerStorage,
    Clock,
    broker_harness,
    egress_client_for,
    provider_settings,
    register_hall,
)
from tests.servers.authority import Authority, authority
from tests.servers.http_server import HttpResponse
from tests.servers.scripted_authority import ScriptedAuthority, scripted_authority
from toolhall.model.requirements import AccountRequirement
from toolhall.oauth.authorization_code import CALLBACK_PATH
from toolhall.oauth.providers import LinkFailed
from toolhall.stores.accounts import MemoryAccountStore
from toolhall.stores.open import open_stores
from toolhall.stores.vault.store import MemoryVaultStore

METADATA = "/.well-known/oauth-authorization-server"


@pytest.fixture
def acme() -> Iterator[Authority]:
    """Authlib's server."""
    with authority() as server:
        yield register_hall(server)


@pytest.fixture
def evil() -> Iterator[ScriptedAuthority]:
    """A server that answers as the test says."""
    with scripted_authority() as server:
        yield server


@pytest.fixture
def internal() -> Iterator[ScriptedAuthority]:
    """A server inside, which nobody opened."""
    with scripted_authority() as server:
        yield server


INNER = ("http://169.254.169.254", "https://169.254.169.254", "https://[::ffff:169.254.169.254]", "https://10.0.0.1")


@pytest.mark.threat("D8")
@pytest.mark.parametrize("place", ["token_endpoint", "authorization_endpoint", "revocation_endpoint"])
@pytest.mark.parametrize("url", [*INNER, "file:///etc/passwd", "javascript:alert(1)", "http://evil.example"])
async def test_D8_provider_metadata_that_names_an_internal_endpoint_links_no_account(
    evil: ScriptedAuthority, place: str, url: str
) -> None:
    """Metadata may name what it likes; what is not a public https address is refused, or not connected to."""
    evil.metadata = {place: f"{url}/x" if url.startswith("http") else url}
    async with broker_harness({"acme": provider_settings(evil.issuer)}) as hall:
        link = await hall.begin()
        with pytest.raises(LinkFailed):
            await _link_and_disconnect(hall, link.id, evil)
        assert await hall.broker.accounts() == ()


async def _link_and_disconnect(hall: Any, link_id: str, evil: ScriptedAuthority) -> None:
    url, nonce = await hall.broker.consent(link_id, ALICE)
    state = dict(each.split("=", 1) for each in url.partition("?")[2].split("&"))["state"]
    link = await hall.broker.finish(CALLBACK_PATH, {"code": "c0de-c0de", "state": state, "iss": evil.issuer}, nonce)
    if link.state == "completed":  # only revoking was left to go wrong
        (account,) = await hall.broker.accounts()
        ended = await hall.broker.disconnect(account.id, ALICE)
        assert ended.unrevoked is not None
        raise LinkFailed


@pytest.mark.threat("D8")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_D8_redirects_of_metadata_and_token_endpoints_are_not_followed(
    evil: ScriptedAuthority, internal: ScriptedAuthority, status: int
) -> None:
    """Neither from the metadata nor from the token endpoint; the server inside hears nothing."""
    moved = HttpResponse(status, headers=(("Location", f"{internal.issuer}{METADATA}"),))
    egress = egress_client_for(evil.issuer, internal.issuer)  # even where the other one could be reached
    async with broker_harness({"acme": provider_settings(evil.issuer)}, egress=egress) as hall:
        evil.paths[METADATA] = lambda _: moved
        with pytest.raises(LinkFailed):
            await hall.broker.consent((await hall.begin()).id, ALICE)
        del evil.paths[METADATA]
        evil.token = lambda _: moved
        visit = await hall.agree(await hall.begin())
        with pytest.raises(LinkFailed):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
    assert internal.asked == []


@pytest.mark.threat("D8")
async def test_D8_internal_issuer_is_not_asked_unless_the_operator_allows_its_address(
    internal: ScriptedAuthority,
) -> None:
    """The settings name it, and that alone opens nothing."""
    async with broker_harness({"acme": provider_settings(internal.issuer)}, egress=egress_client_for()) as hall:
        with pytest.raises(LinkFailed):
            await hall.broker.consent((await hall.begin()).id, ALICE)
    assert internal.asked == []


@pytest.mark.threat("D8")
@pytest.mark.parametrize(
    "body", [b"{" + b" " * 70_000 + b"}", b'{"a":' * 5_000, b"\xff\xfe"], ids=["large", "deep", "bytes"]
)
async def test_D8_provider_metadata_that_is_large_deep_or_not_utf8_is_refused(
    evil: ScriptedAuthority, body: bytes
) -> None:
    """64 KiB of JSON, and no more."""
    evil.paths[METADATA] = lambda _: HttpResponse(200, body)
    async with broker_harness({"acme": provider_settings(evil.issuer)}) as hall:
        with pytest.raises(LinkFailed):
            await hall.broker.consent((await hall.begin()).id, ALICE)


@pytest.mark.threat("D9")
async def test_D9_concurrent_calls_on_two_replicas_refresh_an_expired_token_once(
    acme: Authority, tmp_path: Path
) -> None:
    """50 calls on two replicas with an expired token: one request, and the server, which detects reuse, finds none."""
    clock = Clock()
    with (
        closing(open_stores(tmp_path, allow_readonly=False, role="first")) as first,
        closing(open_stores(tmp_path, allow_readonly=False, role="sibling")) as second,
    ):
        mine = BrokerStorage(first.accounts, first.vault)
        theirs = BrokerStorage(second.accounts, second.vault, mine.key)
        given = {"acme": provider_settings(acme.issuer)}
        async with (
            broker_harness(given, storage=mine, clock=clock) as one,
            broker_harness(given, storage=theirs, clock=clock) as two,
        ):
            await one.connect()
            for round_ in (1, 2, 3):
                clock.now += 3600
                tokens = await asyncio.gather(*(hall.token() for _ in range(25) for hall in (one, two)))
                assert acme.count("/token", "refresh_token") == round_
                assert {each.token.reveal() for each in tokens if each} == {acme.issued[-1].access}
                assert None not in tokens
            assert not acme.issued[-1].revoked


@pytest.mark.threat("D9")
async def test_D9_refresh_token_reuse_found_by_the_provider_marks_the_account_broken(acme: Authority) -> None:
    """Somebody stole a refresh token and used it: the family is revoked, and the person is asked anew."""
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        acme.issued[0].revoked = True
        hall.clock.now += 3600
        assert await hall.token() is None
        assert [each.state for each in await hall.broker.accounts()] == ["broken"]
        missing, _ = await hall.broker.link_requirement(ALICE, MAIL, "Mail.list@1.0.0")
        assert missing.url is not None


@pytest.mark.threat("D10")
async def test_D10_missing_scope_link_asks_for_that_scope_and_for_no_other_tools_scope(acme: Authority) -> None:
    """A scope that was not granted is asked for anew; other tools' scopes are not slipped in."""
    send = AccountRequirement("acme", ("mail.send",))
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        assert await hall.token(send) is None
        await hall.broker.link_requirement(ALICE, AccountRequirement("acme", ("files.delete",)), "Files.delete@1.0.0")
        missing, _ = await hall.broker.link_requirement(ALICE, send, "Mail.send@1.0.0")
        assert missing.account == send
        link = await hall.broker.find_link(missing.id or "")
        assert link is not None
        assert link.scopes == ("mail.send",)
        visit = await hall.agree(link)
        # What was agreed to before is named again, so that it is not lost; what another tool waits for is not.
        assert visit.sent["scope"].split() == ["mail.send", "mail.read"]
        assert (await hall.broker.describe_consent(link.id, ALICE)).scopes == ("mail.send", "mail.read")


@pytest.mark.threat("D10")
async def test_D10_scopes_granted_without_being_requested_are_not_usable(evil: ScriptedAuthority) -> None:
    """A provider that grants more gives a tool nothing that its person was not shown."""
    evil.tokens = {"scope": "mail.read admin files.delete"}
    async with broker_harness({"acme": provider_settings(evil.issuer)}) as hall:
        await hall.connect()
        assert await hall.token(AccountRequirement("acme", ("admin",))) is None
        hall.clock.now += 3600
        assert await hall.token() is not None
        assert await hall.token(AccountRequirement("acme", ("admin",))) is None


@pytest.mark.threat("D11")
async def test_D11_account_of_one_issuer_is_unused_after_the_settings_name_another(
    acme: Authority, evil: ScriptedAuthority
) -> None:
    """The settings name another issuer: the account is not used there, and its tokens stay where they are."""
    clock = Clock()
    storage = BrokerStorage(MemoryAccountStore(clock), MemoryVaultStore())
    async with broker_harness({"acme": provider_settings(acme.issuer)}, storage=storage, clock=clock) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        link = await hall.begin(scopes=("mail.send",))
        visit = await hall.agree(link)
    clock.now += 3600
    changed = {"acme": provider_settings(evil.issuer, client_secret="the-secret-for-the-new-one")}
    async with broker_harness(changed, storage=storage, clock=clock) as hall:
        assert await hall.token() is None
        with pytest.raises(LinkFailed):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        with pytest.raises(LinkFailed):
            await hall.broker.consent(link.id, ALICE)
        assert (await hall.broker.disconnect(account.id, ALICE)).revocation_error is not None
    assert [each.path for each in evil.asked if each.path != METADATA] == []


@pytest.mark.threat("D11")
async def test_D11_metadata_that_names_another_issuer_gets_no_client_secret(evil: ScriptedAuthority) -> None:
    """Also when the metadata changes later, between two refreshes."""
    async with broker_harness({"acme": provider_settings(evil.issuer)}) as hall:
        await hall.connect()
        before = evil.count("/token")
        evil.metadata = {"issuer": "https://new.example"}
        hall.clock.now += 3600
        with pytest.raises(Exception, match="cannot be renewed"):
            await hall.token()
        assert evil.count("/token") == before
        assert SECRET not in str([each.headers for each in evil.asked[-1:]])
