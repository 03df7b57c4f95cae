# ruff: noqa: N802 - tests carry the names of their rows
"""Answers of authorization servers: who gives them, with which proof, and to which address."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.servers.account_broker import (
    ALICE,
    HALL,
    REDIRECT,
    BrokerHarness,
    BrokerStorage,
    BrowserVisit,
    Clock,
    authorize_in_browser,
    broker_harness,
    egress_client_for,
    provider_settings,
)
from tests.servers.scripted_authority import ScriptedAuthority, scripted_authority
from toolhall.oauth.providers import LinkFailed, ProviderSettings
from toolhall.stores.accounts import MemoryAccountStore
from toolhall.stores.vault.store import MemoryVaultStore

MIXED_UP = "does not come from the provider that was asked"


@pytest.fixture
def honest() -> Iterator[ScriptedAuthority]:
    """The provider that the person means."""
    with scripted_authority() as server:
        yield server


@pytest.fixture
def evil() -> Iterator[ScriptedAuthority]:
    """A provider of an attacker, set up beside the other."""
    with scripted_authority() as server:
        yield server


async def answer(hall: BrokerHarness) -> str:
    """How an attempt ends, in words."""
    visit = await hall.agree(await hall.begin())
    try:
        return (await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)).state
    except LinkFailed as failed:
        return failed.message


@pytest.mark.threat("D3")
@pytest.mark.parametrize(
    ("advertised", "iss", "believed"),
    [
        (True, "right", True),
        (True, None, False),
        (True, "wrong", False),
        (None, "right", True),
        (None, "wrong", False),
        (None, None, True),
    ],
)
async def test_D3_oauth_callback_iss_is_accepted_or_refused_as_rfc_9207_demands(
    honest: ScriptedAuthority, advertised: bool | None, iss: str | None, believed: bool
) -> None:
    """An issuer that says to name itself must; one that does is compared byte for byte, whatever it says."""
    honest.metadata = {"authorization_response_iss_parameter_supported": advertised}
    honest.callback = {"iss": {"right": honest.issuer, "wrong": f"{honest.issuer}/", None: None}[iss]}
    async with broker_harness({"acme": provider_settings(honest.issuer)}) as hall:
        ended = await answer(hall)
        assert (ended == "completed") is believed
        assert believed or MIXED_UP in ended
        assert honest.count("/token") == (1 if believed else 0)


@pytest.mark.threat("D3")
async def test_D3_oauth_callback_iss_that_differs_in_case_slash_or_encoding_is_refused(
    honest: ScriptedAuthority,
) -> None:
    """Nothing is normalised: case, port, slash, encoding."""
    async with broker_harness({"acme": provider_settings(honest.issuer)}) as hall:
        for iss in (honest.issuer.upper(), f"{honest.issuer}/", honest.issuer.replace("127", "%3127"), "", "null"):
            honest.callback = {"iss": iss}
            assert MIXED_UP in await answer(hall)
        assert honest.count("/token") == 0


@pytest.mark.threat("D3")
async def test_D3_oauth_error_response_with_a_foreign_iss_is_not_shown(honest: ScriptedAuthority) -> None:
    """Who is not known has nothing to say, not even that access was denied."""
    honest.callback = {"iss": "https://evil.example", "error": "access_denied", "code": None}
    async with broker_harness({"acme": provider_settings(honest.issuer)}) as hall:
        assert MIXED_UP in await answer(hall)


@pytest.mark.threat("D3")
async def test_D3_authorization_code_of_one_provider_is_never_sent_to_another(
    honest: ScriptedAuthority, evil: ScriptedAuthority
) -> None:
    """The mix-up: the person means the evil one, which sends the browser on to the honest one with the hall's state."""
    providers = {
        "acme": provider_settings(honest.issuer),
        "evil": provider_settings(evil.issuer, client_secret="another-secret"),
    }
    async with broker_harness(providers) as hall:
        link = await hall.begin(provider="evil")
        visit = await hall.agree(link)
        stolen = visit.query | {"code": "code-of-the-honest-one", "iss": honest.issuer}
        with pytest.raises(LinkFailed, match=MIXED_UP):
            await hall.broker.finish_redirect(visit.path, stolen, visit.nonce)
        assert evil.count("/token") == 0
        assert honest.count("/token") == 0


def unnamed(server: ScriptedAuthority, client_id: str) -> ProviderSettings:
    """A provider that names no issuer in its answers, and to which PKCE alone proves the hall."""
    server.callback = {"iss": None}
    urls = {"authorize_url": f"{server.issuer}/authorize", "token_url": f"{server.issuer}/token"}
    return provider_settings(None, **urls, client_id=client_id, client_secret=None)


@pytest.mark.threat("D3")
@pytest.mark.parametrize("registered", ["/oauth/callback", "/oauth/callback/honest"])
async def test_D3_providers_without_iss_have_separate_callback_paths_that_refuse_a_mix_up(
    honest: ScriptedAuthority, evil: ScriptedAuthority, registered: str
) -> None:
    """RFC 9700, 4.4: the evil one sends the browser on to the honest one, which sends it back to where it knows."""
    providers = {"honest": unnamed(honest, "hall-at-honest"), "evil": unnamed(evil, "hall-at-evil")}
    async with broker_harness(providers, egress=egress_client_for(honest.issuer, evil.issuer)) as hall:
        link = await hall.begin(provider="evil")
        url, nonce = await hall.broker.consent(link.id, ALICE)
        sent = dict(parse_qsl(urlsplit(url).query))
        assert sent["redirect_uri"] == f"{REDIRECT}/evil"
        onward = urlencode(sent | {"client_id": "hall-at-honest", "redirect_uri": f"{HALL}{registered}"})
        visit = BrowserVisit(url, nonce, await authorize_in_browser(f"{honest.issuer}/authorize?{onward}"))
        with pytest.raises(LinkFailed, match=MIXED_UP):
            await hall.broker.finish_redirect(visit.path, visit.query, nonce)
        assert evil.count("/token") == 0
        own = await hall.agree(await hall.begin(provider="honest"))
        assert own.path == "/oauth/callback/honest"
        assert (await hall.broker.finish_redirect(own.path, own.query, own.nonce)).state == "completed"


