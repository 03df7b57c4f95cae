"""An MCP server that wants tokens, with an authorization server of its own: every message is scripted by the test."""

import json
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from tests.servers.http_server import HttpRequest, HttpResponse, run_http_server
from tests.servers.scripted_authority import Responder, json_response, without_none

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
ISSUER_METADATA = "/.well-known/oauth-authorization-server"


class RegisteringAuthority:
    """An authorization server that registers clients; members of its answers are changed or removed (None)."""

    def __init__(self) -> None:
        self.issuer = ""
        self.asked: list[HttpRequest] = []
        self.metadata: dict[str, Any] = {}
        self.registration: dict[str, Any] = {}
        self.callback: dict[str, str | None] = {}
        self.tokens: dict[str, Any] = {}
        self.paths: dict[str, Responder] = {}
        self.issued: list[str] = []
        self.clients: list[str] = []

    def count(self, path: str, grant: str | None = None) -> int:
        return sum(each.path == path and grant in (None, each.form.get("grant_type")) for each in self.asked)

    def last(self, path: str) -> HttpRequest:
        return next(each for each in reversed(self.asked) if each.path == path)

    def answer(self, asked: HttpRequest) -> HttpResponse:
        self.asked.append(asked)
        usual: dict[str, Responder] = {
            ISSUER_METADATA: lambda _: json_response(self.default_metadata()),
            "/register": lambda _: json_response(self.register(), 201),
            "/authorize": self._authorized,
            "/token": lambda asked: json_response(self.grant(asked)),
            "/revoke": lambda _: HttpResponse(200),
        }
        responder = (usual | self.paths).get(asked.path)
        return HttpResponse(404) if responder is None else responder(asked)

    def _authorized(self, asked: HttpRequest) -> HttpResponse:
        usual = {"code": secrets.token_hex(16), "state": asked.query["state"], "iss": self.issuer}
        query = urlencode(without_none(usual | self.callback))
        return HttpResponse(302, headers=(("Location", f"{asked.query['redirect_uri']}?{query}"),))

    def default_metadata(self) -> dict[str, Any]:
        usual: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return without_none(usual | self.metadata)

    def register(self) -> dict[str, Any]:
        self.clients.append(f"client-{secrets.token_hex(8)}")
        usual = {"client_id": self.clients[-1], "client_secret": f"secret-{secrets.token_hex(16)}"}
        return without_none(usual | self.registration)

    def grant(self, asked: HttpRequest) -> dict[str, Any]:
        self.issued.append(f"access-{secrets.token_hex(16)}")
        usual: dict[str, Any] = {
            "access_token": self.issued[-1],
            "refresh_token": f"refresh-{secrets.token_hex(16)}",
            "token_type": "Bearer",
            "expires_in": 3600,
        }
        if asked.form.get("grant_type") == "client_credentials":
            del usual["refresh_token"]
        return without_none(usual | self.tokens)


class ProtectedUpstream:
    """Refuses every request without a token of its authority; keeps what it received."""

    def __init__(self, authority: RegisteringAuthority) -> None:
        self.authority = authority
        self.origin = ""
        self.received: list[HttpRequest] = []
        self.metadata: dict[str, Any] | None = {}  # None: it publishes none
        self.metadata_path = f"{RESOURCE_METADATA}/mcp"
        self.challenge: str | None = 'Bearer resource_metadata="{origin}{path}"'
        self.paths: dict[str, Responder] = {}
        self.refused: set[str] = set()  # tokens

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def answer(self, asked: HttpRequest) -> HttpResponse:
        self.received.append(asked)
        if asked.path in self.paths:
            return self.paths[asked.path](asked)
        if asked.path == self.metadata_path and self.metadata is not None:
            usual = {"resource": self.url, "authorization_servers": [self.authority.issuer]}
            return json_response(without_none(usual | self.metadata))
        if asked.path != "/mcp":
            return HttpResponse(404)
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token in self.authority.issued and token not in self.refused:
            return self._answered(json.loads(asked.body)) if asked.method == "POST" else HttpResponse(405)
        if self.challenge is None:
            return HttpResponse(401)
        challenge = self.challenge.format(origin=self.origin, path=self.metadata_path)
        return HttpResponse(401, headers=(("WWW-Authenticate", challenge),))

    def _answered(self, message: dict[str, Any]) -> HttpResponse:
        """Speak enough MCP of 2025-11-25 to have one tool."""
        if "id" not in message:
            return HttpResponse(202)
        info = {"serverInfo": {"name": "notes", "version": "1"}, "capabilities": {"tools": {}}}
        schema = {"type": "object", "properties": {"of": {"type": "string"}}}
        tool = {"name": "list_notes", "description": "List notes.", "inputSchema": schema}
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-11-25", **info},
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": "two notes"}]},
        }
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in results:
            return json_response({**answer, "result": results[message["method"]]})
        return json_response({**answer, "error": {"code": -32601, "message": "unknown"}}, 404)


@contextmanager
def protected_upstream() -> Generator[ProtectedUpstream]:
    """Run both."""
    authority = RegisteringAuthority()
    upstream = ProtectedUpstream(authority)
    with run_http_server(authority.answer) as authority.issuer, run_http_server(upstream.answer) as upstream.origin:
        yield upstream
