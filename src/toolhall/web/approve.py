"""The pages of approvals (`ApprovePage`) and of enrolment (`EnrollPage`), and their routes (`ApprovalPages`).

`/approve/{id}` shows the exact call to a person, who approves or denies it. At `/enroll/{token}` an invited person
registers a passkey, once.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from toolhall.auth.authenticator import RequestAuthenticator
from toolhall.http.api.approvals import ApprovalsApi
from toolhall.http.api.base import ManagementContext
from toolhall.http.api.factors import FactorsApi
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Limited, Malformed, NotFound, ToolhallError
from toolhall.pipeline.admin import AdminExecutor, AdminOperation
from toolhall.pipeline.approvals import (
    APPROVE_PATH,
    ApprovalDecisions,
    ApprovalService,
    TooLate,
    can_approve,
    passkey_purpose,
    person_of,
)
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.approvals import Approval, ApprovalMethod
from toolhall.stores.common import StoreFailed
from toolhall.stores.crypto import SealedBox, derive_key
from toolhall.stores.factors import Factor
from toolhall.web import views
from toolhall.web.auth import FormPage, PageAuth, PageUser, SignInPage
from toolhall.web.pages import STATUS_SUFFIX, redirect, redirect_to_self, send_status
from toolhall.web.passkeys import Passkeys
from toolhall.web.public_url import PublicUrl
from toolhall.web.sessions import BrowserSessions

PAGE_DIALECT = "page"  # of decisions in the audit log
_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_CLOSED_STATUSES = {"consumed": 410, "expired": 410}
ENROLL_PATH = "/enroll/"
_GONE = "This link was used already, or is too old. Ask for a new one."
_ENROLL_ACTION = "create"
PAGES_KEY_PURPOSE, SESSIONS_KEY_PURPOSE = "toolhall pages", "toolhall page sessions"  # HKDF purposes never change


class PageComponents(NamedTuple):
    """The components that the pages of approvals and invitations share."""

    decisions: ApprovalDecisions
    factors: SecondFactors
    passkeys: Passkeys
    page_auth: PageAuth
    public_url: PublicUrl
    invite: "PasskeyInviter"


class PasskeyInviter:
    """Makes the link by which a person who manages the hall, and has no factor yet, adds a passkey."""

    def __init__(self, factors: SecondFactors, admin: AdminExecutor, public_url: PublicUrl) -> None:
        self._factors = factors
        self._admin = admin
        self._public_url = public_url

    def is_allowed(self, caller: Caller) -> bool:
        """Whether the caller may make such a link at all; who has a factor proves it at `/api/factors`."""
        return self._admin.is_allowed(caller)

    async def __call__(self, caller: Caller) -> str:
        """Return the link; Denied unless the caller manages the hall and has no factor."""
        person = person_of(caller)

        async def apply() -> str:
            if await self._factors.factors_of(person):
                raise Denied(f"{person} has a factor already; to add another one takes a code of it")
            token, _ = await self._factors.invite(person, caller.id)
            return token

        token = await self._admin(AdminOperation(f"add passkey {person}", PAGE_DIALECT, {}), caller, apply)
        return f"{self._public_url.prefix}{ENROLL_PATH}{token}"


class ApprovePage(SignInPage):
    """Shows one approval to the people it concerns, and takes their decision by a form."""

    actions = frozenset({"approve", "passkey", "deny", "invite"})

    def __init__(self, components: PageComponents) -> None:
        super().__init__(components.page_auth, components.public_url)
        self._decisions = components.decisions
        self._factors = components.factors
        self._passkeys = components.passkeys
        self._invite = components.invite

    async def get(self, request: HttpRequest) -> None:
        """Send the page, or its status for a waiting program."""
        name = request.path.removeprefix(APPROVE_PATH)
        if name.endswith(STATUS_SUFFIX):
            await send_status(request, await self._decisions.approvals.store.find(name.removesuffix(STATUS_SUFFIX)))
            return
        await self._show(request, await self._page_auth.current_user(request))

    async def _handle_signed_in(
        self, request: HttpRequest, user: PageUser, caller: Caller, fields: dict[str, str]
    ) -> None:
        approval_id = _approval_id(request)
        method: ApprovalMethod = "passkey" if fields["action"] == "passkey" else "totp"

        async def prove(person: str, approval: Approval) -> None:
            if method == "passkey":
                credential = fields.get("credential", "")
                await self._passkeys.verify(person, passkey_purpose(approval), credential, request.headers)
            else:
                await self._factors.check_code(person, fields.get("code", ""))

        try:
            if fields["action"] == "invite":
                await redirect(request, (await self._invite(caller)).encode())
                return
            if fields["action"] == "deny":
                await self._decisions.deny(approval_id, caller, PAGE_DIALECT)
            else:
                await self._decisions.approve(approval_id, caller, PAGE_DIALECT, method, prove)
        except (WrongFactor, Limited) as error:
            await self._show(request, user, error.message, 429 if isinstance(error, Limited) else 403)
        except TooLate:
            await self._show(request, user, status=410)
        except Malformed as error:
            await self._show(request, user, error.message, 409)
        except StoreFailed as error:
            await self._show(request, user, f"nothing was decided: {error}", 503)
        except (Denied, NotFound) as error:
            await self._send(request, user, _error_status(error), views.approval_refused(error.message))
        else:
            await redirect_to_self(request, self._public_url.prefix)

    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        """Send the page as this user may see it; without signing in, not even whether the approval exists."""
        csrf_token = self._csrf_tokens(request, user)
        if user.caller is None:
            await self._send(request, user, status, views.approval_sign_in(csrf_token("sign_in"), problem))
            return
        try:
            approval = await self._decisions.get_visible(_approval_id(request), user.caller)
        except (Denied, NotFound) as error:
            token = csrf_token("sign_in") if isinstance(error, Denied) else None
            page = views.approval_refused(error.message, token, problem, person_of(user.caller))
            await self._send(request, user, _error_status(error), page)
            return
        if approval.state != "pending":
            status = max(status, _CLOSED_STATUSES.get(approval.state, 200))
            await self._send(request, user, status, views.approval_closed(approval))
            return
        page = views.approval_form(await self._view(request, user.caller, approval), csrf_token, problem)
        await self._send(request, user, status, page)

    async def _view(self, request: HttpRequest, caller: Caller, approval: Approval) -> views.ApprovalView:
        person = person_of(caller)
        allowed = can_approve(caller, approval)
        factors = await self._factors.factors_of(person) if allowed else ()
        has_passkey = any(each.kind == "passkey" for each in factors)
        options = (
            await self._passkeys.authentication_options(person, passkey_purpose(approval), request.headers)
            if has_passkey
            else None
        )
        return views.ApprovalView(
            approval=approval,
            before=await self._decisions.last_approved_for(caller, approval),
            now=self._factors.clock(),
            person=person,
            allowed=allowed,
            kinds=frozenset(each.kind for each in factors),
            passkey=options,
            signed_in=not caller.local,
            may_invite=self._invite.is_allowed(caller),
        )


def _approval_id(request: HttpRequest) -> str:
    match = _ID.fullmatch(request.path.removeprefix(APPROVE_PATH))
    return match[0] if match else ""


def _error_status(error: ToolhallError) -> int:
    return 404 if isinstance(error, NotFound) else 403


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
            csrf_token = self._csrf_tokens(request, user)(_ENROLL_ACTION)
            page = views.enroll_form(invitation.person, csrf_token, options, problem)
        await self._send(request, user, status, page)

    async def _invitation(self, request: HttpRequest) -> Factor | None:
        return await self._factors.invitation(request.path.removeprefix(ENROLL_PATH))

    async def _send_gone(self, request: HttpRequest, user: PageUser) -> None:
        await self._send(request, user, 410, views.enroll_gone(_GONE))


class ApprovalPages:
    """The pages on which people approve calls and enrol second factors, and the API for the same."""

    def __init__(
        self,
        name: str,
        public_url: PublicUrl,
        root_key: bytes,
        approvals: ApprovalService,
        factors: SecondFactors,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._public_url = public_url
        self._approvals = approvals
        self._factors = factors
        self._key = derive_key(root_key, PAGES_KEY_PURPOSE)
        sealed_box = SealedBox(derive_key(root_key, SESSIONS_KEY_PURPOSE))
        self.sessions = BrowserSessions(sealed_box, self._key, public_url, clock)
        self.passkeys = Passkeys(factors, public_url, self._key, name)

    def endpoints(
        self, context: ManagementContext, validator: RequestValidator, authenticator: RequestAuthenticator
    ) -> dict[str, Methods]:
        """Return the pages' routes, and those of the management API that the command line uses instead."""
        decisions = ApprovalDecisions(self._approvals, context.dispatcher.admin)
        components = PageComponents(
            decisions,
            self._factors,
            self.passkeys,
            PageAuth(self.sessions, authenticator, context.dispatcher.admin),
            self._public_url,
            PasskeyInviter(self._factors, context.dispatcher.admin, self._public_url),
        )
        approvals_api = ApprovalsApi(decisions, self._factors, self.passkeys, validator)
        context.describe_approval = approvals_api.describe
        context.needs["approvals"] = approvals_api.needs
        approve, enroll = ApprovePage(components), EnrollPage(components, context.dispatcher.admin)
        return {
            APPROVE_PATH: {"GET": approve.get, "POST": approve.post},
            ENROLL_PATH: {"GET": enroll.get, "POST": enroll.post},
            **approvals_api.endpoints(),
            **FactorsApi(context, self._factors, validator, self._name, self._enroll_url).endpoints(),
        }

    def _enroll_url(self, invitation: str) -> str:
        return f"{self._public_url.url}{ENROLL_PATH}{invitation}"
