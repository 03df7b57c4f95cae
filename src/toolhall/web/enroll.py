"""`EnrollPage`, `/enroll/{token}`: where an invited person registers a passkey, once."""

from toolhall.http.request import HttpRequest
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.pipeline.admin import AdminExecutor, AdminOperation
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.factors import Factor
from toolhall.web import views
from toolhall.web.approve import PAGE_DIALECT, PageComponents
from toolhall.web.auth import FormPage, PageUser

ENROLL_PATH = "/enroll/"
_GONE = "This link was used already, or is too old. Ask for a new one."
_ACTION = "create"


class EnrollPage(FormPage):
    """Registers a passkey for the person of an invitation; the token in the link is the only credential."""

    stale_form = "this form is too old; try again"

    def __init__(self, components: PageComponents, admin: AdminExecutor) -> None:
        super().__init__(components.page_auth, components.public_url)
        self._factors: SecondFactors = components.factors
        self._passkeys = components.passkeys
        self._admin = admin

    async def get(self, request: HttpRequest) -> None:
        """Send the page with its one button."""
        await self._show(request, await self._page_auth.current_user(request))

    async def _handle(self, request: HttpRequest, user: PageUser, action: str, fields: dict[str, str]) -> None:  # noqa: ARG002 - the page has one form
        invitation = await self._invitation(request)
        if invitation is None:
            await self._send_gone(request, user)
            return
        try:
            factor = await self._add(invitation, fields.get("credential", ""), request)
        except (WrongFactor, Malformed) as error:
            await self._show(request, user, error.message, 403)
        except NotFound:
            await self._send_gone(request, user)
        else:
            await self._send(request, user, 200, views.enroll_done(factor.person))

    async def _add(self, invitation: Factor, credential: str, request: HttpRequest) -> Factor:
        async def apply() -> Factor:
            factor = await self._passkeys.register(invitation, credential, request.headers)
            if factor is None:
                raise NotFound(_GONE)
            return factor

        operation = AdminOperation(f"add passkey {invitation.person}", PAGE_DIALECT, {}, personal=True)
        inviter = Caller(invitation.by, person=invitation.person)
        return await self._admin(operation, inviter, apply)

    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        invitation = await self._invitation(request)
        if invitation is None:
            await self._send_gone(request, user)
            return
        try:
            options = self._passkeys.registration_options(invitation, request.headers)
        except Malformed as error:
            page = views.enroll_unavailable(invitation.person, error.message, problem)
        else:
            page = views.enroll_form(invitation.person, self._csrf_tokens(request, user)(_ACTION), options, problem)
        await self._send(request, user, status, page)

    async def _invitation(self, request: HttpRequest) -> Factor | None:
        return await self._factors.invitation(request.path.removeprefix(ENROLL_PATH))

    async def _send_gone(self, request: HttpRequest, user: PageUser) -> None:
        await self._send(request, user, 410, views.enroll_gone(_GONE))
