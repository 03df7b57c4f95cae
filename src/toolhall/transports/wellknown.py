"""`/.well-known/oauth-protected-resource`: what this server is to OAuth (RFC 9728), and who issues tokens for it."""

from collections.abc import Sequence

from toolhall.model.caller import ALL_TOOLS
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject, encode
from toolhall.transports.challenges import METADATA, OF_MCP, origin_of
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.identity.settings import Resource


class WellKnown:
    """The metadata of the whole server and of `/mcp`; each names the resource that its own address means."""

    def __init__(self, name: str, resource: Resource, issuers: Sequence[str]) -> None:
        self._name = name
        self._resource = resource
        self._issuers = list(issuers)

    def endpoints(self) -> dict[str, Methods]:
        """The two paths."""
        paths = (METADATA, METADATA + OF_MCP)
        return {path: {"GET": self.metadata, "HEAD": self.metadata} for path in paths}

    async def metadata(self, exchange: Exchange) -> None:
        """The document."""
        path = exchange.path.removeprefix(METADATA)
        named = self._resource.of(path) or origin_of(exchange.scope, exchange.headers) + path
        document: JsonObject = {"resource": named}
        if self._issuers:
            document["authorization_servers"] = self._issuers
        document |= {"scopes_supported": [ALL_TOOLS], "bearer_methods_supported": ["header"]}
        await exchange.reply(Wire(encode(document | {"resource_name": self._name})))
