"""A provider that lies, in each way: nothing is connected, and the person reads what can be done."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.servers.liar import Liar, answered
from tests.servers.linking import ALICE, MAIL, REDIRECT, Linking, linking, settings
from tests.servers.serving import Answer, Asked
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.client import EgressClient
from toolhall.oauth.providers import LinkFailed

HUGE = b'{"access_token": "' + b"x" * 100_000 + b'"}'
SAFE = "cannot be used now; the operator finds the reason in the hall's log"


async def refused(hall: Linking, match: str) -> None:
    """The attempt fails with these words, and is over."""
    link = await hall.begin()
    visit = await hall.agree(link)
    with pytest.raises(LinkFailed, match=match):
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
    assert await hall.broker.accounts() == ()
    assert await hall.state(link) == "failed"


LIES: dict[str, Callable[[Asked], Answer]] = {
    "redirect": lambda _: Answer(307, headers=(("Location", "http://127.0.0.1:9/token"),)),
    "redirect with tokens": lambda _: answered({"access_token": "abcdefgh", "token_type": "Bearer"}, 302),
    "huge": lambda _: Answer(200, HUGE),
    "not JSON": lambda _: Answer(200, b"access_token=abcdefgh&token_type=bearer"),
    "a list": lambda _: Answer(200, b"[]"),
    "twice": lambda _: Answer(200, b'{"access_token": "aaaaaaaa", "access_token": "bbbbbbbb"}'),
    "500": lambda _: Answer(500, b'{"access_token": "aaaaaaaa"}'),
    "429": lambda _: Answer(429),
    "400 without a word": lambda _: answered({}, 400),
    "no token": lambda _: answered({"token_type": "Bearer"}),
    "a short token": lambda _: answered({"access_token": "abc"}),
    "a long token": lambda _: answered({"access_token": "a" * 20_000}),
    "a number": lambda _: answered({"access_token": 12345678}),
    "a line break": lambda _: answered({"access_token": "abcdefgh\r\nx-evil: 1"}),
    "another type": lambda _: answered({"access_token": "abcdefgh", "token_type": "mac"}),
    "a strange end": lambda _: answered({"access_token": "abcdefgh", "expires_in": "soon"}),
    "a negative end": lambda _: answered({"access_token": "abcdefgh", "expires_in": -1}),
    "scopes as a list": lambda _: answered({"access_token": "abcdefgh", "scope": ["mail.read"]}),
    "a strange refresh token": lambda _: answered({"access_token": "abcdefgh", "refresh_token": {"a": 1}}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_link_with_an_invalid_token_response_fails(lying: Liar, lie: Callable[[Asked], Answer]) -> None:
    lying.token = lie
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await refused(hall, SAFE)
        assert lying.count("/token") == 1


async def test_link_with_a_token_endpoint_that_times_out_fails(lying: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.oauth.client.REQUEST_TIMEOUT_SECONDS", 0.2)
    with lying.holding("/token"):
        async with linking({"acme": settings(lying.issuer)}) as hall:
            await refused(hall, SAFE)


@pytest.mark.parametrize(
    ("said", "shown"),
    [("invalid_grant", "invalid_grant"), ("<script>alert(1)</script>", "an unknown error"), ([1], "an unknown error")],
)
async def test_link_failure_shows_only_error_codes_known_to_oauth(lying: Liar, said: Any, shown: str) -> None:
    lying.token = lambda _: answered({"error": said, "error_description": "call 0800 EVIL"}, 400)
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await refused(hall, rf"refused \({shown}\)")


async def test_link_with_fewer_scopes_than_needed_fails_and_revokes_the_tokens(lying: Liar) -> None:
    lying.tokens = {"scope": "mail.list"}
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await refused(hall, "granted less than is needed; missing: mail.read")
        assert lying.count("/revoke") == 2  # what cannot be used is given back


async def test_link_with_fewer_scopes_keeps_the_existing_account(lying: Liar) -> None:
    """Some providers revoke everything at once, so nothing is revoked that could be in use."""
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await hall.connect()
        lying.tokens = {"scope": "mail.list"}
        visit = await hall.agree(await hall.begin(scopes=("mail.send",)))
        with pytest.raises(LinkFailed, match="granted less"):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert lying.count("/revoke") == 0
        assert await hall.token() is not None


async def test_link_ignores_granted_scopes_that_were_not_requested(lying: Liar) -> None:
    lying.tokens = {"scope": "mail.read admin"}
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await hall.connect()
        (account,) = await hall.broker.accounts()
        assert account.scopes == ("mail.read",)
        hall.clock.now += 3600
        assert await hall.token() is not None
        assert [each.scopes for each in await hall.broker.accounts()] == [("mail.read",)]


async def test_link_accepts_comma_separated_scopes(lying: Liar) -> None:
    """As GitHub writes them."""
    lying.tokens = {"scope": "mail.read,mail.send"}
    async with linking({"acme": settings(lying.issuer)}) as hall:
        assert (await hall.connect()).state == "completed"


@pytest.mark.parametrize(
    "changed",
    [{"code": None}, {"code": ""}, {"code": "x" * 10_000}, {"error": "<b>call 0800 EVIL</b>"}, {"error": "x"}],
    ids=["no code", "empty", "long", "html", "unknown"],
)
async def test_callback_without_a_valid_code_fails_without_token_request(
    lying: Liar, changed: dict[str, str | None]
) -> None:
    lying.callback = changed
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await refused(hall, "the provider refused; the operator checks")
        assert lying.count("/token") == 0


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
    lying: Liar, lie: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    lying.metadata = {name: f"{lying.issuer}/" if said == "SLASH" else said for name, said in lie.items()}
    async with linking({"acme": settings(lying.issuer)}) as hall:
        link = await hall.begin()
        with pytest.raises(LinkFailed, match=SAFE):
            await hall.broker.consent(link.id, ALICE)
        assert "acme" in caplog.text
        assert lying.count("/token") == 0


@pytest.mark.parametrize(
    "told",
    [Answer(200, b"<html>"), Answer(200, b"[]"), Answer(500), Answer(302, headers=(("Location", "/elsewhere"),))],
    ids=["html", "list", "500", "redirect"],
)
async def test_provider_metadata_response_that_is_no_document_is_refused(lying: Liar, told: Answer) -> None:
    lying.paths["/.well-known/oauth-authorization-server"] = lambda _: told
    async with linking({"acme": settings(lying.issuer)}) as hall:
        link = await hall.begin()
        with pytest.raises(LinkFailed, match=SAFE):
            await hall.broker.consent(link.id, ALICE)
        assert lying.count("/elsewhere") == 0


async def test_provider_metadata_is_found_at_the_openid_connect_path(lying: Liar) -> None:
    """An issuer with a path, which publishes as OpenID Connect says."""
    document = lying.right_metadata() | {"issuer": f"{lying.issuer}/tenant"}
    lying.callback = {"iss": f"{lying.issuer}/tenant"}
    place = "/tenant/.well-known/openid-configuration"
    lying.paths[place] = lambda _: Answer(200, json.dumps(document).encode())
    providers = {"acme": settings(f"{lying.issuer}/tenant")}
    async with linking(providers, door=EgressClient(EgressAllowlist([lying.issuer.removeprefix("http://")]))) as hall:
        assert (await hall.connect()).state == "completed"
    assert [each.path for each in lying.asked][:3] == [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        place,
    ]


async def test_provider_metadata_is_cached_for_an_hour_and_used_while_the_issuer_fails(lying: Liar) -> None:
    place = "/.well-known/oauth-authorization-server"
    async with linking({"acme": settings(lying.issuer)}) as hall:
        await hall.connect()
        await hall.begin(scopes=("x",))
        assert lying.count(place) == 1
        hall.clock.now += 3600
        lying.paths[place] = lambda _: Answer(503)
        assert await hall.token(MAIL) is not None
        assert lying.count(place) == 2


async def test_provider_with_configured_endpoints_needs_no_metadata(lying: Liar) -> None:
    lying.callback = {"iss": None}
    urls = {"authorize_url": f"{lying.issuer}/authorize?tenant=7", "token_url": f"{lying.issuer}/token"}
    given = settings(None, **urls)
    async with linking(
        {"acme": given}, door=EgressClient(EgressAllowlist([lying.issuer.removeprefix("http://")]))
    ) as hall:
        visit = await hall.agree(await hall.begin())
        assert visit.sent["tenant"] == "7"
        assert visit.sent["redirect_uri"] == f"{REDIRECT}/acme"
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        (account,) = await hall.broker.accounts()
        assert account.issuer == f"{lying.issuer}/token"
