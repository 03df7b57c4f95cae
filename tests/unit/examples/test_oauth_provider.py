"""The stand-in for Google is a provider as the standards want it, so that what works here works elsewhere."""

import pytest

from tests.unit.examples.oauth_client import REDIRECT, URL, ProviderHarness, redirect_query, token_error, value
from toolhall.examples._fakes.oauth_provider import CLIENT_ID
from toolhall.examples._fakes.services import READ_MAIL_SCOPE
from toolhall.oauth.discovery import read_metadata
from toolhall.oauth.providers import ProviderSettings, build_provider


@pytest.fixture
def provider_harness() -> ProviderHarness:
    return ProviderHarness()


def test_oauth_provider_metadata_is_accepted_by_the_hall(provider_harness: ProviderHarness) -> None:
    provider = build_provider("google", ProviderSettings(issuer=URL, client_id=CLIENT_ID))
    found = read_metadata(value(provider_harness.get("/.well-known/oauth-authorization-server")), provider)
    assert (found.authorize_url, found.token_url, found.revoke_url) == (
        f"{URL}/authorize",
        f"{URL}/token",
        f"{URL}/revoke",
    )
    assert (found.token_auth, found.sends_iss) == ("none", True)


def test_oauth_provider_consent_page_has_a_strict_content_security_policy(provider_harness: ProviderHarness) -> None:
    page = provider_harness.asked()
    assert page.status == 200
    assert READ_MAIL_SCOPE.encode() in page.body
    assert b"localhost:8000" in page.body
    policy = dict(page.headers)["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' http://localhost:8000;" in policy


def test_oauth_provider_consent_redirects_with_code_state_and_issuer(provider_harness: ProviderHarness) -> None:
    back = redirect_query(provider_harness.answered(provider_harness.asked()))
    assert back.keys() == {"code", "state", "iss"}
    assert (back["state"], back["iss"]) == ("the state & more", URL)


@pytest.mark.parametrize("answer", ["deny", "", "Allow"])
def test_oauth_provider_any_answer_but_allow_is_access_denied(provider_harness: ProviderHarness, answer: str) -> None:
    assert redirect_query(provider_harness.answered(provider_harness.asked(), answer)) == {
        "error": "access_denied",
        "state": "the state & more",
        "iss": URL,
    }


def test_oauth_provider_consent_page_answered_twice_is_400(provider_harness: ProviderHarness) -> None:
    page = provider_harness.asked()
    provider_harness.answered(page)
    assert provider_harness.answered(page).status == 400


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://elsewhere.example/oauth/callback",
        f"{REDIRECT}/",
        f"{REDIRECT}?more=1",
        "http://localhost:8000/other",
        "http://localhost/oauth/callback",
        "http://localhost.example:8000/oauth/callback",
        "http://me@localhost:8000/oauth/callback",
        "https://localhost:8000/oauth/callback",
        f"{REDIRECT}\r\nset-cookie: a=b",
    ],
)
def test_oauth_provider_unknown_redirect_uri_is_400_without_redirect(
    provider_harness: ProviderHarness, uri: str
) -> None:
    reply = provider_harness.asked(redirect_uri=uri)
    assert reply.status == 400
    assert "location" not in dict(reply.headers)


def test_oauth_provider_with_public_url_accepts_only_its_redirect_uri(provider_harness: ProviderHarness) -> None:
    public = ProviderHarness("https://hall.example/")
    assert public.asked(redirect_uri="https://hall.example/oauth/callback").status == 200
    assert public.asked(redirect_uri=REDIRECT).status == 400
    assert provider_harness.asked(redirect_uri="https://hall.example/oauth/callback").status == 400


def test_oauth_provider_unknown_client_id_is_400(provider_harness: ProviderHarness) -> None:
    assert provider_harness.asked(client_id="somebody").status == 400


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": f"{READ_MAIL_SCOPE} https://mail.google.com/"}, "invalid_scope"),
        ({"scope": ""}, "invalid_scope"),
    ],
)
def test_oauth_provider_invalid_authorization_request_redirects_with_an_error(
    provider_harness: ProviderHarness, changed: dict[str, str], error: str
) -> None:
    assert redirect_query(provider_harness.asked(**changed)) == {
        "error": error,
        "state": "the state & more",
        "iss": URL,
    }


