"""FakeOAuthProvider: authorization code with PKCE, rotating refresh tokens, revocation, a consent page.

It implements RFC 6749, 7009, 7636, 8252 and 9207.
"""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple, TypeAlias
from urllib.parse import urlencode, urlsplit

from toolhall.examples._fakes.http_server import FakeRequest, FakeResponse, json_response

CLIENT_ID = "toolhall-examples"
CALLBACK = "/oauth/callback"
ACCESS_SECONDS = 120  # short, so that a hall has to refresh its tokens
_CODE_SECONDS = 60
_MAX_TICKETS = 100
_MAX_GRANTS = 1_000
_LOCAL_CALLBACK = re.compile(rf"http://(?:localhost|127\.0\.0\.1):[1-9][0-9]{{0,4}}{CALLBACK}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
Tokens: TypeAlias = dict[str, str | int]


@dataclass(frozen=True)
class FakeAuthorizationRequest:
    """An authorization request (RFC 6749, 4.1.1), as far as the grant needs it."""

    client_id: str
    redirect_uri: str
    scope: str
    challenge: str


@dataclass
class _Grant:
    """One consent of the user; its code and all its tokens end together."""

    request: FakeAuthorizationRequest
    code_until: float
    code: str | None  # None once it was used
    refresh: str = ""
    access: dict[str, float] = field(default_factory=dict)  # access token -> expiry


class InvalidGrant(Exception):
    """The code or token is unknown, expired or was used before."""


class FakeGrants:
    """Issues codes and tokens; each begins with the id of its grant, so that reuse of an old one is detected."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._grants: OrderedDict[str, _Grant] = OrderedDict()

    def issue_code(self, request: FakeAuthorizationRequest) -> str:
        """The code for a request that the user allowed."""
        number = secrets.token_hex(8)
        code = _new_token(number)
        self._grants[number] = _Grant(request, self._clock() + _CODE_SECONDS, code)
        if len(self._grants) > _MAX_GRANTS:
            self._grants.popitem(last=False)
        return code

    def exchange(self, code: str, client_id: str, redirect_uri: str, verifier: str) -> Tokens:
        """Exchange a code for tokens, once; a code that is used again revokes its grant (RFC 6749, 4.1.2)."""
        grant = self._grant(code, client_id)
        if not _equal(grant.code, code) or self._clock() >= grant.code_until:
            self.revoke(code)
            raise InvalidGrant
        grant.code = None
        if redirect_uri != grant.request.redirect_uri or not _equal(grant.request.challenge, pkce_challenge(verifier)):
            self.revoke(code)
            raise InvalidGrant
        return self._issue_tokens(code, grant)

    def refresh(self, refresh_token: str, client_id: str) -> Tokens:
        """The next tokens; a refresh token that is used again may be stolen, and revokes its grant."""
        grant = self._grant(refresh_token, client_id)
        if not _equal(grant.refresh, refresh_token):
            self.revoke(refresh_token)
            raise InvalidGrant
        return self._issue_tokens(refresh_token, grant)

    def revoke(self, token: str) -> None:
        """Revoke the grant of a token, with all its tokens (RFC 7009)."""
        self._grants.pop(_grant_id(token), None)

    def allows(self, access: str, scope: str) -> bool:
        """Whether an access token is valid now and has this scope."""
        grant = self._grants.get(_grant_id(access))
        return (
            grant is not None and self._clock() < grant.access.get(access, 0) and scope in grant.request.scope.split()
        )

    def _grant(self, token: str, client_id: str) -> _Grant:
        grant = self._grants.get(_grant_id(token))
        if grant is None or grant.request.client_id != client_id:
            raise InvalidGrant
        return grant

    def _issue_tokens(self, token: str, grant: _Grant) -> Tokens:
        now, number = self._clock(), _grant_id(token)
        access, grant.refresh = _new_token(number), _new_token(number)
        grant.access = {each: until for each, until in grant.access.items() if now < until}
        grant.access[access] = now + ACCESS_SECONDS
        return {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": ACCESS_SECONDS,
            "refresh_token": grant.refresh,
            "scope": grant.request.scope,
        }


def pkce_challenge(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _new_token(number: str) -> str:
    return f"{number}.{secrets.token_urlsafe(32)}"


def _grant_id(token: str) -> str:
    return token.partition(".")[0]


def _equal(stored: str | None, given: str) -> bool:
    return bool(stored) and hmac.compare_digest((stored or "").encode(), given.encode())


_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Stand-in for Google</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 36rem; padding: 0 1rem }
button { font: inherit; margin-right: .5rem; padding: .5rem 1.5rem }
code { overflow-wrap: anywhere }
</style>
</head>
<body>
<main>
<h1>Stand-in for Google</h1>
"""
_TAIL = "</main>\n</body>\n</html>\n"


def consent_page(ticket: str, user: str, scope: str, redirect_uri: str) -> FakeResponse:
    """The consent page: user, hall and scopes, with the buttons Allow and Deny."""
    back = urlsplit(redirect_uri)
    scopes = "".join(f"<li><code>{escape(each)}</code></li>" for each in scope.split())
    page = (
        f"<p>You are signed in as <strong>{escape(user)}</strong>, who does not exist. No real mail is read here.</p>\n"
        f"<p>The hall at <strong>{escape(back.netloc)}</strong> wants to use:</p>\n<ul>{scopes}</ul>\n"
        '<form method="post" action="/authorize">\n'
        f'<input type="hidden" name="ticket" value="{escape(ticket)}">\n'
        '<button name="answer" value="allow">Allow</button>\n'
        '<button name="answer" value="deny">Deny</button>\n</form>\n'
    )
    # Browsers apply form-action also to the redirect that follows the form.
    return _html_page(200, page, f"'self' {back.scheme}://{back.netloc}")


def error_page(why: str) -> FakeResponse:
    """The page for a request without a valid redirect URI, which must not be redirected."""
    return _html_page(400, f"<p>{escape(why)}</p>\n", "'none'")


def _html_page(status: int, body: str, forms: str) -> FakeResponse:
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action {forms}; base-uri 'none'"
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", f"{policy}; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    )
    return FakeResponse(status, f"{_HEAD}{body}{_TAIL}".encode(), headers)


