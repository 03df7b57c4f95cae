"""`OidcSignIn`: sign-in with an identity provider, by OpenID Connect's code flow with PKCE, state and nonce.

The attempt is in a sealed cookie of its own, which survives the provider's redirect (SameSite=Lax), lasts ten minutes,
is removed by the first answer, and makes one session at most, also from a copy. The caller is `ISSUER:SUBJECT`, as with
a token of the same issuer. Strangers may begin and come back so often only: each makes the hall ask the provider.
"""

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import urlencode

import msgspec

from toolhall.auth.authenticator import AuthenticationFailed, TokenIssuer, client_address
from toolhall.auth.credentials import FailureThrottle
from toolhall.auth.jwt import (
    PUBLIC_ALGORITHMS,
    UnverifiedToken,
    caller_from_claims,
    has_audience,
    is_signed_by,
    parse_token,
    read_lifetime,
)
from toolhall.auth.key_sets import FetchJson, IssuerKeySet
from toolhall.http.request import HttpRequest, Methods
from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.model.secret import Secret
from toolhall.oauth.authorization_code import PendingAuthorization, authorize_url, check_callback, parse_query
from toolhall.oauth.client import HttpFetcher, OAuthClient, code_form
from toolhall.oauth.discovery import ProviderDiscovery
from toolhall.oauth.providers import (
    LinkFailed,
    Provider,
    ProviderRefused,
    ProviderSettings,
    ProviderUnreachable,
    build_provider,
)
from toolhall.pipeline.admin import AdminExecutor
from toolhall.stores.approvals import TooManyStates
from toolhall.stores.common import StoreFailed
from toolhall.web import views
from toolhall.web.auth import SIGN_IN, TOO_MANY_SCOPES
from toolhall.web.pages import redirect, send_page
from toolhall.web.sessions import LONGEST_SECONDS, BrowserSession, BrowserSessions
from toolhall.web.sign_in import SIGN_IN_PATH

OIDC_PATH, OIDC_CALLBACK_PATH = f"{SIGN_IN_PATH}/oidc", f"{SIGN_IN_PATH}/callback"
ATTEMPT_SECONDS = 600
MAX_STEPS = 60  # of the sign-ins of one network in a minute; each has two
_COOKIE = "toolhall-oidc"
_CONTEXT = "oidc attempt"
_SCOPES = ("openid", "profile", "email")
_FAILED = "the sign-in did not succeed; open /sign-in and begin again"
_NOT_STORED = "the sign-in cannot be used up now; try again later, or use a key"
_UNREACHABLE = "the identity provider cannot be reached now; try again later, or use a key"


class SignInAttempt(msgspec.Struct, frozen=True):
    """A sign-in that was begun: what the provider's answer is checked against."""

    state: str
    verifier: str
    nonce: str
    redirect_uri: str
    expires: float


class _SignInRefused(Exception):
    """Nobody is signed in; the page has this status and says this."""

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        self.problem = problem
        super().__init__(problem)


