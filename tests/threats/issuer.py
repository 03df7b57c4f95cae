"""A real issuer of tokens on loopback: it publishes its keys and signs what it is told to, also what it should not."""

import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

DISCOVERY = "/.well-known/openid-configuration"
EVERY = JWSRegistry(algorithms=["ES256", "RS256", "PS256", "Ed25519", "HS256", "ES384"], strict_check_header=False)
Keys = dict[str, Any]
# Made once: RSA keys take a while.
KEYS: Keys = {
    "ES256": ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"}),
    "RS256": RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}),
    "Ed25519": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
}
KEYS["PS256"] = KEYS["RS256"]
FOREIGN: Keys = {"ES256": ECKey.generate_key("P-256", {"kid": "ec"})}


class Issuer:
    """What it publishes can be changed by a test; what was asked of it is counted."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.keys: Keys = dict(KEYS)
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []  # what was posted
        self.heads: list[str] = []  # the headers of what was asked
        self.documents: dict[str, Callable[[], tuple[int, bytes]]] = {
            DISCOVERY: lambda: _json({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}),
            "/jwks": lambda: _json({"keys": published(self.keys)}),
        }

    def claims(self, **changed: Any) -> dict[str, Any]:
        """What a right token says; None leaves a claim out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": "https://hall.example", "sub": "alice", "exp": now + 600, "iat": now}
        return {name: said for name, said in (usual | changed).items() if said is not None}

    def token(self, algorithm: str = "ES256", header: dict[str, Any] | None = None, **changed: Any) -> str:
        """A token that this issuer signs, by default a right one."""
        key = self.keys[algorithm]
        return sign(algorithm, key, self.claims(**changed), {"kid": key.kid} | (header or {}))


def sign(algorithm: str, key: Any, claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
    """A token signed by this key."""
    stated = {name: said for name, said in {"alg": algorithm, **(header or {})}.items() if said is not None}
    return jwt.encode(stated, claims, key, registry=EVERY)


def published(keys: Keys) -> list[Any]:
    """The public halves; Ed25519 has two names, of which issuers mostly use the old one."""
    listed = [key.as_dict(private=False) for key in {id(key): key for key in keys.values()}.values()]
    return [key | ({"alg": "EdDSA"} if key["kty"] == "OKP" else {}) for key in listed]


@contextmanager
def issuing() -> Generator[Issuer]:
    """Run an issuer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            issuer.forms.append(dict(parse_qsl(body.decode())))
            self.do_GET()

        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.heads.append(str(self.headers))
            status, body = issuer.documents.get(self.path, lambda: (404, b""))()
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", body.decode())
                body = b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(server.server_address[1])
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _json(value: Any) -> tuple[int, bytes]:
    return 200, json.dumps(value).encode()
