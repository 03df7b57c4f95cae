"""`SessionAuthenticator`: authenticates requests by session cookies and session bearers, before credentials.

A cookie proves its caller below `/api/` and at `/health` only, for requests that the browser says a page of this hall
made; a change must bring the session's token, too. Dialect endpoints take no cookie: a page that calls tools there
sends the short-lived bearer of its session. Requests with neither go to the profile's own authenticator.
"""

from collections.abc import Callable
from functools import partial

from toolhall.auth.authenticator import (
    AuthenticationFailed,
    AuthResult,
    Headers,
    RequestAuthenticator,
    Scope,
    invalid_credential,
)
from toolhall.auth.credentials import AUTHORIZATION_HEADER
from toolhall.http.request import Endpoint, HttpRequest, Methods
from toolhall.http.request_guard import RequestRejected
from toolhall.model.caller import Caller
from toolhall.model.errors import Unauthenticated
from toolhall.web.sessions import API_PURPOSE, BEARER_PREFIX, BrowserSession, BrowserSessions

COOKIE_HEADER = b"cookie"
TOKEN_HEADER = b"x-toolhall-token"
NO_STORE = (b"cache-control", b"no-store")
API_PREFIX = "/api/"
HEALTH_PATH = "/health"
ME_PATH = "/api/me"
SAFE_METHODS = ("GET", "HEAD")
SESSION_ENDED = "this session has ended; sign in again"
_BEARER_SCHEME = f"bearer {BEARER_PREFIX}".encode()


class SessionAuthenticator:
    """Authenticates by the cookie or bearer of a browser session, else as the profile does."""

    def __init__(self, inner: RequestAuthenticator, sessions: BrowserSessions) -> None:
        self._inner = inner
        self._sessions = sessions

    def authenticate(self, scope: Scope, headers: Headers) -> AuthResult:
        """Return the caller; RequestRejected for a cookie that does not prove enough, or with a credential beside."""
        if COOKIE_HEADER in headers and self._sessions.has_cookie(headers):
            if AUTHORIZATION_HEADER in headers:
                raise RequestRejected(400, "the request has a session cookie and a credential; send one of them")
            caller = self._caller_by_cookie(scope, headers)
            if caller is not None:
                return caller
        if _has_session_bearer(headers):
            return self._caller_by_bearer(scope, headers)
        return self._inner.authenticate(scope, headers)

    def local_caller(self, scope: Scope, headers: Headers) -> Caller | None:
        """Return the caller if the connection alone proves it; a session of the request counts first."""
        if COOKIE_HEADER in headers or _has_session_bearer(headers):
            return None
        return self._inner.local_caller(scope, headers)

    def prepare(self, scope: Scope, headers: Headers) -> Callable[[], AuthResult]:
        """Return a function that authenticates requests with this head."""
        if COOKIE_HEADER in headers or _has_session_bearer(headers):
            return partial(self.authenticate, scope, headers)
        return self._inner.prepare(scope, headers)

    def _caller_by_cookie(self, scope: Scope, headers: Headers) -> AuthResult | None:
        """Return the session's caller where cookies count; None for the profile's own proof, if it has one."""
        path = scope["path"]
        if not path.startswith(API_PREFIX) and path != HEALTH_PATH:
            return None
        session = self._sessions.read(headers)
        local = self._inner.local_caller(scope, headers)
        if session is None or not session.is_signed_in:
            if local is None and session is None and path != HEALTH_PATH:
                raise AuthenticationFailed(Unauthenticated(SESSION_ENDED))
            return None
        try:
            caller = self._caller(session.key, session.caller, scope)
        except AuthenticationFailed:  # revoked, or expired
            if local is None and path != HEALTH_PATH:
                raise AuthenticationFailed(Unauthenticated(SESSION_ENDED)) from None
            return None
        if not self._is_same_origin(headers):
            if path == HEALTH_PATH:  # which answers everybody, and the session's caller more
                return None
            raise RequestRejected(
                403, "a session cookie counts only in requests of this hall's own pages; send an API key instead"
            )
        if scope["method"] not in SAFE_METHODS:
            self._check_token(session, headers)
        return caller

    def _caller_by_bearer(self, scope: Scope, headers: Headers) -> AuthResult:
        """Return the caller of a session bearer; the management API takes the cookie instead."""
        text = headers[AUTHORIZATION_HEADER].partition(b" ")[2].strip().decode("latin-1")
        bearer = None if scope["path"].startswith(API_PREFIX) else self._sessions.read_bearer(text)
        if bearer is None:
            raise invalid_credential()
        return self._caller(bearer.key, bearer.caller, scope)

    def _caller(self, key: str | None, caller: Caller | None, scope: Scope) -> AuthResult:
        """Return the caller of a session; a key is verified again, so that revoking it ends the session."""
        if key is not None:
            return self._inner.authenticate(scope, {AUTHORIZATION_HEADER: b"Bearer " + key.encode()})
        if caller is None:
            raise invalid_credential()
        return caller

    def _is_same_origin(self, headers: Headers) -> bool:
        """Whether a page of this hall made the request: by Sec-Fetch-Site, or by Origin where that is missing."""
        site = headers.get(b"sec-fetch-site")
        if site is not None:
            return site == b"same-origin"
        return headers.get(b"origin") == self._sessions.public_url.origin(headers).encode("latin-1")

    def _check_token(self, session: BrowserSession, headers: Headers) -> None:
        token = headers.get(TOKEN_HEADER, b"").decode("latin-1")
        if not self._sessions.check_csrf_token(session, API_PURPOSE, token):
            raise RequestRejected(403, f"a change needs the header X-Toolhall-Token with the token of {ME_PATH}")


class SessionRenewal:
    """Renews the session of every request that is answered below `/api/`; no cache keeps what a cookie was answered."""

    def __init__(self, sessions: BrowserSessions) -> None:
        self._sessions = sessions

    def wrap(self, routes: dict[str, Methods]) -> dict[str, Methods]:
        """Return the routes, those of the management API with sessions that are renewed."""
        return {
            path: {method: self._renewing(endpoint) for method, endpoint in methods.items()}
            if path.startswith(API_PREFIX)
            else methods
            for path, methods in routes.items()
        }

    def _renewing(self, endpoint: Endpoint) -> Endpoint:
        async def serve(request: HttpRequest) -> None:
            if COOKIE_HEADER in request.headers:  # caches know that an answer to a credential is not for others
                request.extra_headers = (NO_STORE, *self._renewed_cookie(request))
            await endpoint(request)

        return serve

    def _renewed_cookie(self, request: HttpRequest) -> tuple[tuple[bytes, bytes], ...]:
        session = self._sessions.read(request.headers)
        renewed = None if session is None or not session.is_signed_in else self._sessions.renewed(session)
        return () if renewed is None else (self._sessions.set_cookie(renewed),)


def _has_session_bearer(headers: Headers) -> bool:
    header = headers.get(AUTHORIZATION_HEADER)
    return header is not None and header[: len(_BEARER_SCHEME)].lower() == _BEARER_SCHEME
