"""HTTP client and browser of a hall that runs in another process, with a record of every byte it sent."""

import asyncio
import json
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.harness.patience import patience
from tests.properties.callers.house import Reply
from tests.servers.account_broker import authorize_in_browser
from tests.servers.authority import Authority, Client
from tests.unit.web import browser_client

SECRET = "client+Secret/of-the-h4ll"


def provider_config(issuer: str, folder: Path, **client: Any) -> dict[str, Any]:
    """Settings of a hall with the provider acme, whose client secret is in a file."""
    file = folder / "client-secret"
    file.write_text(SECRET)
    known = client or {"client_id": "hall", "client_secret_file": str(file)}
    providers = {"acme": {"issuer": issuer, **known}}
    return {"providers": json.dumps(providers), "egress_allow": urlsplit(issuer).netloc}


class JsonResponse(NamedTuple):
    """The status and the value of a reply."""

    status: int
    value: Any


class ServedHall:
    """A hall reached by its port; it is also the target of the clients in tests/properties/callers/ways.py."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://localhost:{port}"
        self.seen = bytearray()  # everything that ever came out
        self.keys: dict[str, str] = {}

    def registered_at(self, server: Authority) -> "ServedHall":
        """Its address is known now, so that it can be registered."""
        server.clients["hall"] = Client("hall", SECRET, f"{self.url}/oauth/callback", "client_secret_basic")
        return self

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> browser_client.Reply:
        """One request on a connection of its own."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=patience())) as line:
            line.request(method, path, body or None, {"host": f"localhost:{self.port}", **headers})
            reply = line.getresponse()
            said = [(name.lower().encode(), value.encode()) for name, value in reply.getheaders()]
            content = reply.read()
        self.seen += b"\n".join([*(b": ".join(each) for each in said), content, b""])
        return browser_client.Reply(reply.status, said, content.decode())

    def ask(self, method: str, path: str, message: Any = None, caller: str | None = None) -> JsonResponse:
        """A request of a program, with the key of a caller; without one, by the person at this machine."""
        typed = {} if message is None else {"content-type": "application/json"}
        body = b"" if message is None else json.dumps(message).encode()
        reply = self.send(method, path, body, typed | self.proof(caller))
        return JsonResponse(reply.status, json.loads(reply.body))

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Reply:
        """The same for whoever calls in a dialect."""
        sent = {"content-type": "application/json", **self.proof(caller), **headers}
        reply = await asyncio.to_thread(self.send, "POST", path, body, sent)
        return Reply(
            reply.status, {name.decode(): value.decode() for name, value in reply.headers}, reply.body.encode()
        )

    def admit(self, name: str, **special: Any) -> str:
        """A new key, whose caller may call everything."""
        made = self.ask("POST", "/api/keys", {"name": name, **special})
        assert made.status == 201, made
        self.keys[name] = made.value["secret"]
        assert self.ask("POST", "/api/grants", {"callers": name, "tools": "*"}).status == 201
        return name

    def status(self, check_url: str) -> str:
        """What a program that waits is told."""
        return str(self.ask("GET", check_url.removeprefix(self.url)).value["status"])

    def proof(self, caller: str | None) -> dict[str, str]:
        """The header that proves a caller."""
        return {} if caller is None else {"authorization": f"Bearer {self.keys[caller]}"}


class NetworkBrowser(browser_client.Browser):
    """A browser without scripts, over the network, that follows redirects; `name` is the caller whose key signs in."""

    def __init__(self, served: ServedHall, name: str | None = None) -> None:
        super().__init__(hall=None)  # type: ignore[arg-type]  # it is reached by its port
        self._served = served
        self._name = name

    async def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> browser_client.Reply:
        """Over the network, with the cookies so far."""
        cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items() if value)}
        usual = {"origin": self._served.url} if method == "POST" else {}
        reply = await asyncio.to_thread(self._served.send, method, path, body, headers | usual | cookie)
        for name, value in reply.headers:
            if name == b"set-cookie":
                key, _, content = value.decode().partition(";")[0].partition("=")
                self.cookies[key] = content
        return reply

    async def open(self, url: str) -> browser_client.Reply:
        """The page of a link, after signing in where the person is not the one at this machine."""
        path = url.removeprefix(self._served.url)
        if self._name is None:
            return await self.get(path)
        return await self.act(path, "sign_in", key=self._served.keys[self._name])

    async def agree(self, url: str) -> str:
        """Agree on the page and at the provider; the path and query that this leads back to."""
        page, path = await self.open(url), url.removeprefix(self._served.url)
        reply = await self.post(path, {"word": page.word("connect"), "action": "connect"})
        assert reply.status == 303, reply.text
        back = await authorize_in_browser(reply.header("location"))
        assert back.startswith(f"{self._served.url}/oauth/callback?"), back
        return back.removeprefix(self._served.url)

    async def connect(self, url: str) -> browser_client.Reply:
        """Complete the link; the page on which it ends."""
        return await self.get(await self.agree(url))
