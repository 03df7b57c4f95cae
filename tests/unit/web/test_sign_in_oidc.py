"""Signing in with an identity provider: a real one on loopback, whose answers a test can change."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.threats.issuer import DISCOVERY, FOREIGN, Issuer, issuing, sign
from tests.unit.web.browser_client import Browser, Reply
from tests.unit.web.test_sessions import OWN_PAGE
from toolhall import Toolhall
from toolhall.config import Config
from toolhall.config import Issuer as IssuerSettings
from toolhall.examples._fakes.oauth_provider import pkce_challenge
from toolhall.pipeline.policy import LevelRequirements, credential_denial
from toolhall.stores.audit.filters import AuditQuery
from toolhall.web.sessions import LONGEST_SECONDS
from toolhall.web.sign_in_oidc import ATTEMPT_SECONDS, MAX_STEPS

CLIENT, SECRET, CODE = "console-of-the-hall", "client-secret-of-the-hall", "c" * 32
BACK = "http://localhost:8000/sign-in/callback"


class Provider:
    """An identity provider with one person, and a hall that trusts it."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        place = urlsplit(issuer.url).netloc
        settings = IssuerSettings(name="corp", issuer=issuer.url, client_id=CLIENT, client_secret=SECRET)
        url = "http://localhost:8000"
        self.hall = Toolhall(
            config=Config(profile="server", public_url=url, issuers=(settings,), egress_allow=(place,))
        )
        self.browser = Browser(self.hall, address="192.0.2.7")
        metadata = {
            "issuer": issuer.url,
            "jwks_uri": f"{issuer.url}/jwks",
            "authorization_endpoint": f"{issuer.url}/authorize",
            "token_endpoint": f"{issuer.url}/token",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        issuer.documents[DISCOVERY] = lambda: (200, json.dumps(metadata).encode())

    async def begin(self) -> dict[str, str]:
        """Follow the link; what the provider is asked."""
        reply = await self.browser.get("/sign-in/oidc")
        assert reply.status == 303
        assert reply.header("location").startswith(f"{self.issuer.url}/authorize?")
        return {name: value for name, (value,) in parse_qs(urlsplit(reply.header("location")).query).items()}

    def will_answer(self, token: str) -> None:
        """What the provider's token endpoint answers from now on."""
        answer = {"access_token": "a" * 32, "token_type": "Bearer", "id_token": token}
        self.issuer.documents["/token"] = lambda: (200, json.dumps(answer).encode())

    async def come_back(self, state: str, iss: str | None = None) -> Reply:
        """The provider sends the browser back, which sends no strict cookie then."""
        return await self.browser.get(f"/sign-in/callback?code={CODE}&state={state}&iss={iss or self.issuer.url}")

    async def me(self) -> tuple[int, Any]:
        return await self.browser.api("GET", "/api/me", **OWN_PAGE)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with issuing() as issuer:
        provider = Provider(issuer)
        with provider.hall:
            yield provider


@pytest.mark.threat("B25")
async def test_person_signs_in_with_the_provider(provider: Provider) -> None:
    """The verifier of PKCE goes to the token endpoint alone."""
    assert 'href="sign-in/oidc"' in (await provider.browser.get("/sign-in")).body
    asked = await provider.begin()
    assert (asked["response_type"], asked["client_id"], asked["redirect_uri"]) == ("code", CLIENT, BACK)
    assert "openid" in asked["scope"].split()
    provider.will_answer(provider.issuer.token(aud=CLIENT, nonce=asked["nonce"], scope="admin"))
    reply = await provider.come_back(asked["state"])
    assert (reply.status, reply.header("location")) == (303, "/")
    (form,) = provider.issuer.forms
    assert (form["code"], form["redirect_uri"], form["grant_type"]) == (CODE, BACK, "authorization_code")
    assert pkce_challenge(form["code_verifier"]) == asked["code_challenge"]
    status, me = await provider.me()
    assert (status, me["caller"], me["proof"], me["oidc"]) == (200, "corp:alice", "token", True)
    assert me["may"]["manage"]


async def test_session_ends_and_is_not_as_short_as_the_id_token(provider: Provider) -> None:
    """A tool that needs a credential that expires may be called; one that needs a short-lived token may not."""
    asked = await provider.begin()
    provider.will_answer(provider.issuer.token(aud=CLIENT, nonce=asked["nonce"]))
    before = provider.hall.approval_components.sessions.clock()
    assert (await provider.come_back(asked["state"])).status == 303
    sessions = provider.hall.approval_components.sessions
    cookie = "; ".join(f"{name}={value}" for name, value in provider.browser.cookies.items() if value)
    session = sessions.read({b"cookie": cookie.encode()})
    assert session is not None
    assert session.caller is not None
    assert session.caller.expires_at is not None
    assert 0 <= session.caller.expires_at - before - LONGEST_SECONDS < 600
    assert not session.caller.short_lived
    steps = LevelRequirements(short_lived=4)
    assert credential_denial(session.caller, 3, steps, before) is None
    assert credential_denial(session.caller, 4, steps, before) is not None


async def test_token_whose_scopes_do_not_fit_into_a_cookie_is_told_so(provider: Provider) -> None:
    """Browsers drop a cookie that is too long without a word, and the person would be asked to sign in for ever."""
    asked = await provider.begin()
    scopes = " ".join(f"tools:Toolkit-of-department-{number}" for number in range(200))
    token = provider.issuer.token(aud=CLIENT, nonce=asked["nonce"], scope=scopes)
    provider.will_answer(token)
    reply = await provider.come_back(asked["state"])
    assert (reply.status, "more scopes than a browser can keep" in reply.text) == (403, True)
    assert (await provider.me())[0] == 401


@pytest.mark.threat("B25")
async def test_attempt_is_in_a_lax_cookie_and_used_once(provider: Provider) -> None:
    """The cookie survives the redirect, scripts cannot read it, and the answer removes it."""
    reply = await provider.browser.get("/sign-in/oidc")
    cookie = reply.header("set-cookie")
    assert {"HttpOnly", "SameSite=Lax", f"Max-Age={ATTEMPT_SECONDS}"} <= set(cookie.split("; "))
    asked = {name: value for name, (value,) in parse_qs(urlsplit(reply.header("location")).query).items()}
    provider.will_answer(provider.issuer.token(aud=CLIENT, nonce=asked["nonce"]))
    assert (await provider.come_back(asked["state"])).status == 303
    provider.browser.cookies = {name: value for name, value in provider.browser.cookies.items() if value}
    assert (await provider.come_back(asked["state"])).status == 400


@pytest.mark.threat("B25")
@pytest.mark.parametrize(
    "changed",
    [
        {"nonce": None},
        {"nonce": "another"},
        {"aud": "another-client"},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"iss": "https://other.example"},
        {"exp": 1},
        {"sub": None},
    ],
    ids=str,
)
async def test_id_token_for_something_else_signs_nobody_in(provider: Provider, changed: dict[str, Any]) -> None:
    """Another nonce, audience, issuer or time, or no subject."""
    asked = await provider.begin()
    claims: dict[str, Any] = {"aud": CLIENT, "nonce": asked["nonce"]} | changed
    provider.will_answer(provider.issuer.token(**claims))
    assert (await provider.come_back(asked["state"])).status == 403
    assert (await provider.me())[0] == 401


