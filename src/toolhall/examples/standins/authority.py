"""An OAuth provider: authorization code with PKCE, rotating tokens, revocation (RFC 6749, 7009, 7636, 8252, 9207)."""

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode

from toolhall.examples.standins.consent import consent, mistaken
from toolhall.examples.standins.grants import Asked, BadGrant, Grants, Tokens
from toolhall.examples.standins.messages import Reply, Request, in_json

CLIENT_ID = "toolhall-examples"
CALLBACK = "/oauth/callback"
_MOST_TICKETS = 100
_HERE = re.compile(rf"http://(?:localhost|127\.0\.0\.1):[1-9][0-9]{{0,4}}{CALLBACK}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class _Waiting(NamedTuple):
    """A request whose user has not said yet."""

    asked: Asked
    state: str


class Authority:
    """`user` is who is signed in; `public_url` is the only hall that may ask, or else any on this machine."""

    def __init__(self, issuer: str, user: str, scopes: tuple[str, ...], grants: Grants, public_url: str | None) -> None:
        self._issuer = issuer
        self._user = user
        self._scopes = scopes
        self._grants = grants
        self._registered = None if public_url is None else f"{public_url.rstrip('/')}{CALLBACK}"
        self._tickets: OrderedDict[str, _Waiting] = OrderedDict()
        self.routes: dict[tuple[str, str], Callable[[Request], Reply]] = {
            ("GET", "/.well-known/oauth-authorization-server"): self._metadata,
            ("GET", "/authorize"): self._ask,
            ("POST", "/authorize"): self._answered,
            ("POST", "/token"): self._token,
            ("POST", "/revoke"): self._revoke,
        }

    def _metadata(self, _: Request) -> Reply:
        return in_json(
            {
                "issuer": self._issuer,
                "authorization_endpoint": f"{self._issuer}/authorize",
                "token_endpoint": f"{self._issuer}/token",
                "revocation_endpoint": f"{self._issuer}/revoke",
                "scopes_supported": self._scopes,
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_methods_supported": ["none"],
                "revocation_endpoint_auth_methods_supported": ["none"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    def _ask(self, request: Request) -> Reply:
        said = request.query
        client_id, redirect_uri, state = (said.get(name, "") for name in ("client_id", "redirect_uri", "state"))
        if client_id != CLIENT_ID or not self._is_registered(redirect_uri):
            return mistaken(f"This is no request of a hall that is known here: its client_id is {CLIENT_ID}.")
        asked = Asked(client_id, redirect_uri, said.get("scope", ""), said.get("code_challenge", ""))
        wrong = self._wrong(asked, said)
        if wrong:
            return self._sent_back(asked, state, error=wrong)
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = _Waiting(asked, state)
        if len(self._tickets) > _MOST_TICKETS:
            self._tickets.popitem(last=False)
        return consent(ticket, self._user, asked.scope, redirect_uri)

    def _is_registered(self, redirect_uri: str) -> bool:
        """Exactly; RFC 8252, 7.3: of a program on this machine nobody knows the port before."""
        if self._registered is not None:
            return redirect_uri == self._registered
        return _HERE.fullmatch(redirect_uri) is not None

    def _wrong(self, asked: Asked, said: dict[str, str]) -> str | None:
        """RFC 6749, 4.1.2.1."""
        if said.get("response_type") != "code":
            return "unsupported_response_type"
        if said.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(asked.challenge):
            return "invalid_request"
        return None if asked.scope and set(asked.scope.split()) <= set(self._scopes) else "invalid_scope"

    def _answered(self, request: Request) -> Reply:
        """Only the page that was shown knows the ticket, and it is good once."""
        waiting = self._tickets.pop(request.form.get("ticket", ""), None)
        if waiting is None:
            return mistaken("This page is too old. Begin again where you came from.")
        if request.form.get("answer") != "allow":
            return self._sent_back(waiting.asked, waiting.state, error="access_denied")
        return self._sent_back(waiting.asked, waiting.state, code=self._grants.agreed(waiting.asked))

    def _sent_back(self, asked: Asked, state: str, **said: str) -> Reply:
        query = urlencode(said | ({"state": state} if state else {}) | {"iss": self._issuer})
        headers = (("location", f"{asked.redirect_uri}?{query}"), ("cache-control", "no-store"))
        return Reply(303, headers=(*headers, ("referrer-policy", "no-referrer")))

    def _token(self, request: Request) -> Reply:
        said = request.form
        try:
            tokens = self._tokens(said)
        except BadGrant:
            return in_json({"error": "invalid_grant"}, 400)
        return in_json({"error": "unsupported_grant_type"}, 400) if tokens is None else in_json(tokens)

    def _tokens(self, said: dict[str, str]) -> Tokens | None:
        client_id = said.get("client_id", "")
        match said.get("grant_type"):
            case "authorization_code":
                rest = (said.get(name, "") for name in ("redirect_uri", "code_verifier"))
                return self._grants.exchange(said.get("code", ""), client_id, *rest)
            case "refresh_token":
                return self._grants.renew(said.get("refresh_token", ""), client_id)
            case _:
                return None

    def _revoke(self, request: Request) -> Reply:
        """RFC 7009: fine as well where there is nothing to end."""
        self._grants.end(request.form.get("token", ""))
        return Reply(200)
