"""HttpExchange: one HTTP request without redirects, with limits on bytes and time; Endpoint and its API key."""

import http.client
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from urllib.parse import urlsplit

import msgspec

from toolhall.cli.errors import CallTimeout, CommandError, UsageError
from toolhall.egress.addresses import is_loopback
from toolhall.model.json import Json, JsonObject

KEY_VARIABLE = "TOOLHALL_KEY"
MCP_PATH = "/mcp"
MAX_RESPONSE_BYTES = 8 * 1024 * 1024
_CONNECT_SECONDS = 10.0
_SENDABLE = re.compile(r"[\x21-\x7e]{1,16384}")


def read_key(given: str | None) -> str:
    """The key from --key or TOOLHALL_KEY, empty if there is none; an error message never shows it."""
    key = given if given is not None else os.environ.get(KEY_VARIABLE, "").strip()
    if given is None and not key:
        return ""
    if not _SENDABLE.fullmatch(key):
        where = KEY_VARIABLE if given is None else "--key"
        raise UsageError(
            f"{where} holds no key: a key is one word of visible ASCII, as 'toolhall key create' prints it"
        )
    return key


def credential_error(status: int, *, sent: bool) -> str:
    """The error message for status 401 or 403, with what to do."""
    if status == 403:
        return "the server does not allow this with your credential"
    if sent:
        return f"the server does not accept this key: it is unknown, expired or revoked; renew --key or {KEY_VARIABLE}"
    return f"the server wants a credential: put a key into {KEY_VARIABLE}, or give it with --key"


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a server, with the key to send there."""

    secure: bool
    host: str
    port: int
    path: str  # with the query, if there is one
    key: str = ""  # sent as a bearer token

    def __str__(self) -> str:
        """The URL without the query, which could hold a secret; for messages and logs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path.partition('?')[0]}"

    def __repr__(self) -> str:
        """The same, without the key."""
        return f"<{self}>"

    def require_secure(self) -> None:
        """Raise CommandError for plain http to another machine: keys and secrets are not sent unencrypted."""
        if not self.secure and not is_loopback(self.host):
            raise CommandError(f"{self} would be sent a key or a secret that others can read on the way; use https")


def mcp_path(path: str) -> str:
    """The path of a hall's MCP endpoint, from that path itself or from the hall's base path, such as `/hall`."""
    base = path.rstrip("/")
    return path if base.endswith(MCP_PATH) else f"{base}{MCP_PATH}"


def parse_endpoint(url: str, key: str | None = None) -> Endpoint:
    """The MCP endpoint of the hall at a URL, with this key or that of TOOLHALL_KEY."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--url {url!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {url!r} is not a URL of a server; write it like http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise UsageError("--url must hold no user name or password: it would end up in logs")
    secure = parts.scheme == "https"
    path = mcp_path(parts.path)
    query = f"?{parts.query}" if parts.query else ""
    endpoint = Endpoint(secure, parts.hostname, port or (443 if secure else 80), path + query, read_key(key))
    if endpoint.key:
        endpoint.require_secure()
    return endpoint


def with_stated_path(endpoint: Endpoint, url: str) -> Endpoint:
    """The same endpoint with the path exactly as in the URL: other servers need not use `/mcp`."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return msgspec.structs.replace(endpoint, path=(parts.path or "/") + query)


class HttpExchange:
    """One request and its response; a timer cuts the connection when the time is up, also amid slow data."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        connection_type = http.client.HTTPSConnection if endpoint.secure else http.client.HTTPConnection
        self._endpoint = endpoint
        self._seconds = seconds
        self._connection = connection_type(endpoint.host, endpoint.port, timeout=min(seconds, _CONNECT_SECONDS))
        self._socket: socket.socket | None = None
        self._http_response: http.client.HTTPResponse | None = None
        self._expired = False
        self._remaining_bytes = MAX_RESPONSE_BYTES
        self._timer = self._new_timer()

    def __enter__(self) -> "HttpExchange":
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._http_response is not None:
            self._http_response.close()
        self._connection.close()
        if self._expired and isinstance(error, Exception):
            raise CallTimeout(self._seconds) from None
        match error:
            case TimeoutError():
                raise CallTimeout(self._seconds) from None
            case ConnectionRefusedError():
                raise CommandError(f"nothing listens at {self._endpoint}; start it with 'toolhall serve'") from None
            case OSError() | http.client.HTTPException() | EOFError():
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise CommandError(f"{self._endpoint} cannot be reached: {reason}") from None
            case _:
                return

    def send(self, method: str, headers: Mapping[str, str], message: JsonObject | None = None) -> int:
        """Send the request and return the status of the response; CommandError for a redirect."""
        body = None if message is None else msgspec.json.encode(message)
        self._connection.connect()
        self._socket = self._connection.sock
        if self._socket is not None:
            self._socket.settimeout(self._seconds)
        credential = {"Authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}
        self._connection.request(method, self._endpoint.path, body, {**headers, **credential})
        self._http_response = self._connection.getresponse()
        if 300 <= self._http_response.status < 400:
            location = self._http_response.getheader("location") or "another place"
            raise CommandError(f"{self._endpoint} redirects to {location[:200]!r}; if you trust it, use that as --url")
        return self._http_response.status

    def header(self, name: str) -> str:
        """A header of the response; empty if it has none of this name."""
        return self._response.getheader(name) or ""

    def messages(self) -> Iterator[Json]:
        """The JSON of the response, if it is JSON."""
        if self.header("content-type").partition(";")[0].strip().lower() == "application/json":
            yield _decode_json(self._count_bytes(self._response.read(self._remaining_bytes + 1)))

    def _new_timer(self) -> threading.Timer:
        timer = threading.Timer(max(self._seconds, 0.001), self._expire)
        timer.daemon = True
        return timer

    @property
    def _response(self) -> http.client.HTTPResponse:
        if self._http_response is None:
            raise EOFError("there is no reply")
        return self._http_response

    def _count_bytes(self, part: bytes) -> bytes:
        self._remaining_bytes -= len(part)
        if self._remaining_bytes < 0:
            raise CommandError(f"{self._endpoint} sent more than {MAX_RESPONSE_BYTES} bytes; nothing of it was used")
        return part

    def _expire(self) -> None:
        self._expired = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it is closed already


def _decode_json(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CommandError("the server sent something that is not JSON, or nested too deep") from None