@pytest.mark.threat("B25")
async def test_id_token_of_a_foreign_key_or_none_signs_nobody_in(provider: Provider) -> None:
    """Nor does a text that is no token."""
    for token in (None, "", "x.y.z"):
        asked = await provider.begin()
        claims = provider.issuer.claims(aud=CLIENT, nonce=asked["nonce"])
        provider.will_answer(sign("ES256", FOREIGN["ES256"], claims, {"kid": "ec"}) if token is None else token)
        assert (await provider.come_back(asked["state"])).status == 403
        assert (await provider.me())[0] == 401


@pytest.mark.threat("B25")
async def test_copy_of_an_attempt_makes_no_second_session(provider: Provider) -> None:
    """Even if the provider took its code twice."""
    asked = await provider.begin()
    copied = dict(provider.browser.cookies)
    provider.will_answer(provider.issuer.token(aud=CLIENT, nonce=asked["nonce"]))
    assert (await provider.come_back(asked["state"])).status == 303
    provider.browser.cookies = copied
    assert (await provider.come_back(asked["state"])).status == 400
    assert (await provider.me())[0] == 401


async def test_sign_in_with_a_provider_is_recorded(provider: Provider) -> None:
    asked = await provider.begin()
    provider.will_answer(provider.issuer.token(aud=CLIENT, nonce=asked["nonce"]))
    await provider.come_back(asked["state"])
    (found,) = (await provider.hall.journal.search(AuditQuery(), 10)).records
    assert (found.record.tool, found.record.caller) == ("sign in", "corp:alice")
    assert found.record.dialect == "session/management"


@pytest.mark.threat("B25")
async def test_answer_of_another_attempt_browser_or_issuer_is_refused(provider: Provider) -> None:
    """The state, the cookie and `iss` must be those of one attempt; its code is not even sent to the provider."""
    asked = await provider.begin()
    provider.will_answer(provider.issuer.token(aud=CLIENT, nonce=asked["nonce"]))
    kept = dict(provider.browser.cookies)
    assert (await provider.come_back("another")).status == 400
    provider.browser.cookies = dict(kept)
    assert (await provider.come_back(asked["state"], "https://other.example")).status == 400
    provider.browser.cookies = {}
    assert (await provider.come_back(asked["state"])).status == 400
    sessions = provider.hall.approval_components.sessions
    clock = sessions.clock
    sessions.clock = lambda: clock() + ATTEMPT_SECONDS + 1
    provider.browser.cookies = dict(kept)
    assert (await provider.come_back(asked["state"])).status == 400
    assert not provider.issuer.forms


@pytest.mark.threat("B25")
async def test_strangers_cannot_loop_through_the_sign_in(provider: Provider) -> None:
    """Neither by beginning again and again nor by coming back: the provider is not even asked. Others are let in."""
    asked = await provider.begin()
    kept = dict(provider.browser.cookies)
    for _ in range(MAX_STEPS - 1):
        provider.browser.cookies = dict(kept)
        assert (await provider.come_back(asked["state"])).status in (400, 403, 503)
    forms = len(provider.issuer.forms)
    provider.browser.cookies = dict(kept)
    assert (await provider.come_back(asked["state"])).status == 429
    assert (await provider.browser.get("/sign-in/oidc")).status == 429
    assert len(provider.issuer.forms) == forms
    assert (await Browser(provider.hall, address="198.51.100.7").get("/sign-in/oidc")).status == 303


def test_client_secret_is_not_shown() -> None:
    settings = IssuerSettings(name="corp", issuer="https://id.example", client_id=CLIENT, client_secret=SECRET)
    assert SECRET not in repr(Config(issuers=(settings,)))
