"""`/sign-in` and `/sign-out`: a person types an API key once, and the browser has a session from then on.

Neither page needs JavaScript. Signing out takes a form of the page, or one of the console with the token of `/api/me`.
"""

from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestRejected
from toolhall.web import views
from toolhall.web.auth import FormPage, PageUser, refused_sign_in_status
from toolhall.web.pages import read_form, redirect
from toolhall.web.sessions import API_PURPOSE

SIGN_IN_PATH, SIGN_OUT_PATH = "/sign-in", "/sign-out"
_SIGN_OUT_ACTION = "sign_out"


class ConsoleSignInPage(FormPage):
    """Signs people in for the console, and out."""

    stale_form = "this form is too old; try again"
    has_oidc = False  # whether people can sign in with an identity provider, too

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes."""
        return {SIGN_IN_PATH: {"GET": self.get, "POST": self.post}, SIGN_OUT_PATH: {"POST": self.sign_out}}

    async def get(self, request: HttpRequest) -> None:
        """Send the form, or who is signed in."""
        await self._show(request, await self._page_auth.current_user(request))

    async def sign_out(self, request: HttpRequest) -> None:
        """End the session; RequestRejected (403) without a token of the session."""
        word = (await read_form(request, self._public_url)).get("word", "")
        session = self._sessions.read(request.headers)
        if session is not None and not any(
            self._sessions.check_csrf_token(session, purpose, word) for purpose in (API_PURPOSE, SIGN_OUT_PATH)
        ):
            raise RequestRejected(403, "this form is too old, or of another session; open /sign-in and sign out there")
        await self._page_auth.sign_out(await self._page_auth.current_user(request))
        await redirect(request, self._location(SIGN_IN_PATH), self._sessions.clear_cookie())

    async def _handle(self, request: HttpRequest, user: PageUser, action: str, fields: dict[str, str]) -> None:
        if action == _SIGN_OUT_ACTION:
            await self._page_auth.sign_out(user)
            await redirect(request, self._location(SIGN_IN_PATH), self._sessions.clear_cookie())
            return
        session = await self._page_auth.sign_in(request, fields.get("key", ""))
        if isinstance(session, str):
            await self._show(request, user, session, refused_sign_in_status(session))
        else:
            await redirect(request, self._location("/"), self._sessions.set_cookie(session))

    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        csrf_token = self._csrf_tokens(request, user)
        if user.caller is None:
            page = views.console_sign_in(csrf_token("sign_in"), problem, has_oidc=self.has_oidc)
        else:
            token = None if user.caller.local else csrf_token(_SIGN_OUT_ACTION)
            page = views.console_signed_in(user.caller.id, token, problem)
        await self._send(request, user, status, page)

    def _location(self, path: str) -> bytes:
        return f"{self._public_url.prefix}{path}".encode()