def test_oauth_provider_access_token_expires_after_two_minutes(provider_harness: ProviderHarness) -> None:
    tokens = provider_harness.tokens()
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 120, READ_MAIL_SCOPE)
    assert provider_harness.reads(tokens["access_token"])
    assert not provider_harness.reads(tokens["refresh_token"])
    provider_harness.clock.now += 119
    assert provider_harness.reads(tokens["access_token"])
    provider_harness.clock.now += 1
    assert not provider_harness.reads(tokens["access_token"])


@pytest.mark.parametrize(
    "changed",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": ""},
        {"redirect_uri": "http://localhost:8001/oauth/callback"},
        {"client_id": "somebody"},
        {"code": "1.2"},
        {"code": ""},
    ],
)
def test_oauth_provider_code_with_wrong_verifier_or_redirect_uri_is_invalid_grant(
    provider_harness: ProviderHarness, changed: dict[str, str]
) -> None:
    assert token_error(provider_harness.exchange(provider_harness.code(), **changed)) == "invalid_grant"


def test_oauth_provider_failed_code_exchange_consumes_the_code(provider_harness: ProviderHarness) -> None:
    code = provider_harness.code()
    provider_harness.exchange(code, code_verifier="w" * 43)
    assert token_error(provider_harness.exchange(code)) == "invalid_grant"


def test_oauth_provider_code_expires_after_a_minute(provider_harness: ProviderHarness) -> None:
    code = provider_harness.code()
    provider_harness.clock.now += 60
    assert token_error(provider_harness.exchange(code)) == "invalid_grant"


def test_oauth_provider_reused_code_revokes_its_tokens(provider_harness: ProviderHarness) -> None:
    code = provider_harness.code()
    tokens = value(provider_harness.exchange(code))
    assert token_error(provider_harness.exchange(code)) == "invalid_grant"
    assert not provider_harness.reads(tokens["access_token"])
    assert token_error(provider_harness.renew(tokens["refresh_token"])) == "invalid_grant"


def test_oauth_provider_refresh_returns_a_new_refresh_token(provider_harness: ProviderHarness) -> None:
    first = provider_harness.tokens()
    second = value(provider_harness.renew(first["refresh_token"]))
    assert second["refresh_token"] != first["refresh_token"]
    assert provider_harness.reads(second["access_token"])
    assert provider_harness.reads(first["access_token"]), "it has not come to its end"


def test_oauth_provider_reused_refresh_token_revokes_all_tokens(provider_harness: ProviderHarness) -> None:
    first = provider_harness.tokens()
    second = value(provider_harness.renew(first["refresh_token"]))
    assert token_error(provider_harness.renew(first["refresh_token"])) == "invalid_grant"
    assert not provider_harness.reads(second["access_token"])
    assert token_error(provider_harness.renew(second["refresh_token"])) == "invalid_grant"


def test_oauth_provider_refresh_by_another_client_is_invalid_grant(provider_harness: ProviderHarness) -> None:
    assert (
        token_error(provider_harness.renew(provider_harness.tokens()["refresh_token"], client_id="somebody"))
        == "invalid_grant"
    )


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_oauth_provider_revoking_either_token_revokes_both(provider_harness: ProviderHarness, kind: str) -> None:
    tokens, others = provider_harness.tokens(), provider_harness.tokens()
    assert provider_harness.post("/revoke", token=tokens[kind]).status == 200
    assert not provider_harness.reads(tokens["access_token"])
    assert token_error(provider_harness.renew(tokens["refresh_token"])) == "invalid_grant"
    assert provider_harness.reads(others["access_token"])
    assert provider_harness.post("/revoke", token="unknown").status == 200


def test_oauth_provider_other_grant_types_are_unsupported(provider_harness: ProviderHarness) -> None:
    assert (
        token_error(provider_harness.post("/token", grant_type="password", client_id=CLIENT_ID))
        == "unsupported_grant_type"
    )


def test_oauth_provider_evicts_the_oldest_unanswered_consent_page(provider_harness: ProviderHarness) -> None:
    oldest = provider_harness.asked()
    for _ in range(100):
        provider_harness.asked()
    assert provider_harness.answered(oldest).status == 400
