"""SuiteClient: the gateway's own client, with the account of Alice, who links it when she has to.

Sessions, headers and questions are `toolhall.mcp_client`; tokens are the broker's, with a vault and stores. Nothing
here writes a message or a header by itself.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from tests.servers.account_broker import ALICE, BrokerHarness, authorize_in_browser, broker_harness
from toolhall.dialects.mcp.client_questions import read_open_questions, read_question, retry_params, write_reply
from toolhall.dialects.mcp.client_requests import argument_headers
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.client import EgressClient
from toolhall.egress.resolver import Dialer
from toolhall.mcp_client.connect import open_session
from toolhall.mcp_client.session import Headers, McpRequest, McpSession, Unauthorized
from toolhall.mcp_client.targets import ClientProfile, HttpTarget
from toolhall.model.errors import NeedsRequirement
from toolhall.model.json import JsonObject
from toolhall.model.messages import NULL_LINK, Call, Filled, Form, LogEvent, ProgressEvent
from toolhall.model.requirements import AccountRequirement, ResolvedCredentials
from toolhall.model.tool import HeaderParameter
from toolhall.model.upstream import Upstream, UpstreamAuth, UpstreamSettings
from toolhall.oauth.client import OAuthClient
from toolhall.oauth.providers import LinkFailed, ProviderSettings
from toolhall.oauth.upstream_accounts import HallTokens, UpstreamAccounts, account_name

NAME = "suite"
ACCOUNT = account_name(NAME)
MODERN = "2026-07-28"
LOOPBACK = EgressAllowlist(["localhost", "127.0.0.0/8", "::1/128"])
MAX_ROUNDS = 6
PROFILE = ClientProfile(name="toolhall", version="1.0.0")


class QuietEvents:
    """An owner of a session that does nothing with what it hears."""

    def on_list_changed(self, kind: Literal["tools", "resources", "prompts"]) -> None:
        """Ignore it."""

    def on_resource_updated(self, uri: str) -> None:
        """Ignore it."""

    def on_log(self, event: LogEvent) -> None:
        """Ignore it."""

    def on_closed(self, reason: str) -> None:
        """Ignore it."""

    def on_progress(self, event: ProgressEvent) -> None:
        """Ignore it."""

    async def on_question(self, method: str, params: JsonObject) -> JsonObject:
        """Accept a form with its defaults."""
        return write_reply(agreed(read_question(method, params)))


def agreed(question: object) -> Filled:
    """The reply of a person who accepts, and changes nothing."""
    assert isinstance(question, Form)
    fields: JsonObject = question.schema.get("properties", {})
    return Filled("accept", {name: each["default"] for name, each in fields.items() if "default" in each})


@dataclass
class SuiteClient:
    """Requests to one server, with credentials where it wants some."""

    url: str
    era: Literal["legacy"] | None
    auth: UpstreamAuth
    hall: BrokerHarness
    accounts: UpstreamAccounts
    upstream: Upstream
    profile: ClientProfile = PROFILE
    session: McpSession | None = None
    events: QuietEvents = field(default_factory=QuietEvents)

    async def request(
        self, method: str, params: JsonObject, parameters: tuple[HeaderParameter, ...] = ()
    ) -> JsonObject:
        """Send a request, answer its questions, and return the result."""
        arguments: JsonObject = params.get("arguments", {})
        for _ in range(MAX_ROUNDS):
            result = await self._authorized(
                McpRequest(
                    method=method,
                    params=params,
                    name=params.get("name") or params.get("uri"),
                    argument_headers=argument_headers(parameters, arguments),
                )
            )
            asked = read_open_questions(result)
            if asked is None:
                decoded: JsonObject = msgspec.json.decode(result)
                return decoded
            params = retry_params(params, {key: agreed(each) for key, each in asked.questions.items()}, asked.state)
        raise LinkFailed("the server never stops to ask")

    async def close(self) -> None:
        """End the session."""
        if self.session is not None:
            await self.session.close()

    async def _authorized(self, request: McpRequest) -> msgspec.Raw:
        """Send a request, and link or renew the account as the runner and a person do."""
        has_refreshed = False
        for _ in range(MAX_ROUNDS):
            call = await self._call()
            headers = await self.accounts.headers(self.upstream, call)
            try:
                session = await self._opened(headers)
                return await session.request(msgspec.structs.replace(request, credentials=headers), self.events)
            except Unauthorized as refused:
                if refused.status == 401 and not has_refreshed:
                    has_refreshed = True
                    if await self.accounts.refresh(self.upstream, call, refused.challenge):
                        continue
                error = await self.accounts.refusal(self.upstream, call, refused.challenge)
            if not isinstance(error, NeedsRequirement):
                raise error
            await self._link(error)
        raise LinkFailed("the server is never satisfied")

    async def _opened(self, credentials: Headers) -> McpSession:
        if self.session is None:
            target = HttpTarget(self.url)
            self.session = await open_session(
                target,
                self.profile,
                self.events,
                dialer=Dialer(LOOPBACK),
                era=self.era,
                credentials=credentials,
                questions=self.events.on_question,
            )
        return self.session

    async def _link(self, error: NeedsRequirement) -> None:
        (missing,) = error.missing
        link = await self.hall.broker.find_link(missing.id or "")
        if link is None:
            raise error
        url, nonce = await self.hall.broker.consent(link.id, ALICE)
        back = urlsplit(await authorize_in_browser(url))
        await self.hall.broker.finish_redirect(back.path, dict(parse_qsl(back.query)), nonce)

    async def _call(self) -> Call:
        token = await self.hall.token(AccountRequirement(ACCOUNT)) if self.auth == "oauth" else None
        credentials = None if token is None else ResolvedCredentials(accounts={ACCOUNT: token})
        call = Call("c1", "suite.test@1.0.0", {}, ALICE, NULL_LINK, "mcp", 10, 0.0)
        return msgspec.structs.replace(call, credentials=credentials)


@asynccontextmanager
async def suite_client(
    url: str, revision: str, auth: UpstreamAuth, providers: dict[str, ProviderSettings], **options: Any
) -> AsyncGenerator[SuiteClient]:
    """Open the client with a broker that has these providers."""
    settings = UpstreamSettings(url=url, auth=auth)
    egress = EgressClient(LOOPBACK)
    async with broker_harness(providers, egress=egress, upstreams={NAME: settings}, **options) as hall:
        accounts = UpstreamAccounts(
            hall.broker, HallTokens(hall.broker.upstreams, OAuthClient(egress), hall.clock), hall.clock
        )
        upstream = Upstream(name=NAME, settings=settings, source="command line")
        era: Literal["legacy"] | None = None if revision == MODERN else "legacy"
        client = SuiteClient(url, era, auth, hall, accounts, upstream)
        try:
            yield client
        finally:
            await client.close()
            await accounts.close()
