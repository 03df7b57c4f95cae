"""HTTP for a client that trusts nobody: one request per connection, no redirects, a most of bytes and of seconds."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Generator, Iterator, Mapping
from types import TracebackType
from urllib.parse import urlsplit

import msgspec

from toolhall.cli.failure import CommandFailed, OutOfTime, WrongUsage
from toolhall.cli.sources.credential import read_key, refusal
from toolhall.egress.addresses import is_loopback
from toolhall.model.json import Json, JsonObject

MCP_PATH = "/mcp"
MAX_BYTES = 8 * 1024 * 1024
_CONNECT_SECONDS = 10.0


class Endpoint(msgspec.Struct, frozen=True):
    """Where a server listens."""

    secure: bool
    host: str
    port: int
    path: str  # with the query, if there is one
    key: str = ""  # the credential that is sent along

    def __str__(self) -> str:
        """As it may be shown and logged: without the query, which could hold a secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path.partition('?')[0]}"

    def __repr__(self) -> str:
        """The same: wherever it is printed, there is no key in it."""
        return f"<{self}>"

    def refuse_listeners(self) -> None:
        """Nothing secret is sent in the clear to another machine: whoever is on the way could read it."""
        if not self.secure and not is_loopback(self.host):
            raise CommandFailed(f"{self} would be sent a key or a secret that others can read on the way; use https")


def mcp_path(path: str) -> str:
    """The path of a hall's MCP endpoint, given that path or the one that the hall is mounted at, as `/hall`."""
    base = path.rstrip("/")
    return path if base.endswith(MCP_PATH) else f"{base}{MCP_PATH}"


def read_url(url: str, key: str | None = None) -> Endpoint:
    """The MCP endpoint of the hall at a URL. Without a key it is the one in TOOLHALL_KEY, if any."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise WrongUsage(f"--url {url!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongUsage(f"--url {url!r} is not a URL of a server; write it like http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise WrongUsage("--url must hold no user name or password: it would end up in logs")
    secure = parts.scheme == "https"
    path = mcp_path(parts.path)
    query = f"?{parts.query}" if parts.query else ""
    endpoint = Endpoint(secure, parts.hostname, port or (443 if secure else 80), path + query, read_key(key))
    if endpoint.key:
        endpoint.refuse_listeners()
    return endpoint


def as_stated(endpoint: Endpoint, url: str) -> Endpoint:
    """The same endpoint with the path exactly as the URL has it: other servers have theirs elsewhere than `/mcp`."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return msgspec.structs.replace(endpoint, path=(parts.path or "/") + query)


class Exchange:
    """One request and its reply; when time is up the connection is cut, also in the middle of a slow drip."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        kind = http.client.HTTPSConnection if endpoint.secure else http.client.HTTPConnection
        self._endpoint = endpoint
        self._seconds = seconds
        self._connection = kind(endpoint.host, endpoint.port, timeout=min(seconds, _CONNECT_SECONDS))
        self._socket: socket.socket | None = None
        self._reply: http.client.HTTPResponse | None = None
        self._expired = False
        self._left = MAX_BYTES
        self._timer = self._new_timer()
        self.last_event: str | None = None
        self.retry_ms: int | None = None

    def __enter__(self) -> "Exchange":
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._reply is not None:
            self._reply.close()
        self._connection.close()
        if self._expired and isinstance(error, Exception):
            raise OutOfTime(self._seconds) from None
        match error:
            case TimeoutError():
                raise OutOfTime(self._seconds) from None
            case ConnectionRefusedError():
                raise CommandFailed(f"nothing listens at {self._endpoint}; start it with 'toolhall serve'") from None
            case OSError() | http.client.HTTPException() | EOFError():
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise CommandFailed(f"{self._endpoint} cannot be reached: {reason}") from None
            case _:
                return

    def send(self, method: str, headers: Mapping[str, str], message: JsonObject | None = None) -> int:
        """Send the request and return the status of the reply."""
        body = None if message is None else msgspec.json.encode(message)
        self._connection.connect()
        self._socket = self._connection.sock
        if self._socket is not None:
            self._socket.settimeout(self._seconds)
        credential = {"Authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}
        self._connection.request(method, self._endpoint.path, body, {**headers, **credential})
        self._reply = self._connection.getresponse()
        if 300 <= self._reply.status < 400:
            place = self._reply.getheader("location") or "another place"
            raise CommandFailed(f"{self._endpoint} sends us on to {place[:200]!r}; if you trust it, use that as --url")
        return self._reply.status

    def refusal(self, status: int) -> str:
        """What to do about a 401 or a 403."""
        return refusal(status, sent=bool(self._endpoint.key))

    def header(self, name: str) -> str:
        """A header of the reply, or nothing."""
        return self._answered.getheader(name) or ""

    def messages(self) -> Iterator[Json]:
        """Every message of the reply: one of plain JSON, or each event's."""
        kind = self.header("content-type").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            yield from self._events()
        elif kind == "application/json":
            yield _decoded(self._take(self._answered.read(self._left + 1)))

    @contextlib.contextmanager
    def paused(self) -> Generator[None, None, None]:
        """The time that a person takes to answer is not the server's; afterwards it has all of its own again."""
        self._timer.cancel()
        self._timer.join()
        yield
        self._timer = self._new_timer()
        self._timer.start()

    def _new_timer(self) -> threading.Timer:
        timer = threading.Timer(max(self._seconds, 0.001), self._cut)
        timer.daemon = True
        return timer

    @property
    def _answered(self) -> http.client.HTTPResponse:
        if self._reply is None:
            raise EOFError("there is no reply")
        return self._reply

    def _events(self) -> Iterator[Json]:
        data: list[bytes] = []
        while line := self._take(self._answered.readline(self._left + 1)):
            field, _, value = line.rstrip(b"\r\n").partition(b":")
            value = value.removeprefix(b" ")
            match field:
                case b"data":
                    data.append(value)
                case b"id":
                    self.last_event = value.decode("latin-1")
                case b"retry" if value.isdigit():
                    self.retry_ms = int(value)
                case b"" if not line.strip() and (joined := b"\n".join(data)):
                    data = []
                    yield _decoded(joined)
                case _:
                    data = data if line.strip() else []

    def _take(self, part: bytes) -> bytes:
        self._left -= len(part)
        if self._left < 0:
            raise CommandFailed(f"{self._endpoint} sent more than {MAX_BYTES} bytes; nothing of it was used")
        return part

    def _cut(self) -> None:
        self._expired = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it has ended by itself


def _decoded(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CommandFailed("the server sent something that is not JSON, or nested too deep") from None
