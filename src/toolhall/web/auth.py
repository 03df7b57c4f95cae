"""Sign-in for pages: `PageAuth`, which finds the user of a request and signs people in, and the base `FormPage`.

Wrong keys are limited per address, also where all requests come from a proxy on this machine: a valid key signs in
whatever others tried from the same address.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from toolhall.auth.authenticator import AuthenticationFailed, RequestAuthenticator, client_address, resolve_caller
from toolhall.auth.credentials import FailureThrottle
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestRejected
from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.pipeline.admin import AdminExecutor, AdminOperation
from toolhall.web.html import Page
from toolhall.web.pages import SECURITY_HEADERS, ResponseHeaders, read_form, redirect_to_self, send_page
from toolhall.web.public_url import PublicUrl
from toolhall.web.sessions import BEARER_PREFIX, BrowserSession, BrowserSessions
from toolhall.web.views import CsrfTokens

WRONG_KEY = "this key is not valid here: unknown, expired or revoked"
TOO_MANY_SCOPES = "this token has more scopes than a browser can keep; use one with fewer, or an API key"
SESSION_DIALECT = "session"  # of a person's own actions in the audit log
SIGN_IN = AdminOperation("sign in", SESSION_DIALECT, {}, personal=True)
SIGN_OUT = AdminOperation("sign out", SESSION_DIALECT, {}, personal=True)
MAX_WRONG_KEYS = 10  # per address and minute


class PageUser(NamedTuple):
    """A browser's session and the person who is signed in, if any; a new session still needs its cookie."""

    session: BrowserSession
    caller: Caller | None
    is_new: bool


class PageAuth:
    """Finds the user of a page request and signs people in; having a link signs nobody in."""

    def __init__(self, sessions: BrowserSessions, authenticator: RequestAuthenticator, admin: AdminExecutor) -> None:
        self.sessions = sessions
        self._admin = admin
        self._authenticator = authenticator
        self._wrong_keys = FailureThrottle(sessions.clock, MAX_WRONG_KEYS)

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

    async def sign_in(self, request: HttpRequest, credential: str) -> BrowserSession | str:
        """Record the sign-in, and return a new session of the credential's caller; or an error message."""
        credential = credential.strip()
        caller = None if credential.startswith(BEARER_PREFIX) else await self._caller_of(request, credential)
        if caller is None or caller.local or caller.proof == "none":
            return self._wrong_key(request)
        is_key = caller.proof in ("key", "shared")
        session = self.sessions.new(key=credential) if is_key else self.sessions.new(caller=caller)
        if not self.sessions.fits_cookie(session):
            return TOO_MANY_SCOPES
        self._admin.record(SIGN_IN, caller)
        return session

    async def sign_out(self, user: PageUser) -> None:
        """End the session of a user, also for copies of its cookie, and record it."""
        session, caller = user.session, user.caller
        if not session.is_signed_in:
            return
        await self.sessions.ended.end(
            session.nonce, "" if caller is None else caller.id, session.ends, self.sessions.clock()
        )
        if caller is not None and not caller.local:  # its key is still valid
            self._admin.record(SIGN_OUT, caller)

    async def _caller_of(self, request: HttpRequest, credential: str) -> Caller | None:
        try:
            return await self._authenticate(request, credential)
        except AuthenticationFailed:
            return None

    def _wrong_key(self, request: HttpRequest) -> str:
        """Count a wrong key of this address, and return the message."""
        address = client_address(request.scope)
        wait = self._wrong_keys.retry_after(address)
        if wait is not None:
            return Limited(wait).message
        self._wrong_keys.record(address)
        return WRONG_KEY

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
        session = user.session if user.is_new else self._sessions.renewed(user.session)
        cookie = () if session is None else (self._sessions.set_cookie(session),)
        await send_page(request, self._public_url.prefix, status, page, *cookie, headers=headers)


def refused_sign_in_status(problem: str) -> int:
    """Return the HTTP status of a refused sign-in: 403, or 429 for an address that tried too many wrong keys."""
    return 403 if problem in (WRONG_KEY, TOO_MANY_SCOPES) else 429


class SignInPage(FormPage):
    """Base of pages for people who sign in: a form with one of `actions` needs a signed-in user."""

    actions: ClassVar[frozenset[str]]

    async def _handle(self, request: HttpRequest, user: PageUser, action: str, fields: dict[str, str]) -> None:
        if action == "sign_in":
            session = await self._page_auth.sign_in(request, fields.get("key", ""))
            if isinstance(session, str):
                await self._show(request, user, session, refused_sign_in_status(session))
            else:
                await redirect_to_self(request, self._public_url.prefix, self._sessions.set_cookie(session))
        elif action == "sign_out":
            await self._page_auth.sign_out(user)
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
