"""The stand-in for Google is a provider as the standards want it, so that what works here works elsewhere."""

import pytest

from tests.unit.examples.oauth_client import REDIRECT, URL, World, refused, said, value
from toolhall.examples._fakes.oauth_provider import CLIENT_ID
from toolhall.examples._fakes.services import READ_MAIL_SCOPE
from toolhall.oauth.client import read_metadata
from toolhall.oauth.providers import ProviderSettings, build_provider


@pytest.fixture
def world() -> World:
    return World()


def test_its_metadata_is_what_a_hall_believes(world: World) -> None:
    provider = build_provider("google", ProviderSettings(issuer=URL, client_id=CLIENT_ID))
    found = read_metadata(value(world.get("/.well-known/oauth-authorization-server")), provider)
    assert (found.authorize_url, found.token_url, found.revoke_url) == (
        f"{URL}/authorize",
        f"{URL}/token",
        f"{URL}/revoke",
    )
    assert (found.token_auth, found.sends_iss) == ("none", True)


def test_a_page_asks_and_cannot_be_framed_or_scripted(world: World) -> None:
    page = world.asked()
    assert page.status == 200
    assert READ_MAIL_SCOPE.encode() in page.body
    assert b"localhost:8000" in page.body
    policy = dict(page.headers)["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' http://localhost:8000;" in policy


def test_a_yes_sends_back_a_code_with_state_and_issuer(world: World) -> None:
    back = said(world.answered(world.asked()))
    assert back.keys() == {"code", "state", "iss"}
    assert (back["state"], back["iss"]) == ("the state & more", URL)


@pytest.mark.parametrize("answer", ["deny", "", "Allow"])
def test_all_but_a_yes_is_a_no(world: World, answer: str) -> None:
    assert said(world.answered(world.asked(), answer)) == {
        "error": "access_denied",
        "state": "the state & more",
        "iss": URL,
    }


def test_a_page_is_good_for_one_answer(world: World) -> None:
    page = world.asked()
    world.answered(page)
    assert world.answered(page).status == 400


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
def test_nobody_is_sent_to_an_address_that_is_not_exactly_a_hall_here(world: World, uri: str) -> None:
    reply = world.asked(redirect_uri=uri)
    assert reply.status == 400
    assert "location" not in dict(reply.headers)


def test_a_hall_with_a_public_address_has_exactly_that(world: World) -> None:
    public = World("https://hall.example/")
    assert public.asked(redirect_uri="https://hall.example/oauth/callback").status == 200
    assert public.asked(redirect_uri=REDIRECT).status == 400
    assert world.asked(redirect_uri="https://hall.example/oauth/callback").status == 400


def test_other_programs_are_not_known(world: World) -> None:
    assert world.asked(client_id="somebody").status == 400


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
def test_what_cannot_be_asked_for_is_refused_before_a_person_sees_it(
    world: World, changed: dict[str, str], error: str
) -> None:
    assert said(world.asked(**changed)) == {"error": error, "state": "the state & more", "iss": URL}


def test_a_code_gives_tokens_for_two_minutes(world: World) -> None:
    tokens = world.tokens()
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 120, READ_MAIL_SCOPE)
    assert world.reads(tokens["access_token"])
    assert not world.reads(tokens["refresh_token"])
    world.clock.now += 119
    assert world.reads(tokens["access_token"])
    world.clock.now += 1
    assert not world.reads(tokens["access_token"])


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
def test_a_code_without_its_proof_is_worth_nothing(world: World, changed: dict[str, str]) -> None:
    assert refused(world.exchange(world.code(), **changed)) == "invalid_grant"


def test_a_wrong_proof_spends_the_code(world: World) -> None:
    code = world.code()
    world.exchange(code, code_verifier="w" * 43)
    assert refused(world.exchange(code)) == "invalid_grant"


def test_a_code_is_good_for_a_minute(world: World) -> None:
    code = world.code()
    world.clock.now += 60
    assert refused(world.exchange(code)) == "invalid_grant"


def test_a_code_that_is_used_again_ends_what_came_of_it(world: World) -> None:
    code = world.code()
    tokens = value(world.exchange(code))
    assert refused(world.exchange(code)) == "invalid_grant"
    assert not world.reads(tokens["access_token"])
    assert refused(world.renew(tokens["refresh_token"])) == "invalid_grant"


def test_refresh_tokens_rotate(world: World) -> None:
    first = world.tokens()
    second = value(world.renew(first["refresh_token"]))
    assert second["refresh_token"] != first["refresh_token"]
    assert world.reads(second["access_token"])
    assert world.reads(first["access_token"]), "it has not come to its end"


def test_a_refresh_token_that_is_used_again_ends_them_all(world: World) -> None:
    first = world.tokens()
    second = value(world.renew(first["refresh_token"]))
    assert refused(world.renew(first["refresh_token"])) == "invalid_grant"
    assert not world.reads(second["access_token"])
    assert refused(world.renew(second["refresh_token"])) == "invalid_grant"


def test_tokens_are_for_the_program_that_got_them(world: World) -> None:
    assert refused(world.renew(world.tokens()["refresh_token"], client_id="somebody")) == "invalid_grant"


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_either_token_revokes_both(world: World, kind: str) -> None:
    tokens, others = world.tokens(), world.tokens()
    assert world.post("/revoke", token=tokens[kind]).status == 200
    assert not world.reads(tokens["access_token"])
    assert refused(world.renew(tokens["refresh_token"])) == "invalid_grant"
    assert world.reads(others["access_token"])
    assert world.post("/revoke", token="unknown").status == 200


def test_other_ways_to_tokens_are_not_there(world: World) -> None:
    assert refused(world.post("/token", grant_type="password", client_id=CLIENT_ID)) == "unsupported_grant_type"


def test_what_nobody_answers_is_forgotten(world: World) -> None:
    oldest = world.asked()
    for _ in range(100):
        world.asked()
    assert world.answered(oldest).status == 400