class _PendingConsent(NamedTuple):
    """A request that waits for the user's consent."""

    request: FakeAuthorizationRequest
    state: str


class FakeOAuthProvider:
    """A fake OAuth provider in which `user` is signed in.

    Redirects go to the hall at `public_url` only; without it, to any hall on this machine.
    """

    def __init__(
        self, issuer: str, user: str, scopes: tuple[str, ...], grants: FakeGrants, public_url: str | None
    ) -> None:
        self._issuer = issuer
        self._user = user
        self._scopes = scopes
        self._grants = grants
        self._registered = None if public_url is None else f"{public_url.rstrip('/')}{CALLBACK}"
        self._tickets: OrderedDict[str, _PendingConsent] = OrderedDict()
        self.routes: dict[tuple[str, str], Callable[[FakeRequest], FakeResponse]] = {
            ("GET", "/.well-known/oauth-authorization-server"): self._metadata,
            ("GET", "/authorize"): self._authorize,
            ("POST", "/authorize"): self._decide,
            ("POST", "/token"): self._token,
            ("POST", "/revoke"): self._revoke,
        }

    def _metadata(self, _: FakeRequest) -> FakeResponse:
        return json_response(
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

    def _authorize(self, request: FakeRequest) -> FakeResponse:
        query = request.query
        client_id, redirect_uri, state = (query.get(name, "") for name in ("client_id", "redirect_uri", "state"))
        if client_id != CLIENT_ID or not self._is_registered(redirect_uri):
            return error_page(f"This is no request of a hall that is known here: its client_id is {CLIENT_ID}.")
        wanted = FakeAuthorizationRequest(
            client_id, redirect_uri, query.get("scope", ""), query.get("code_challenge", "")
        )
        error = self._request_error(wanted, query)
        if error:
            return self._redirect_back(wanted, state, error=error)
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = _PendingConsent(wanted, state)
        if len(self._tickets) > _MAX_TICKETS:
            self._tickets.popitem(last=False)
        return consent_page(ticket, self._user, wanted.scope, redirect_uri)

    def _is_registered(self, redirect_uri: str) -> bool:
        """Whether it is the registered redirect URI; on this machine with any port (RFC 8252, 7.3)."""
        if self._registered is not None:
            return redirect_uri == self._registered
        return _LOCAL_CALLBACK.fullmatch(redirect_uri) is not None

    def _request_error(self, wanted: FakeAuthorizationRequest, query: dict[str, str]) -> str | None:
        """The error code for an invalid request (RFC 6749, 4.1.2.1)."""
        if query.get("response_type") != "code":
            return "unsupported_response_type"
        if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(wanted.challenge):
            return "invalid_request"
        return None if wanted.scope and set(wanted.scope.split()) <= set(self._scopes) else "invalid_scope"

    def _decide(self, request: FakeRequest) -> FakeResponse:
        """Take the user's decision; the ticket is known only to the page that was shown, and valid once."""
        pending = self._tickets.pop(request.form.get("ticket", ""), None)
        if pending is None:
            return error_page("This page is too old. Begin again where you came from.")
        if request.form.get("answer") != "allow":
            return self._redirect_back(pending.request, pending.state, error="access_denied")
        return self._redirect_back(pending.request, pending.state, code=self._grants.issue_code(pending.request))

    def _redirect_back(self, wanted: FakeAuthorizationRequest, state: str, **parameters: str) -> FakeResponse:
        query = urlencode(parameters | ({"state": state} if state else {}) | {"iss": self._issuer})
        headers = (("location", f"{wanted.redirect_uri}?{query}"), ("cache-control", "no-store"))
        return FakeResponse(303, headers=(*headers, ("referrer-policy", "no-referrer")))

    def _token(self, request: FakeRequest) -> FakeResponse:
        try:
            tokens = self._tokens(request.form)
        except InvalidGrant:
            return json_response({"error": "invalid_grant"}, 400)
        return json_response({"error": "unsupported_grant_type"}, 400) if tokens is None else json_response(tokens)

    def _tokens(self, form: dict[str, str]) -> Tokens | None:
        client_id = form.get("client_id", "")
        match form.get("grant_type"):
            case "authorization_code":
                rest = (form.get(name, "") for name in ("redirect_uri", "code_verifier"))
                return self._grants.exchange(form.get("code", ""), client_id, *rest)
            case "refresh_token":
                return self._grants.refresh(form.get("refresh_token", ""), client_id)
            case _:
                return None

    def _revoke(self, request: FakeRequest) -> FakeResponse:
        """Revoke a token; 200 for an unknown one, too (RFC 7009)."""
        self._grants.revoke(request.form.get("token", ""))
        return FakeResponse(200)
