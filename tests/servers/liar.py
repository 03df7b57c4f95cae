"""An authorization server that lies: it answers each request as a test says, right or wrong."""

import json
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from tests.servers.holding import Holding
from tests.servers.serving import Answer, Asked, serving

Told = Callable[[Asked], Answer]


class Liar(Holding):
    """Right in everything that a test does not change; `metadata` and `callback` are merged, None leaves out."""

    def __init__(self) -> None:
        self.issuer = ""
        self.asked: list[Asked] = []
        self.metadata: dict[str, Any] = {}
        self.callback: dict[str, str | None] = {}
        self.tokens: dict[str, Any] = {}
        self.token: Told | None = None  # instead of a right answer
        self.paths: dict[str, Told] = {}

    def count(self, path: str) -> int:
        return sum(each.path == path for each in self.asked)

    def answer(self, asked: Asked) -> Answer:
        self.hold(asked)
        self.asked.append(asked)
        if asked.path in self.paths:
            return self.paths[asked.path](asked)
        match asked.path:
            case "/.well-known/oauth-authorization-server":
                return answered(self.right_metadata())
            case "/authorize":
                return self._authorized(asked)
            case "/token":
                return answered(self.grant()) if self.token is None else self.token(asked)
            case "/revoke":
                return Answer(200)
            case _:
                return Answer(404)

    def grant(self, **changed: Any) -> dict[str, Any]:
        """A right answer of the token endpoint, with what the test changed."""
        usual: dict[str, Any] = {
            "access_token": f"access-{secrets.token_hex(16)}",
            "refresh_token": f"refresh-{secrets.token_hex(16)}",
            "token_type": "Bearer",
            "expires_in": 3600,
        }
        return without_none(usual | self.tokens | changed)

    def right_metadata(self) -> dict[str, Any]:
        usual: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return without_none(usual | self.metadata)

    def _authorized(self, asked: Asked) -> Answer:
        usual = {"code": secrets.token_hex(16), "state": asked.query["state"], "iss": self.issuer}
        query = urlencode(without_none(usual | self.callback))
        return Answer(302, headers=(("Location", f"{asked.query['redirect_uri']}?{query}"),))


def answered(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), (("Content-Type", "application/json"),))


def without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if each is not None}


@contextmanager
def liar() -> Generator[Liar]:
    """Run one."""
    server = Liar()
    with serving(server.answer) as server.issuer:
        yield server
