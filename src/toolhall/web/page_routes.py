"""Routes of the pages: `ApprovalPages` for approvals and enrolment, `account_link_routes` for account linking."""

from collections.abc import Callable

from toolhall.auth.authenticator import RequestAuthenticator
from toolhall.http.api.approvals import ApprovalsApi
from toolhall.http.api.base import ManagementContext
from toolhall.http.api.factors import FactorsApi
from toolhall.http.request import Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.oauth.authorization_code import CALLBACK_PATH
from toolhall.oauth.broker import Broker
from toolhall.oauth.link import LINK_PATH
from toolhall.pipeline.admin import AdminExecutor
from toolhall.pipeline.approvals import APPROVE_PATH as APPROVE
from toolhall.pipeline.approvals import ApprovalDecisions, ApprovalService
from toolhall.pipeline.second_factors import SecondFactors
from toolhall.stores.crypto import SealedBox, derive_key
from toolhall.web.approve import ApprovePage, PageComponents
from toolhall.web.auth import PageAuth, PageSessions
from toolhall.web.connect import AccountLinkFlow, CallbackPage, ConnectPage, LinkCookies
from toolhall.web.enroll import ENROLL_PATH as ENROLL
from toolhall.web.enroll import EnrollPage
from toolhall.web.passkeys import Passkeys
from toolhall.web.public_url import PublicUrl

PAGES_KEY_PURPOSE, SESSIONS_KEY_PURPOSE = "toolhall pages", "toolhall page sessions"  # HKDF purposes never change


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
        self.sessions = PageSessions(sealed_box, self._key, public_url, clock)

    def endpoints(
        self, context: ManagementContext, validator: RequestValidator, authenticator: RequestAuthenticator
    ) -> dict[str, Methods]:
        """Return the pages' routes, and those of the management API that the command line uses instead."""
        decisions = ApprovalDecisions(self._approvals, context.dispatcher.admin)
        passkeys = Passkeys(self._factors, self._public_url, self._key, self._name)
        components = PageComponents(
            decisions, self._factors, passkeys, PageAuth(self.sessions, authenticator), self._public_url
        )
        approve, enroll = ApprovePage(components), EnrollPage(components, context.dispatcher.admin)
        return {
            APPROVE: {"GET": approve.get, "POST": approve.post},
            ENROLL: {"GET": enroll.get, "POST": enroll.post},
            **ApprovalsApi(decisions, self._factors, validator).endpoints(),
            **FactorsApi(context, self._factors, validator, self._name, self._enroll_url).endpoints(),
        }

    def _enroll_url(self, invitation: str) -> str:
        return f"{self._public_url.url}{ENROLL}{invitation}"


def account_link_routes(
    broker: Broker, admin: AdminExecutor, page_auth: PageAuth, public_url: PublicUrl, clock: Callable[[], float]
) -> dict[str, Methods]:
    """Return the routes of links and of provider redirects: one path for all providers, or one below it for each."""
    flow, cookies = AccountLinkFlow(broker, admin), LinkCookies(public_url)
    connect, callback = ConnectPage(flow, page_auth, public_url, clock), CallbackPage(flow, cookies, public_url)
    callback_methods: Methods = {"GET": callback.get}
    return {
        LINK_PATH: {"GET": connect.get, "POST": connect.post},
        CALLBACK_PATH: callback_methods,
        f"{CALLBACK_PATH}/": callback_methods,
    }
