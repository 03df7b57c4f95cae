"""An authorization server that is not ours: Authlib's, with PKCE, rotated refresh tokens, revocation."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from authlib.common.security import generate_token
from authlib.oauth2 import AuthorizationServer, OAuth2Error, OAuth2Request
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc6749.errors import InvalidRequestError
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from authlib.oauth2.rfc9207 import IssuerParameter

from tests.servers.held_requests import RequestHolder
from tests.servers.http_server import HttpRequest, HttpResponse, run_http_server

WAYS = ["client_secret_basic", "client_secret_post", "none"]
METADATA = "/.well-known/oauth-authorization-server"


@dataclass
class Client:
    """Whom the server knows."""

    id: str
    secret: str
    redirect_uri: str
    way: str

    def get_client_id(self) -> str:
        return self.id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri == self.redirect_uri

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == self.way

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return True


@dataclass
class Code:
    """A code that was given out."""

    code: str
    client_id: str
    redirect_uri: str
    scope: str
    challenge: str
    resource: str | None
    used: bool = False

    code_challenge_method = "S256"

    @property
    def code_challenge(self) -> str:
        return self.challenge

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Issued:
    """Tokens that were given out."""

    access: str
    refresh: str | None
    client_id: str
    scope: str
    revoked: bool = False

    def check_client(self, client: Client) -> bool:
        return client.id == self.client_id

    def get_scope(self) -> str:
        return self.scope


class Request(OAuth2Request):
    """What Authlib is asked."""

    def __init__(self, asked: HttpRequest, base: str) -> None:
        headers = {name.title(): value for name, value in asked.headers.items()}
        super().__init__(asked.method, f"{base}{asked.path}", headers=headers)
        self.asked = asked
        self.payload = BasicOAuth2Payload(asked.query if asked.method == "GET" else asked.form)

    @property
    def args(self) -> dict[str, str | None]:
        return dict(self.asked.query)

    @property
    def form(self) -> dict[str, str]:
        return self.asked.form


@dataclass
class Reply:
    """What Authlib answers; its extensions change the location."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def location(self) -> str | None:
        return self.headers.get("Location")

    @location.setter
    def location(self, value: str) -> None:
        self.headers["Location"] = value


class CodeGrant(grants.AuthorizationCodeGrant):
    """Codes are good once; used again, all that came of them is revoked."""

    TOKEN_ENDPOINT_AUTH_METHODS = WAYS
    server: "Authority"

    def save_authorization_code(self, code: str, request: Any) -> None:
        said = request.payload.data
        self.server.codes[code] = Code(
            code,
            request.client.id,
            said["redirect_uri"],
            request.scope,
            said["code_challenge"],
            said.get("resource"),
        )

    def query_authorization_code(self, code: str, client: Any) -> Any:
        found = self.server.codes.get(code)
        if found is None or found.client_id != client.id or found.resource != self.request.form.get("resource"):
            return None
        if found.used:
            self.server.revoke_all()
            return None
        return found

    def delete_authorization_code(self, authorization_code: Any) -> None:
        authorization_code.used = True

    def authenticate_user(self, authorization_code: Any) -> str:
        return "somebody"


class Challenge(CodeChallenge):
    """PKCE with S256, or nothing."""

    def __init__(self) -> None:
        super().__init__(required=True)
        self.SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]

    def validate_code_challenge(self, grant: Any, redirect_uri: Any) -> None:
        if not grant.request.payload.data.get("code_challenge"):
            raise InvalidRequestError("Missing 'code_challenge'")
        super().validate_code_challenge(grant, redirect_uri)


class RefreshGrant(grants.RefreshTokenGrant):
    """A refresh token is good once; used again, the whole family is revoked."""

    TOKEN_ENDPOINT_AUTH_METHODS = WAYS
    INCLUDE_NEW_REFRESH_TOKEN = True
    server: "Authority"

    def authenticate_refresh_token(self, refresh_token: str) -> Any:
        found = next((each for each in self.server.issued if each.refresh == refresh_token), None)
        if found is not None and found.revoked:
            self.server.revoke_all()
        return found if found is not None and not found.revoked else None

    def authenticate_user(self, refresh_token: Any) -> str:
        return "somebody"

    def revoke_old_credential(self, refresh_token: Any) -> None:
        refresh_token.revoked = True


class DeviceGrant(DeviceCodeGrant):
    """A code that somebody enters elsewhere."""

    server: "Authority"

    def query_device_credential(self, device_code: str) -> Any:
        found = self.server.devices.get(device_code)
        return None if found is None else DeviceCredentialDict(found)

    def query_user_grant(self, user_code: str) -> Any:
        said = self.server.entered.get(user_code)
        return None if said is None else ("somebody", said)

    def should_slow_down(self, credential: Any) -> bool:
        return bool(self.server.slow_downs and self.server.slow_downs.pop())


