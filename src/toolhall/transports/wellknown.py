"""`/.well-known/oauth-protected-resource`: what this server is to OAuth (RFC 9728), and who issues tokens for it."""

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from toolhall.model.caller import ALL_TOOLS
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject, encode
from toolhall.transports.challenges import OF_MCP
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.identity.settings import Resource
from toolhall.transports.mounting import METADATA, base_of


class WellKnown:
    """The metadata of the whole server and of `/mcp`; each names the resource that its own address means."""

    def __init__(self, name: str, resource: Resource, issuers: Sequence[str]) -> None:
        self._name = name
        self._resource = resource
        self._issuers = list(issuers)
        # Of a public URL with a path: a proxy that strips it need not do so where it sends the well-known paths.
        self._prefix = unquote(urlsplit(resource.public_url or "").path)

    def endpoints(self) -> dict[str, Methods]:
        """The two paths, and for a public URL with a path the two that RFC 9728 makes of it."""
        paths = (METADATA, METADATA + OF_MCP, METADATA + self._prefix, METADATA + self._prefix + OF_MCP)
        return {path: {"GET": self.metadata, "HEAD": self.metadata} for path in paths}

    async def metadata(self, exchange: Exchange) -> None:
        """The document."""
        path = exchange.path.removeprefix(METADATA)
        path = path if path == OF_MCP else path.removeprefix(self._prefix)
        named = self._resource.of(path) or base_of(exchange.scope, exchange.headers) + path
        document: JsonObject = {"resource": named}
        if self._issuers:
            document["authorization_servers"] = self._issuers
        document |= {"scopes_supported": [ALL_TOOLS], "bearer_methods_supported": ["header"]}
        await exchange.reply(Wire(encode(document | {"resource_name": self._name})))
