"""A client and a browser of the fake OAuth provider, without a network."""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from toolhall.examples._fakes.http_server import FakeRequest, FakeResponse
from toolhall.examples._fakes.oauth_provider import CLIENT_ID, FakeGrants, pkce_challenge
from toolhall.examples._fakes.services import READ_MAIL_SCOPE, FakeGoogle

URL = "http://127.0.0.1:9000"
REDIRECT = "http://localhost:8000/oauth/callback"
VERIFIER = "v" * 43
WANTED = {
    "response_type": "code",
    "client_id": CLIENT_ID,
    "redirect_uri": REDIRECT,
    "scope": READ_MAIL_SCOPE,
    "state": "the state & more",
    "code_challenge": pkce_challenge(VERIFIER),
    "code_challenge_method": "S256",
}


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class ProviderHarness:
    """The fake provider, with a client and a browser."""

    public_url: str | None = None
    clock: Clock = field(default_factory=Clock)
    grants: FakeGrants | None = None

    def __post_init__(self) -> None:
        self._google = FakeGoogle(URL, self.public_url, self.grants or FakeGrants(self.clock))

    def get(self, path: str, query: dict[str, str] | None = None, token: str | None = None) -> FakeResponse:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return self._google(FakeRequest("GET", path, query or {}, headers))

    def post(self, path: str, **form: str) -> FakeResponse:
        return self._google(FakeRequest("POST", path, {}, {}, urlencode(form).encode()))

    def asked(self, **changed: str) -> FakeResponse:
        """A browser is sent there; what is changed to nothing is left out."""
        return self.get("/authorize", {name: value for name, value in (WANTED | changed).items() if value})

    def answered(self, page: FakeResponse, answer: str = "allow") -> FakeResponse:
        """A person clicks one of the two buttons."""
        ticket = re.search(rb'name="ticket" value="([^"]+)"', page.body)
        assert ticket, page
        return self.post("/authorize", ticket=ticket[1].decode(), answer=answer)

    def code(self) -> str:
        return redirect_query(self.answered(self.asked()))["code"]

    def exchange(self, code: str, /, **changed: str) -> FakeResponse:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, "client_id": CLIENT_ID}
        return self.post("/token", **(form | {"code_verifier": VERIFIER} | changed))

    def renew(self, refresh: str, **changed: str) -> FakeResponse:
        form = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": CLIENT_ID}
        return self.post("/token", **(form | changed))

    def tokens(self) -> dict[str, Any]:
        return value(self.exchange(self.code()))

    def reads(self, token: str) -> bool:
        """Whether this token reads mail."""
        status = self.get("/gmail/v1/users/me/messages", token=token).status
        assert status in (200, 401)
        return status == 200


def redirect_query(reply: FakeResponse) -> dict[str, str]:
    """The query of the redirect."""
    assert reply.status == 303, reply
    address, _, query = dict(reply.headers)["location"].partition("?")
    assert urlsplit(address).path == "/oauth/callback"
    return dict(parse_qsl(query, strict_parsing=True))


def value(reply: FakeResponse) -> dict[str, Any]:
    """The decoded body of a successful response."""
    assert reply.status == 200, reply
    return msgspec.json.decode(reply.body, type=dict[str, Any])


def token_error(reply: FakeResponse) -> str:
    """The error code of a refused token request."""
    assert reply.status == 400, reply
    return msgspec.json.decode(reply.body, type=dict[str, str])["error"]