class OidcSignIn:
    """Leads people to the identity provider, and makes a session of its answer."""

    def __init__(
        self,
        issuer: TokenIssuer,
        client: ProviderSettings,
        sessions: BrowserSessions,
        egress: HttpFetcher,
        fetch: FetchJson,
        admin: AdminExecutor,
    ) -> None:
        self._admin = admin
        self._issuer = issuer
        self._provider: Provider = build_provider(issuer.name, client)
        self._sessions = sessions
        self._client = OAuthClient(egress)
        self._discovery = ProviderDiscovery(self._client, sessions.clock)
        self._keys = IssuerKeySet(issuer, fetch, sessions.clock)
        self._steps = FailureThrottle(sessions.clock, MAX_STEPS)

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of the sessions."""
        return self._sessions.clock

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes."""
        return {OIDC_PATH: {"GET": self.begin}, OIDC_CALLBACK_PATH: {"GET": self.finish}}

    async def begin(self, request: HttpRequest) -> None:
        """Send the browser to the provider."""
        try:
            self._count_step(request)
            endpoints = await self._discovery.endpoints(self._provider)
        except _SignInRefused as refused:
            await self._refuse(request, refused.status, refused.problem)
            return
        except ProviderUnreachable:
            await self._refuse(request, 503, _UNREACHABLE)
            return
        attempt = SignInAttempt(
            state=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            nonce=secrets.token_urlsafe(32),
            redirect_uri=f"{self._sessions.public_url.url}{OIDC_CALLBACK_PATH}",
            expires=self.clock() + ATTEMPT_SECONDS,
        )
        url = authorize_url(self._provider, endpoints, self._pending(attempt))
        cookie = self._sessions.cookie(_COOKIE, self._sessions.seal(attempt, _CONTEXT), ATTEMPT_SECONDS)
        await redirect(request, f"{url}&{urlencode({'nonce': attempt.nonce})}".encode(), cookie)

    async def finish(self, request: HttpRequest) -> None:
        """Make a session of the provider's answer, if it belongs to an attempt of this browser."""
        try:
            session = await self._new_session(request)
        except _SignInRefused as refused:
            await self._refuse(request, refused.status, refused.problem)
            return
        cookie, location = self._sessions.set_cookie(session), f"{self._sessions.public_url.prefix}/".encode()
        await redirect(request, location, cookie, self._sessions.cookie(_COOKIE, "", 0))

    def _count_step(self, request: HttpRequest) -> None:
        """Count a step of a sign-in, of whoever is at this address; raises _SignInRefused after too many."""
        address = client_address(request.scope)
        wait = self._steps.retry_after(address)
        if wait is not None:
            raise _SignInRefused(429, Limited(wait).message)
        self._steps.record(address)

    async def _new_session(self, request: HttpRequest) -> BrowserSession:
        self._count_step(request)
        sealed = self._sessions.read_cookie(request.headers, _COOKIE)
        attempt = None if sealed is None else self._sessions.unseal(sealed, _CONTEXT, SignInAttempt)
        if attempt is None or attempt.expires <= self.clock():
            raise _SignInRefused(400, _FAILED)
        try:
            caller = await self._exchange(attempt, parse_query(request.query.decode("latin-1")))
        except LinkFailed as failed:
            raise _SignInRefused(400, failed.message if failed.args else _FAILED) from None
        except (ProviderUnreachable, AuthenticationFailed):
            raise _SignInRefused(503, _UNREACHABLE) from None
        if caller is None:
            raise _SignInRefused(403, _FAILED)
        session = self._sessions.new(caller=caller)
        if not self._sessions.fits_cookie(session):
            raise _SignInRefused(403, TOO_MANY_SCOPES)
        await self._use_up(attempt, caller)
        self._admin.record(SIGN_IN, caller)
        return session

    async def _use_up(self, attempt: SignInAttempt, caller: Caller) -> None:
        """Let the attempt make no further session, also from a copy of its cookie."""
        try:
            is_first = await self._sessions.ended.finish_sign_in(
                attempt.state, caller.id, attempt.expires, self.clock()
            )
        except (StoreFailed, TooManyStates):
            raise _SignInRefused(503, _NOT_STORED) from None
        if not is_first:
            raise _SignInRefused(400, _FAILED)

    async def _exchange(self, attempt: SignInAttempt, query: dict[str, str]) -> Caller | None:
        pending = self._pending(attempt)
        endpoints = await self._discovery.endpoints(self._provider)
        code = check_callback(pending, self._provider, endpoints, query)
        try:
            answer = await self._client.post_form(
                self._provider, endpoints, endpoints.token_url, code_form(pending, code)
            )
        except ProviderRefused:
            return None
        text = answer.get("id_token")
        token = parse_token(text, PUBLIC_ALGORITHMS) if isinstance(text, str) else None
        return None if token is None else await self._caller(token, attempt.nonce)

    async def _caller(self, token: UnverifiedToken, nonce: str) -> Caller | None:
        """Return the caller of an ID token; None unless the provider made it now, for this hall and this attempt."""
        claims, lifetime, client_id = token.claims, read_lifetime(token.claims, self.clock()), self._provider.client_id
        stated = claims.get("nonce")
        if lifetime is None or claims.get("iss") != self._issuer.issuer or not has_audience(claims, (client_id,)):
            return None
        if claims.get("azp", client_id) != client_id or not isinstance(stated, str):
            return None
        if not hmac.compare_digest(stated.encode(errors="surrogatepass"), nonce.encode()):
            return None
        key = self._keys.cached_key(token.key_id, token.algorithm) or await self._keys.fetch_key(
            token.key_id, token.algorithm
        )
        if key is None or not is_signed_by(token.text, key):
            return None
        caller = caller_from_claims(self._issuer.name, claims, lifetime)
        if caller is None:
            return None
        # The session is the credential from now on: it lasts longer than the ID token, and it ends.
        return msgspec.structs.replace(caller, expires_at=self.clock() + LONGEST_SECONDS, short_lived=False)

    def _pending(self, attempt: SignInAttempt) -> PendingAuthorization:
        return PendingAuthorization(
            state=Secret(attempt.state),
            verifier=Secret(attempt.verifier),
            redirect_uri=attempt.redirect_uri,
            issuer=self._provider.identity,
            scopes=_SCOPES,
            resource=None,
        )

    async def _refuse(self, request: HttpRequest, status: int, problem: str) -> None:
        prefix = self._sessions.public_url.prefix
        await send_page(request, prefix, status, views.sign_in_failed(problem), self._sessions.cookie(_COOKIE, "", 0))
