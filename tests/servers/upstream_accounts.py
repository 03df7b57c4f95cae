"""Accounts at one upstream, `notes`: the broker, what it sends, and calls as the runner gets them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from tests.servers.account_broker import ALICE, BrokerHarness, broker_harness, egress_client_for
from tests.servers.protected_upstream import ProtectedUpstream
from toolhall.egress.client import EgressClient
from toolhall.model.caller import Caller
from toolhall.model.messages import NULL_LINK, Call
from toolhall.model.requirements import AccountRequirement, ResolvedCredentials
from toolhall.model.upstream import Upstream, UpstreamAuth, UpstreamSettings
from toolhall.oauth.client import OAuthClient
from toolhall.oauth.providers import ProviderSettings
from toolhall.oauth.upstream_accounts import HallTokens, UpstreamAccounts, account_name

NAME = "notes"
ACCOUNT = account_name(NAME)


class AccountsHarness(msgspec.Struct):
    """The accounts of one upstream, and the broker below."""

    accounts: UpstreamAccounts
    hall: BrokerHarness
    upstream: Upstream
    egress: EgressClient

    async def call(self, caller: Caller = ALICE, call_id: str = "c1") -> Call:
        """A call as the runner gets it, with the token that the equip stage found."""
        token = None if caller.user is None else await self.hall.token(AccountRequirement(ACCOUNT), caller.user)
        credentials = None if token is None else ResolvedCredentials(accounts={ACCOUNT: token})
        made = Call(call_id, "notes.list@1.0.0", {}, caller, NULL_LINK, "mcp", 10, 0.0)
        return msgspec.structs.replace(made, credentials=credentials)

    async def sent(self, call: Call | None) -> str | None:
        """The token that would be sent."""
        headers = dict(await self.accounts.headers(self.upstream, call))
        assert headers.keys() <= {"authorization"}
        return headers["authorization"].removeprefix("Bearer ") if headers else None


@asynccontextmanager
async def accounts_at(
    server: ProtectedUpstream,
    auth: UpstreamAuth = "oauth",
    providers: dict[str, ProviderSettings] | None = None,
    more: tuple[str, ...] = (),
) -> AsyncGenerator[AccountsHarness]:
    """Open the broker for this upstream; egress reaches it, its authorization server and `more`, nothing else."""
    settings = UpstreamSettings(url=server.url, auth=auth)
    egress = egress_client_for(server.origin, server.authority.issuer, *more)
    async with broker_harness(providers or {}, egress=egress, upstreams={NAME: settings}) as hall:
        tokens = HallTokens(hall.broker.upstreams, OAuthClient(egress), hall.clock)
        accounts = UpstreamAccounts(hall.broker, tokens, hall.clock)
        yield AccountsHarness(accounts, hall, Upstream(name=NAME, settings=settings, source="file"), egress)
        await accounts.close()
