"""`EnrollPage`, `/enroll/{word}`: where an invited person registers a passkey, once."""

from html import escape

from toolhall.http.request import HttpRequest
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.pipeline.admin import AdminExecutor, AdminOperation
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.factors import Factor
from toolhall.web.approve import PageComponents
from toolhall.web.auth import PageUser
from toolhall.web.html import alert, button, escape_text, form, paragraph, render_page
from toolhall.web.pages import read_form, send_page

ENROLL_PATH = "/enroll/"
_DIALECT = "page"
_GONE = "This link was used already, or is too old. Ask for a new one."
_STALE = "this form is too old; try again"


class EnrollPage:
    """The word in the link is the only authority here: whoever asked for it may add a passkey for this person."""

    def __init__(self, parts: PageComponents, admin: AdminExecutor) -> None:
        self._factors: SecondFactors = parts.factors
        self._passkeys = parts.passkeys
        self._page_auth = parts.page_auth
        self._sessions = parts.page_auth.sessions
        self._public_url = parts.public_url
        self._admin = admin

    async def get(self, request: HttpRequest) -> None:
        """The page with its one button."""
        await self._show(request, await self._page_auth.current_user(request))

    async def post(self, request: HttpRequest) -> None:
        """The passkey that the browser made."""
        fields = await read_form(request, self._public_url)
        visitor = await self._page_auth.current_user(request)
        if visitor.is_new or not self._sessions.check_csrf_token(visitor.session, request.path, fields.get("word", "")):
            await self._show(request, visitor, _STALE, 403)
            return
        invitation = await self._invitation(request)
        if invitation is None:
            await self._send_gone(request, visitor)
            return
        try:
            factor = await self._add(invitation, fields.get("credential", ""), request)
        except (WrongFactor, Malformed) as wrong:
            await self._show(request, visitor, wrong.message, 403)
        except NotFound:
            await self._send_gone(request, visitor)
        else:
            done = paragraph(
                escape_text(f"From now on {factor.person} can approve calls with it. You can close this page."),
                kind="lead",
            )
            await self._send(request, visitor, 200, render_page("The passkey is added", done))

    async def _add(self, invitation: Factor, answer: str, request: HttpRequest) -> Factor:
        async def apply() -> Factor:
            added = await self._passkeys.register(invitation, answer, request.headers)
            if added is None:
                raise NotFound(_GONE)
            return added

        change = AdminOperation(f"add passkey {invitation.person}", _DIALECT, {}, personal=True)
        by = Caller(invitation.by, person=invitation.person)
        return await self._admin(change, by, apply)

    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        invitation = await self._invitation(request)
        if invitation is None:
            await self._send_gone(request, user)
            return
        says = paragraph(
            "A passkey proves that you are there when a program asks for your approval. It stays in this device, or"
            " in your password store. Add one for <strong>",
            escape_text(invitation.person),
            "</strong>.",
            kind="lead",
        )
        try:
            parts = self._form(request, user, invitation)
        except Malformed as unable:
            parts = alert(unable.message)
        page = render_page("Add a passkey", alert(problem) if problem else "", says, parts)
        await self._send(request, user, status, page)

    def _form(self, request: HttpRequest, user: PageUser, invitation: Factor) -> str:
        options = self._passkeys.registration_options(invitation, request.headers)
        word = self._sessions.csrf_token(user.session, request.path)
        hidden = '<input type="hidden" name="credential" value="">'
        attributes = f' class="passkey" hidden data-create="{escape(options)}"'
        made = form(word, "create", hidden, button("Add a passkey"), attributes=attributes)
        trouble = '<p class="alert" id="trouble" role="alert" hidden></p>\n'
        return f"{made}{trouble}<noscript><p>A passkey needs JavaScript. Allow it for this page.</p></noscript>\n"

    async def _invitation(self, request: HttpRequest) -> Factor | None:
        return await self._factors.invitation(request.path.removeprefix(ENROLL_PATH))

    async def _send_gone(self, request: HttpRequest, user: PageUser) -> None:
        await self._send(request, user, 410, render_page("This link leads nowhere any more", paragraph(_GONE)))

    async def _send(self, request: HttpRequest, user: PageUser, status: int, page: bytes) -> None:
        cookie = (self._sessions.set_cookie(user.session),) if user.is_new else ()
        await send_page(request, self._public_url.prefix, status, page, *cookie)
