"""An authorization server whose responses are set by the test, valid or not."""

import json
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from tests.servers.held_requests import RequestHolder
from tests.servers.http_server import HttpRequest, HttpResponse, run_http_server

Responder = Callable[[HttpRequest], HttpResponse]


class ScriptedAuthority(RequestHolder):
    """Responses are valid unless a test changes them; `metadata` and `callback` are merged, None omits a member."""

    def __init__(self) -> None:
        self.issuer = ""
        self.asked: list[HttpRequest] = []
        self.metadata: dict[str, Any] = {}
        self.callback: dict[str, str | None] = {}
        self.tokens: dict[str, Any] = {}
        self.token: Responder | None = None  # instead of a right answer
        self.paths: dict[str, Responder] = {}

    def count(self, path: str) -> int:
        return sum(each.path == path for each in self.asked)

    def answer(self, asked: HttpRequest) -> HttpResponse:
        self.hold(asked)
        self.asked.append(asked)
        if asked.path in self.paths:
            return self.paths[asked.path](asked)
        match asked.path:
            case "/.well-known/oauth-authorization-server":
                return json_response(self.default_metadata())
            case "/authorize":
                return self._authorized(asked)
            case "/token":
                return json_response(self.grant()) if self.token is None else self.token(asked)
            case "/revoke":
                return HttpResponse(200)
            case _:
                return HttpResponse(404)

    def grant(self, **changed: Any) -> dict[str, Any]:
        """A valid response of the token endpoint, with the changes of the test."""
        usual: dict[str, Any] = {
            "access_token": f"access-{secrets.token_hex(16)}",
            "refresh_token": f"refresh-{secrets.token_hex(16)}",
            "token_type": "Bearer",
            "expires_in": 3600,
        }
        return without_none(usual | self.tokens | changed)

    def default_metadata(self) -> dict[str, Any]:
        usual: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return without_none(usual | self.metadata)

    def _authorized(self, asked: HttpRequest) -> HttpResponse:
        usual = {"code": secrets.token_hex(16), "state": asked.query["state"], "iss": self.issuer}
        query = urlencode(without_none(usual | self.callback))
        return HttpResponse(302, headers=(("Location", f"{asked.query['redirect_uri']}?{query}"),))


def json_response(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status, json.dumps(value).encode(), (("Content-Type", "application/json"),))


def without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if each is not None}


@contextmanager
def scripted_authority() -> Generator[ScriptedAuthority]:
    """Run one."""
    server = ScriptedAuthority()
    with run_http_server(server.answer) as server.issuer:
        yield server
