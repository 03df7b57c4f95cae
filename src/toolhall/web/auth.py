"""Sign-in for pages: sealed session cookies, CSRF tokens, `PageAuth`, which finds the user, and the base `FormPage`.

A session lasts 15 minutes. An API key in it is verified again with every request, so that revoking the key ends the
session.
"""

import base64
import hmac
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import msgspec

from toolhall.auth.authenticator import AuthenticationFailed, Headers, RequestAuthenticator, resolve_caller
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestRejected
from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.stores.crypto import SealedBox
from toolhall.web.html import Page
from toolhall.web.pages import SECURITY_HEADERS, ResponseHeaders, read_form, redirect_to_self, send_page
from toolhall.web.public_url import PublicUrl
from toolhall.web.views import CsrfTokens

SESSION_SECONDS = 900
WRONG_KEY = "this key is not valid here: unknown, expired or revoked"
_SEAL_CONTEXT = b"page session"
_COOKIE_NAME = "toolhall"


class PageSession(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed content of a browser's session cookie; `key` is verified again with every request."""

    nonce: str
    expires: float
    key: str | None = None
    caller: Caller | None = None  # of a token, which is too long for a cookie


class PageSessions:
    """Reads and writes session cookies, and derives CSRF tokens from them."""

    def __init__(self, seal: SealedBox, key: bytes, public_url: PublicUrl, clock: Callable[[], float]) -> None:
        self._seal = seal
        self._key = key
        self._public_url = public_url
        self._clock = clock
        self._decode = msgspec.json.Decoder(PageSession).decode

    def new(self, *, key: str | None = None, caller: Caller | None = None) -> PageSession:
        """Return a session with a new nonce, anonymous or signed in; signing in never continues an old session."""
        expires = self._clock() + SESSION_SECONDS
        if caller is not None and caller.expires_at is not None:
            expires = min(expires, caller.expires_at)
        plain = None if caller is None else msgspec.structs.replace(caller, credential=None)
        return PageSession(nonce=secrets.token_urlsafe(16), expires=expires, key=key, caller=plain)

    def read(self, headers: Headers) -> PageSession | None:
        """Return the session of a request; None unless exactly one cookie holds one that this hall sealed."""
        values = [value for name, value in parse_cookies(headers) if name == self._name]
        if len(values) != 1:  # two would leave open which one counts
            return None
        text = self._seal.open(values[0], _SEAL_CONTEXT)
        session = None if text is None else self._decode(text)
        return session if session is not None and session.expires > self._clock() else None

    def set_cookie(self, session: PageSession) -> tuple[bytes, bytes]:
        """Return the Set-Cookie header; scripts cannot read the cookie, and pages of other sites cannot send it."""
        sealed = self._seal.seal(msgspec.json.encode(session), _SEAL_CONTEXT)
        scope = self._public_url.cookie_scope
        cookie = f"{self._name}={sealed}; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict; {scope}"
        return b"set-cookie", cookie.encode()

    def csrf_token(self, session: PageSession, purpose: str) -> str:
        """Return the token that a form of this session must bring for this purpose."""
        digest = hmac.digest(self._key, msgspec.json.encode([session.nonce, purpose]), "sha256")
        return base64.urlsafe_b64encode(digest).decode()

    def check_csrf_token(self, session: PageSession, purpose: str, token: str) -> bool:
        """Whether the token is the one of this session and purpose."""
        return hmac.compare_digest(self.csrf_token(session, purpose).encode(), token.encode("utf-8", "surrogatepass"))

    @property
    def _name(self) -> str:
        return self._public_url.cookie_name(_COOKIE_NAME)


class PageUser(NamedTuple):
    """A browser's session and the person who is signed in, if any; a new session still needs its cookie."""

    session: PageSession
    caller: Caller | None
    is_new: bool


class PageAuth:
    """Finds the user of a page request and signs people in; having a link signs nobody in."""

    def __init__(self, sessions: PageSessions, authenticator: RequestAuthenticator) -> None:
        self.sessions = sessions
        self._authenticator = authenticator

    async def current_user(self, request: HttpRequest) -> PageUser:
        """Return who has signed in here, or else the local caller, if the profile has one."""
        session = self.sessions.read(request.headers)
        if session is None:
            return PageUser(self.sessions.new(), self._local_caller(request), is_new=True)
        caller = session.caller
        if session.key is not None:
            try:
                caller = await self._authenticate(request, session.key)
            except AuthenticationFailed:  # revoked since, or expired
                caller = None
        return PageUser(session, caller or self._local_caller(request), is_new=False)

    async def sign_in(self, request: HttpRequest, credential: str) -> PageSession | str:
        """Return a new session of the credential's caller, or an error message."""
        credential = credential.strip()
        try:
            caller = await self._authenticate(request, credential)
        except AuthenticationFailed as failure:
            return failure.error.message if isinstance(failure.error, Limited) else WRONG_KEY
        if caller.local or caller.proof == "none":
            return WRONG_KEY
        if caller.proof in ("key", "shared"):
            return self.sessions.new(key=credential)
        return self.sessions.new(caller=caller)

    async def _authenticate(self, request: HttpRequest, credential: str) -> Caller:
        headers = {b"authorization": b"Bearer " + credential.encode("utf-8", "replace")}
        return await resolve_caller(self._authenticator.authenticate(request.scope, headers))

    def _local_caller(self, request: HttpRequest) -> Caller | None:
        return request.caller if request.caller.local else None


class FormPage(ABC):
    """Base of pages with forms: CSRF tokens bound to session, action and path."""

    stale_form = "this form is too old, or of another page; read what is here now, and decide again"

    def __init__(self, page_auth: PageAuth, public_url: PublicUrl) -> None:
        self._page_auth = page_auth
        self._sessions = page_auth.sessions
        self._public_url = public_url

    async def post(self, request: HttpRequest) -> None:
        """Handle a form of the page; with a CSRF token that does not match, show the page again with 403."""
        fields = await read_form(request, self._public_url)
        user = await self._page_auth.current_user(request)
        action = fields.get("action", "")
        if user.is_new or not self._sessions.check_csrf_token(
            user.session, self._purpose(request, action), fields.get("word", "")
        ):
            await self._show(request, user, self.stale_form, 403)
        else:
            await self._handle(request, user, action, fields)

    @abstractmethod
    async def _handle(self, request: HttpRequest, user: PageUser, action: str, fields: dict[str, str]) -> None:
        """Do what a form with a valid CSRF token asks for."""

    @abstractmethod
    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        """Send the page as this user may see it."""

    def _purpose(self, request: HttpRequest, action: str) -> str:
        return f"{action} {request.path}"

    def _csrf_tokens(self, request: HttpRequest, user: PageUser) -> CsrfTokens:
        return lambda action: self._sessions.csrf_token(user.session, self._purpose(request, action))

    async def _send(
        self,
        request: HttpRequest,
        user: PageUser,
        status: int,
        page: Page,
        headers: ResponseHeaders = SECURITY_HEADERS,
    ) -> None:
        cookie = (self._sessions.set_cookie(user.session),) if user.is_new else ()
        await send_page(request, self._public_url.prefix, status, page, *cookie, headers=headers)


class SignInPage(FormPage):
    """Base of pages for people who sign in: a form with one of `actions` needs a signed-in user."""

    actions: ClassVar[frozenset[str]]

    async def _handle(self, request: HttpRequest, user: PageUser, action: str, fields: dict[str, str]) -> None:
        if action == "sign_in":
            session = await self._page_auth.sign_in(request, fields.get("key", ""))
            if isinstance(session, str):
                await self._show(request, user, session, 403)
            else:
                await redirect_to_self(request, self._public_url.prefix, self._sessions.set_cookie(session))
        elif action == "sign_out":
            await redirect_to_self(request, self._public_url.prefix, self._sessions.set_cookie(self._sessions.new()))
        elif action in self.actions and user.caller is not None:
            await self._handle_signed_in(request, user, user.caller, fields)
        else:
            raise RequestRejected(400, "there is no such form on this page")

    @abstractmethod
    async def _handle_signed_in(
        self, request: HttpRequest, user: PageUser, caller: Caller, fields: dict[str, str]
    ) -> None:
        """Do what a form with one of `actions` asks for."""


def parse_cookies(headers: Headers) -> list[tuple[str, str]]:
    """Return every cookie of a request in order; a name may appear twice."""
    cookies = headers.get(b"cookie", b"").decode("latin-1").replace(",", ";").split(";")
    pairs = [each.strip().partition("=") for each in cookies]
    return [(name, value) for name, _, value in pairs]
