"""The client that the official conformance suite drives: `python -m tests.conformance.client_under_test URL`.

The suite starts a mock server for each scenario, and says in the environment what is to be done there. The client is
the gateway's own: the broker with a vault and stores for authorization. This command only decides what to ask, and is
the person in the browser who agrees to everything.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.servers.account_broker import ALICE, BrokerHarness, authorize_in_browser, broker_harness
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.client import EgressClient, EgressResponse
from toolhall.model.errors import NeedsRequirement
from toolhall.model.json import JsonObject
from toolhall.model.messages import NULL_LINK, Call
from toolhall.model.requirements import AccountRequirement, ResolvedCredentials
from toolhall.model.upstream import Upstream, UpstreamAuth, UpstreamSettings
from toolhall.oauth import client_identity
from toolhall.oauth.client import OAuthClient
from toolhall.oauth.providers import LinkFailed, ProviderSettings
from toolhall.oauth.upstream_accounts import HallTokens, UpstreamAccounts, account_name

NAME = "suite"
ACCOUNT = account_name(NAME)
SUITE_DOCUMENT = "https://conformance-test.local/client-metadata.json"  # the client id that the suite wants
LOOPBACK = ["localhost", "127.0.0.0/8", "::1/128"]
MODERN = "2026-07-28"
MAX_ATTEMPTS = 3  # a person who is asked again and again gives up


@dataclass
class Suite:
    """What the environment says of the scenario."""

    scenario: str
    revision: str
    context: JsonObject

    @classmethod
    def from_environment(cls) -> "Suite":
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
        revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
        return cls(os.environ["MCP_CONFORMANCE_SCENARIO"], revision, context)

    @property
    def auth(self) -> UpstreamAuth:
        return "client_credentials" if "client-credentials" in self.scenario else "oauth"

    def providers(self, url: str) -> dict[str, ProviderSettings]:
        """What an operator would have configured: the client that the suite names."""
        if "client_id" not in self.context:
            return {}
        issuer = self.context.get("issuer") or _named_issuer(url)
        return {
            "suite": ProviderSettings(
                issuer=issuer,
                client_id=self.context["client_id"],
                client_secret=self.context.get("client_secret"),
                upstreams=(NAME,),
            )
        }


def _named_issuer(url: str) -> str:
    """The issuer in the metadata of the server: an operator reads it there."""
    import urllib.request

    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    with urllib.request.urlopen(place, timeout=10) as reply:
        named: str = json.loads(reply.read())["authorization_servers"][0]
    return named


@dataclass
class AuthorizedClient:
    """Requests with the credentials of Alice, who links her account when she has to."""

    suite: Suite
    url: str
    hall: BrokerHarness
    accounts: UpstreamAccounts
    upstream: Upstream
    egress: EgressClient
    last_id: int = 0

    async def request(self, method: str, params: JsonObject) -> None:
        """Send a request until it is answered; raises LinkFailed where the server is never satisfied."""
        has_refreshed = False
        for _ in range(2 * MAX_ATTEMPTS):
            call = await self._call()
            reply = await self._post(method, params, dict(await self.accounts.headers(self.upstream, call)))
            if reply.status not in (401, 403):
                assert reply.status < 400, f"{method}: {reply.status} {reply.body!r}"
                return
            challenge = reply.headers.get("www-authenticate")
            if reply.status == 401 and not has_refreshed:
                has_refreshed = True
                if await self.accounts.refresh(self.upstream, call, challenge):
                    continue
            error = await self.accounts.refusal(self.upstream, call, challenge)
            if not isinstance(error, NeedsRequirement):
                raise error
            await self._link(error)
        raise LinkFailed("the server is never satisfied")

    async def _link(self, error: NeedsRequirement) -> None:
        (missing,) = error.missing
        link = await self.hall.broker.find_link(missing.id or "")
        if link is None:
            raise error
        url, nonce = await self.hall.broker.consent(link.id, ALICE)
        back = urlsplit(await authorize_in_browser(url))
        query = dict(each.split("=", 1) for each in back.query.split("&"))
        from urllib.parse import unquote

        parameters = {name: unquote(value) for name, value in query.items()}
        await self.hall.broker.finish_redirect(back.path, parameters, nonce)

    async def _call(self) -> Call:
        token = await self.hall.token(AccountRequirement(ACCOUNT)) if self.suite.auth == "oauth" else None
        credentials = None if token is None else ResolvedCredentials(accounts={ACCOUNT: token})
        call = Call(f"c{self.last_id}", "suite.test@1.0.0", {}, ALICE, NULL_LINK, "mcp", 10, 0.0)
        return msgspec.structs.replace(call, credentials=credentials)

    async def _post(self, method: str, params: JsonObject, headers: dict[str, str]) -> EgressResponse:
        self.last_id += 1
        sent = {"accept": "application/json, text/event-stream", "mcp-protocol-version": self.suite.revision, **headers}
        if self.suite.revision == MODERN:
            prefix = "io.modelcontextprotocol"
            meta = {f"{prefix}/protocolVersion": MODERN, f"{prefix}/clientCapabilities": {}}
            params = {**params, "_meta": {**meta, f"{prefix}/clientInfo": {"name": "toolhall", "version": "1"}}}
            sent |= {"mcp-method": method} | ({"mcp-name": params["name"]} if "name" in params else {})
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        return await self.egress.fetch("POST", self.url, headers=sent, json=message)


@asynccontextmanager
async def authorized_client(suite: Suite, url: str) -> AsyncGenerator[AuthorizedClient]:
    """Open the client."""
    options: dict[str, Any] = {}
    if suite.scenario == "auth/basic-cimd":
        parts = urlsplit(SUITE_DOCUMENT)
        options["address"] = f"{parts.scheme}://{parts.netloc}"
        client_identity.CLIENT_DOCUMENT_PATH = parts.path
    settings = UpstreamSettings(url=url, auth=suite.auth)
    egress = EgressClient(EgressAllowlist(LOOPBACK))
    providers = suite.providers(url)
    async with broker_harness(providers, egress=egress, upstreams={NAME: settings}, **options) as hall:
        tokens = HallTokens(hall.broker.upstreams, OAuthClient(egress), hall.clock)
        accounts = UpstreamAccounts(hall.broker, tokens, hall.clock)
        upstream = Upstream(name=NAME, settings=settings, source="command line")
        yield AuthorizedClient(suite, url, hall, accounts, upstream, egress)
        await accounts.close()


async def authorize(suite: Suite, url: str) -> None:
    """List the tools and call one, as the scenarios of authorization want."""
    async with authorized_client(suite, url) as client:
        if suite.revision != MODERN:
            info = {"name": "toolhall", "version": "1"}
            begin = {"protocolVersion": suite.revision, "capabilities": {}, "clientInfo": info}
            await client.request("initialize", begin)
        await client.request("tools/list", {})
        await client.request("tools/call", {"name": "test-tool", "arguments": {}})


async def main(url: str) -> int:
    """Run the scenario; 1 if it cannot be completed."""
    suite = Suite.from_environment()
    try:
        await authorize(suite, url)
    except Exception as error:  # noqa: BLE001 - whatever ends the scenario, the suite reads only the status
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
