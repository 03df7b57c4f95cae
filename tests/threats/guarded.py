"""A hall in the `server` profile, and callers with credentials of their own."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from tests.harness.http_client import HOST, Connection, Header, Response, fetch, http_request
from tests.harness.mcp_messages import encoded, handshake, session_headers
from tests.harness.server_process import ServerProcess
from tests.threats import hostile_tools
from tests.threats.served import serving
from toolhall import Config, Toolhall
from toolhall.registration.access import NewKey

PUBLIC_URL = "https://hall.example"
SECRET = "a secret of thirty-two bytes or more"
CALLERS: dict[str, tuple[str, ...]] = {
    "alice": ("tools:*",),
    "bob": ("tools:*",),
    "carl": ("tools:Shop",),
    "proxy": ("tools:*", "act_as"),
    "root": ("tools:*", "admin"),
}


class Guarded(NamedTuple):
    """A running server, and the keys of its callers."""

    server: ServerProcess
    keys: dict[str, str]

    def send(self, method: str, path: str, body: bytes = b"", headers: list[Header] | None = None) -> Response:
        """One request, with these headers besides those that every request has."""
        usual = [("Host", HOST), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        return fetch(self.server.port, http_request(method, path, usual + (headers or []), body))

    def status(self, method: str, path: str, body: bytes = b"") -> int:
        """The status of the reply to a request that proves nobody, whatever follows it."""
        headers = [("Host", HOST), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        with Connection(self.server.port) as connection:
            connection.send(http_request(method, path, headers, body))
            return int(connection.head().split()[1])

    def bearer(self, name: str) -> Header:
        """The header that proves a caller."""
        return ("Authorization", f"Bearer {self.keys[name]}")

    def session(self, name: str, revision: str) -> str:
        """Open a session of an older revision."""
        reply = self.send("POST", "/mcp", encoded(handshake(revision)), [self.bearer(name)])
        found = reply.headers.get("mcp-session-id")
        assert found, reply
        return found

    def mcp(self, name: str, revision: str, message: Any, session: str = "") -> Response:
        """One message of MCP."""
        body = encoded(message)
        return self.send("POST", "/mcp", body, [self.bearer(name), *session_headers(revision, body, session)])

    def records(self, **like: Any) -> list[dict[str, Any]]:
        """Everything in the audit that is like this, once the server has stopped."""
        lines = [
            line for file in sorted(self.server.data.rglob("audit*.jsonl")) for line in file.read_text().splitlines()
        ]
        found = [_record(json.loads(line)) for line in lines]
        return [each for each in found if each.items() >= like.items()]


def _record(line: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = line.get("record", line)
    return found


async def make_keys(hall: Toolhall) -> dict[str, str]:
    """A key for every caller of these tests."""
    made = {}
    for name, scopes in CALLERS.items():
        _, made[name] = await hall.access.keys.create(NewKey(name, scopes=scopes), "test")
    return made


@contextmanager
def guarding(folder: Path, **settings: Any) -> Generator[Guarded]:
    """Serve the hostile tools over HTTP, to callers with keys only."""

    async def prepare() -> dict[str, str]:
        with Toolhall(config=Config(data=str(folder / "data"))) as hall:
            await hall.open()
            return await make_keys(hall)

    keys = asyncio.run(prepare())
    with serving(folder, profile="server", public_url=PUBLIC_URL, oxp_secret=SECRET, **settings) as server:
        yield Guarded(server, keys)


class Inside:
    """The same in this process, reached without a socket; whose address it is said to be is the test's."""

    def __init__(self, hall: Toolhall, keys: dict[str, str]) -> None:
        self.hall = hall
        self.keys = keys

    async def send(
        self,
        method: str,
        path: str,
        message: Any = None,
        headers: Mapping[str, str] | None = None,
        address: str = "192.0.2.1",
    ) -> httpx2.Response:
        """One request from an address."""
        transport = httpx2.ASGITransport(app=self.hall.http, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="https://hall.example") as client:
            return await client.request(method, path, json=message, headers=headers)

    def bearer(self, name: str) -> dict[str, str]:
        """The header that proves a caller."""
        return {"Authorization": f"Bearer {self.keys[name]}"}


@asynccontextmanager
async def inside(*tools: object, **settings: Any) -> AsyncGenerator[Inside]:
    """A hall of the `server` profile in this process, without a folder."""
    stated: dict[str, Any] = {"profile": "server", "public_url": PUBLIC_URL, **settings}
    with Toolhall(*(tools or (hostile_tools,)), config=Config(**stated)) as hall:
        await hall.open()
        yield Inside(hall, await make_keys(hall))