class Devices(DeviceAuthorizationEndpoint):
    """Gives out codes for devices."""

    INTERVAL = 3
    server: "Authority"

    def get_verification_uri(self) -> str:
        return f"{self.server.issuer}/device"

    def save_device_credential(self, client_id: str, scope: str, data: Any) -> None:
        self.server.devices[data["device_code"]] = {"client_id": client_id, "scope": scope, **data}


class Revocation(RevocationEndpoint):
    """RFC 7009."""

    CLIENT_AUTH_METHODS = WAYS
    server: "Authority"

    def query_token(self, token_string: str, token_type_hint: str | None) -> Any:
        return next((each for each in self.server.issued if token_string in (each.access, each.refresh)), None)

    def revoke_token(self, token: Any, request: Any) -> None:
        token.revoked = True


class Iss(IssuerParameter):
    """RFC 9207."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer

    def get_issuer(self) -> str:
        return self._issuer


class Authority(RequestHolder, AuthorizationServer):
    """The server, in memory; a test sees all that it was asked and gave."""

    def __init__(self) -> None:
        super().__init__()
        self.issuer = ""
        self.clients: dict[str, Client] = {}
        self.codes: dict[str, Code] = {}
        self.issued: list[Issued] = []
        self.devices: dict[str, dict[str, Any]] = {}
        self.entered: dict[str, bool] = {}
        self.slow_downs: list[bool] = []
        self.asked: list[HttpRequest] = []
        self.agrees = True
        self.lifetime = 3600.0  # seconds; Authlib takes 0 for no end
        self.lock = threading.Lock()
        self.down = False
        self.register_grant(CodeGrant, [Challenge()])
        self.register_grant(RefreshGrant)
        self.register_grant(DeviceGrant)
        self.register_endpoint(Revocation)
        self.register_endpoint(Devices(self))  # type: ignore[arg-type]  # as Authlib documents it
        generator = BearerTokenGenerator(self._access, self._refresh, self._life)
        self.register_token_generator("default", generator)

    def metadata(self) -> dict[str, Any]:
        base = self.issuer
        return {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "revocation_endpoint": f"{base}/revoke",
            "device_authorization_endpoint": f"{base}/device_authorization",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": WAYS,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def count(self, path: str, grant: str | None = None) -> int:
        """How often this was asked."""
        return sum(each.path == path and grant in (None, each.form.get("grant_type")) for each in self.asked)

    def revoke_all(self) -> None:
        for each in self.issued:
            each.revoked = True

    def answer(self, asked: HttpRequest) -> HttpResponse:
        self.hold(asked)
        with self.lock:
            self.asked.append(asked)
            if self.down:
                return HttpResponse(503)
            reply = self._reply(asked)
        body = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        return HttpResponse(reply.status, body.encode(), tuple(reply.headers.items()))

    def _reply(self, asked: HttpRequest) -> Any:
        authlib = cast("Any", self)  # its stubs leave these without types
        match asked.path:
            case "/authorize":
                return self._authorized(asked)
            case "/token":
                return self.create_token_response(asked)
            case "/revoke":
                return authlib.create_endpoint_response("revocation", asked)
            case "/device_authorization":
                return authlib.create_endpoint_response("device_authorization", asked)
            case path if path == METADATA:
                return Reply(200, self.metadata(), {})
            case _:
                return Reply(404, "", {})

    def _authorized(self, asked: HttpRequest) -> Any:
        try:
            grant = cast("Any", self).get_consent_grant(asked, "somebody")
        except OAuth2Error as error:
            return self.handle_error_response(self.create_oauth2_request(asked), error)
        user = "somebody" if self.agrees else None
        return self.create_authorization_response(asked, grant_user=user, grant=grant)

    # --- what Authlib asks of its user

    def query_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        scope = token.get("scope", "")
        self.issued.append(Issued(token["access_token"], token.get("refresh_token"), request.client.id, scope))

    def send_signal(self, name: Any, *args: object, **kwargs: object) -> None:
        """Nobody listens."""

    def create_oauth2_request(self, request: Any) -> OAuth2Request:
        return request if isinstance(request, OAuth2Request) else Request(request, self.issuer)

    def handle_response(self, status: int, body: Any, headers: Any) -> Any:
        return Reply(status, body, dict(headers))

    def _life(self, *_: Any) -> Any:  # its stubs want whole seconds, which it does not need
        return self.lifetime

    @staticmethod
    def _access(*_: Any, **__: Any) -> str:
        return f"access-{generate_token(42)}"

    @staticmethod
    def _refresh(*_: Any, **__: Any) -> str:
        return f"refresh-{generate_token(48)}"


@contextmanager
def authority() -> Generator[Authority]:
    """Run one."""
    server = Authority()
    with run_http_server(server.answer) as server.issuer:
        server.register_extension(Iss(server.issuer))
        yield server
