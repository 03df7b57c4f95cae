"""A provider that lies, in each way: nothing is connected, and the person reads what can be done."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.servers.account_broker import ALICE, MAIL, REDIRECT, BrokerHarness, broker_harness, provider_settings
from tests.servers.http_server import HttpRequest, HttpResponse
from tests.servers.scripted_authority import ScriptedAuthority, json_response
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.client import EgressClient
from toolhall.oauth.providers import LinkFailed

HUGE = b'{"access_token": "' + b"x" * 100_000 + b'"}'
SAFE = "cannot be used now; the operator finds the reason in the hall's log"


async def refused(hall: BrokerHarness, match: str) -> None:
    """The attempt fails with these words, and is over."""
    link = await hall.begin()
    visit = await hall.agree(link)
    with pytest.raises(LinkFailed, match=match):
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
    assert await hall.broker.accounts() == ()
    assert await hall.state(link) == "failed"


LIES: dict[str, Callable[[HttpRequest], HttpResponse]] = {
    "redirect": lambda _: HttpResponse(307, headers=(("Location", "http://127.0.0.1:9/token"),)),
    "redirect with tokens": lambda _: json_response({"access_token": "abcdefgh", "token_type": "Bearer"}, 302),
    "huge": lambda _: HttpResponse(200, HUGE),
    "not JSON": lambda _: HttpResponse(200, b"access_token=abcdefgh&token_type=bearer"),
    "a list": lambda _: HttpResponse(200, b"[]"),
    "twice": lambda _: HttpResponse(200, b'{"access_token": "aaaaaaaa", "access_token": "bbbbbbbb"}'),
    "500": lambda _: HttpResponse(500, b'{"access_token": "aaaaaaaa"}'),
    "429": lambda _: HttpResponse(429),
    "400 without a word": lambda _: json_response({}, 400),
    "no token": lambda _: json_response({"token_type": "Bearer"}),
    "a short token": lambda _: json_response({"access_token": "abc"}),
    "a long token": lambda _: json_response({"access_token": "a" * 20_000}),
    "a number": lambda _: json_response({"access_token": 12345678}),
    "a line break": lambda _: json_response({"access_token": "abcdefgh\r\nx-evil: 1"}),
    "another type": lambda _: json_response({"access_token": "abcdefgh", "token_type": "mac"}),
    "a strange end": lambda _: json_response({"access_token": "abcdefgh", "expires_in": "soon"}),
    "a negative end": lambda _: json_response({"access_token": "abcdefgh", "expires_in": -1}),
    "scopes as a list": lambda _: json_response({"access_token": "abcdefgh", "scope": ["mail.read"]}),
    "a strange refresh token": lambda _: json_response({"access_token": "abcdefgh", "refresh_token": {"a": 1}}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_link_with_an_invalid_token_response_fails(
    scripted: ScriptedAuthority, lie: Callable[[HttpRequest], HttpResponse]
) -> None:
    scripted.token = lie
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await refused(hall, SAFE)
        assert scripted.count("/token") == 1


async def test_link_with_a_token_endpoint_that_times_out_fails(
    scripted: ScriptedAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolhall.oauth.client.REQUEST_TIMEOUT_SECONDS", 0.2)
    with scripted.holding("/token"):
        async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
            await refused(hall, SAFE)


@pytest.mark.parametrize(
    ("said", "shown"),
    [("invalid_grant", "invalid_grant"), ("<script>alert(1)</script>", "an unknown error"), ([1], "an unknown error")],
)
async def test_link_failure_shows_only_error_codes_known_to_oauth(
    scripted: ScriptedAuthority, said: Any, shown: str
) -> None:
    scripted.token = lambda _: json_response({"error": said, "error_description": "call 0800 EVIL"}, 400)
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await refused(hall, rf"refused \({shown}\)")


async def test_link_with_fewer_scopes_than_needed_fails_and_revokes_the_tokens(scripted: ScriptedAuthority) -> None:
    scripted.tokens = {"scope": "mail.list"}
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await refused(hall, "granted less than is needed; missing: mail.read")
        assert scripted.count("/revoke") == 2  # what cannot be used is given back


async def test_link_with_fewer_scopes_keeps_the_existing_account(scripted: ScriptedAuthority) -> None:
    """Some providers revoke everything at once, so nothing is revoked that could be in use."""
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await hall.connect()
        scripted.tokens = {"scope": "mail.list"}
        visit = await hall.agree(await hall.begin(scopes=("mail.send",)))
        with pytest.raises(LinkFailed, match="granted less"):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert scripted.count("/revoke") == 0
        assert await hall.token() is not None


async def test_link_ignores_granted_scopes_that_were_not_requested(scripted: ScriptedAuthority) -> None:
    scripted.tokens = {"scope": "mail.read admin"}
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        assert account.scopes == ("mail.read",)
        hall.clock.now += 3600
        assert await hall.token() is not None
        assert [each.scopes for each in await hall.broker.accounts()] == [("mail.read",)]


async def test_link_accepts_comma_separated_scopes(scripted: ScriptedAuthority) -> None:
    """As GitHub writes them."""
    scripted.tokens = {"scope": "mail.read,mail.send"}
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        assert (await hall.connect()).state == "completed"


@pytest.mark.parametrize(
    "changed",
    [{"code": None}, {"code": ""}, {"code": "x" * 10_000}, {"error": "<b>call 0800 EVIL</b>"}, {"error": "x"}],
    ids=["no code", "empty", "long", "html", "unknown"],
)
async def test_callback_without_a_valid_code_fails_without_token_request(
    scripted: ScriptedAuthority, changed: dict[str, str | None]
) -> None:
    scripted.callback = changed
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await refused(hall, "the provider refused; the operator checks")
        assert scripted.count("/token") == 0


BAD_METADATA: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://evil.example"},
    "a slash more": {"issuer": "SLASH"},
    "no issuer": {"issuer": None},
    "no S256": {"code_challenge_methods_supported": ["plain"]},
    "no PKCE": {"code_challenge_methods_supported": None},
    "PKCE as a text": {"code_challenge_methods_supported": "S256"},
    "no token endpoint": {"token_endpoint": None},
    "no authorization endpoint": {"authorization_endpoint": None},
    "an endpoint as a number": {"token_endpoint": 7},
}


@pytest.mark.parametrize("lie", BAD_METADATA.values(), ids=BAD_METADATA.keys())
async def test_provider_metadata_with_invalid_members_is_refused(
    scripted: ScriptedAuthority, lie: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    scripted.metadata = {name: f"{scripted.issuer}/" if said == "SLASH" else said for name, said in lie.items()}
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        link = await hall.begin()
        with pytest.raises(LinkFailed, match=SAFE):
            await hall.broker.consent(link.id, ALICE)
        assert "acme" in caplog.text
        assert scripted.count("/token") == 0


@pytest.mark.parametrize(
    "told",
    [
        HttpResponse(200, b"<html>"),
        HttpResponse(200, b"[]"),
        HttpResponse(500),
        HttpResponse(302, headers=(("Location", "/elsewhere"),)),
    ],
    ids=["html", "list", "500", "redirect"],
)
async def test_provider_metadata_response_that_is_no_document_is_refused(
    scripted: ScriptedAuthority, told: HttpResponse
) -> None:
    scripted.paths["/.well-known/oauth-authorization-server"] = lambda _: told
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        link = await hall.begin()
        with pytest.raises(LinkFailed, match=SAFE):
            await hall.broker.consent(link.id, ALICE)
        assert scripted.count("/elsewhere") == 0


async def test_provider_metadata_is_found_at_the_openid_connect_path(scripted: ScriptedAuthority) -> None:
    """An issuer with a path, which publishes as OpenID Connect says."""
    document = scripted.default_metadata() | {"issuer": f"{scripted.issuer}/tenant"}
    scripted.callback = {"iss": f"{scripted.issuer}/tenant"}
    place = "/tenant/.well-known/openid-configuration"
    scripted.paths[place] = lambda _: HttpResponse(200, json.dumps(document).encode())
    providers = {"acme": provider_settings(f"{scripted.issuer}/tenant")}
    async with broker_harness(
        providers, egress=EgressClient(EgressAllowlist([scripted.issuer.removeprefix("http://")]))
    ) as hall:
        assert (await hall.connect()).state == "completed"
    assert [each.path for each in scripted.asked][:3] == [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        place,
    ]


async def test_provider_metadata_is_cached_for_an_hour_and_used_while_the_issuer_fails(
    scripted: ScriptedAuthority,
) -> None:
    place = "/.well-known/oauth-authorization-server"
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        await hall.connect()
        await hall.begin(scopes=("x",))
        assert scripted.count(place) == 1
        hall.clock.now += 3600
        scripted.paths[place] = lambda _: HttpResponse(503)
        assert await hall.token(MAIL) is not None
        assert scripted.count(place) == 2


async def test_provider_with_configured_endpoints_needs_no_metadata(scripted: ScriptedAuthority) -> None:
    scripted.callback = {"iss": None}
    urls = {"authorize_url": f"{scripted.issuer}/authorize?tenant=7", "token_url": f"{scripted.issuer}/token"}
    given = provider_settings(None, **urls)
    async with broker_harness(
        {"acme": given}, egress=EgressClient(EgressAllowlist([scripted.issuer.removeprefix("http://")]))
    ) as hall:
        visit = await hall.agree(await hall.begin())
        assert visit.sent["tenant"] == "7"
        assert visit.sent["redirect_uri"] == f"{REDIRECT}/acme"
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        (account,) = await hall.broker.accounts()
        assert account.issuer == f"{scripted.issuer}/token"