@pytest.mark.threat("D3")
async def test_D3_provider_on_the_shared_callback_that_omits_iss_is_refused(evil: ScriptedAuthority) -> None:
    """Also one that says so when the browser leaves, and no longer when it is back."""
    evil.callback = {"iss": None}
    clock = Clock()
    storage = BrokerStorage(MemoryAccountStore(clock), MemoryVaultStore())
    async with broker_harness({"acme": provider_settings(evil.issuer)}, storage=storage, clock=clock) as hall:
        visit = await hall.agree(await hall.begin())
        assert visit.path == "/oauth/callback"
    evil.metadata = {"authorization_response_iss_parameter_supported": None}
    async with broker_harness({"acme": provider_settings(evil.issuer)}, storage=storage, clock=clock) as again:
        with pytest.raises(LinkFailed, match=MIXED_UP):
            await again.broker.finish_redirect(visit.path, visit.query, visit.nonce)
    assert evil.count("/token") == 0


@pytest.mark.threat("D4")
@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256", ["s256"], {"S256": True}])
async def test_D4_provider_without_S256_in_its_metadata_is_not_used(honest: ScriptedAuthority, methods: Any) -> None:
    """No downgrade: who does not say S256 gets no person sent, and no code is exchanged."""
    honest.metadata = {"code_challenge_methods_supported": methods}
    async with broker_harness({"acme": provider_settings(honest.issuer)}) as hall:
        link = await hall.begin()
        with pytest.raises(LinkFailed):
            await hall.broker.consent(link.id, ALICE)
        assert honest.count("/token") == honest.count("/authorize") == 0


@pytest.mark.threat("D4")
async def test_D4_pkce_challenge_and_verifier_are_new_for_every_authorization(honest: ScriptedAuthority) -> None:
    """A verifier goes with every code, and never twice."""
    async with broker_harness({"acme": provider_settings(honest.issuer)}) as hall:
        for _ in range(5):
            assert await answer(hall) == "completed"
        challenges = {each.query["code_challenge"] for each in honest.asked if each.path == "/authorize"}
        methods = {each.query["code_challenge_method"] for each in honest.asked if each.path == "/authorize"}
        verifiers = {each.form["code_verifier"] for each in honest.asked if each.path == "/token"}
        assert (len(challenges), methods, len(verifiers)) == (5, {"S256"}, 5)


TRICKS = (
    f"{REDIRECT}/../x",
    f"{REDIRECT}/",
    REDIRECT.upper(),
    REDIRECT.replace("callback", "CallBack"),
    REDIRECT.replace("callback", "%63allback"),
    REDIRECT.replace("http://", "http://me@"),
    REDIRECT.replace("127.0.0.1", "localhost"),
    REDIRECT.replace("http://", "https://"),
    REDIRECT.replace(":8000", ""),
    REDIRECT.replace("127.0.0.1:8000", "evil.example"),
    "/oauth/callback",
    "",
)


@pytest.mark.threat("D5")
@pytest.mark.parametrize("address", TRICKS)
async def test_D5_pasted_callback_url_other_than_the_exact_redirect_uri_is_refused(
    honest: ScriptedAuthority, address: str
) -> None:
    """A right code and state in another address are not taken, nor with a fragment, nor named twice."""
    async with broker_harness({"acme": provider_settings(honest.issuer)}) as hall:
        link = await hall.begin(how="paste")
        url, _ = await hall.broker.consent(link.id, ALICE)
        query = (await authorize_in_browser(url)).partition("?")[2]
        twice = f"{REDIRECT}?{query}&code=another"
        for pasted in (f"{address}?{query}", f"{REDIRECT}?{query}#x", f"{REDIRECT}#{query}", twice, REDIRECT):
            with pytest.raises(LinkFailed):
                await hall.broker.finish_pasted(link.id, ALICE, pasted)
        assert honest.count("/token") == 0
        assert (await hall.broker.finish_pasted(link.id, ALICE, f"{REDIRECT}?{query}")).state == "completed"


@pytest.mark.threat("D5")
@pytest.mark.parametrize(
    "public", ["http://hall.example", "http://10.0.0.1:8000", "https://me@hall.example", "ftp://x"]
)
async def test_D5_account_link_with_a_plain_http_public_url_is_refused(honest: ScriptedAuthority, public: str) -> None:
    """Over https or on this machine, or not at all."""
    async with broker_harness({"acme": provider_settings(honest.issuer)}, address=public) as hall:
        with pytest.raises(LinkFailed, match="public_url"):
            await hall.begin()


@pytest.mark.threat("D5")
async def test_D5_redirect_uri_is_identical_at_the_authorize_and_token_endpoints(honest: ScriptedAuthority) -> None:
    """As text, never put together anew."""
    async with broker_harness({"acme": provider_settings(honest.issuer)}) as hall:
        assert await answer(hall) == "completed"
        asked = [each for each in honest.asked if each.path in ("/authorize", "/token")]
        assert [(each.query or each.form)["redirect_uri"] for each in asked] == [REDIRECT, REDIRECT]
