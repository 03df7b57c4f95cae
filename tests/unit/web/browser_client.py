"""A hall with tools that need approval, and an in-memory browser without scripts."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pyotp

from toolhall import Toolhall, tool
from toolhall.config import Config
from toolhall.model.caller import ALL_TOOLS, LOCAL, Caller
from toolhall.model.errors import NeedsVerification
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.registration.access import NewGrant, NewKey
from toolhall.stores.approvals import Approval

ORIGIN = "http://localhost:8000"
CLOCK = 2_000_000_000.0


@dataclass
class Reply:
    """What a browser gets."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: str

    def header(self, name: str) -> str:
        return next((value.decode() for key, value in self.headers if key == name.encode()), "")

    @property
    def text(self) -> str:
        """What a person reads."""
        return unescape(re.sub(r"<[^>]+>", "", self.body))

    def word(self, action: str) -> str:
        """What the form of an action must bring."""
        found = re.search(
            rf'name="word" value="([^"]+)">\s*<input type="hidden" name="action" value="{action}"', self.body
        )
        assert found, f"there is no form to {action}:\n{self.text}"
        return found[1]


@dataclass
class Browser:
    """Keeps cookies, follows redirects, runs no script."""

    hall: Toolhall
    address: str | None = "127.0.0.1"
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.send("GET", path, b"", headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Reply:
        usual = {"content-type": "application/x-www-form-urlencoded", "origin": ORIGIN, "sec-fetch-site": "same-origin"}
        chosen = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in (usual | chosen).items() if value}
        return await self.send("POST", path, urlencode(fields).encode(), sent)

    async def act(self, path: str, action: str, **fields: str) -> Reply:
        """Open the page, fill in one of its forms, send it, and look at what follows."""
        page = await self.get(path)
        reply = await self.post(path, {"word": page.word(action), "action": action, **fields})
        return await self.get(reply.header("location")) if reply.status == 303 else reply

    async def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        cookie = (
            {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        )
        said = {"host": "localhost:8000", **cookie, **headers}
        scope = {
            "type": "http",
            "method": method,
            "path": path.partition("?")[0],
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.encode(), value.encode()) for name, value in said.items()],
            "client": None if self.address is None else (self.address, 1),
        }
        await self.hall(scope, receive, send)
        reply = Reply(sent[0]["status"], list(sent[0]["headers"]), sent[1]["body"].decode())
        for name, value in reply.headers:
            if name == b"set-cookie":
                key, _, content = value.decode().partition(";")[0].partition("=")
                self.cookies[key] = content
        return reply

    async def api(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """A request of the command line."""
        content = b"" if body is None else json.dumps(body).encode()
        typed = {"content-type": "application/json"} if content else {}
        reply = await self.send(method, path, content, {**typed, **headers})
        return reply.status, json.loads(reply.body)


class ApprovalHall:
    """A hall with one tool at each of the levels 8, 9 and 10, and what ran there."""

    def __init__(self, config: Config | None = None) -> None:
        self.ran: list[tuple[str, Any]] = []
        self.hall = Toolhall(config=config or Config())
        for level, name in ((8, "unlock"), (9, "burn"), (10, "sell")):
            self.hall.add(tool(name=name, level=level, effect="destroys")(self._tool(name)))

    def _tool(self, name: str) -> Any:
        def do(room: str = "attic", number: float = 1) -> str:
            self.ran.append((name, room))
            return f"{name} {room}"

        do.__name__ = name
        return do

    async def call(self, name: str, caller: Caller = LOCAL, **arguments: Any) -> Any:
        """What a call ends with: a value, or an error."""
        answer = await self.hall.dispatcher.answer(CallTool(name, arguments, "test"), caller)
        return answer.result.encoded if isinstance(answer, CompletedCall) else answer

    async def ask(self, name: str, caller: Caller = LOCAL, **arguments: Any) -> str:
        """The path of the page that a call is sent to."""
        answer = await self.call(name, caller, **arguments)
        assert isinstance(answer, NeedsVerification), answer
        assert answer.url == f"{ORIGIN}/approve/{answer.id}"
        return f"/approve/{answer.id}"

    async def approval(self, path: str) -> Approval:
        found = await self.hall.approval_components.approvals.store.find(path.rpartition("/")[2])
        assert found is not None
        return found

    async def generator(self, person: str) -> "TotpGenerator":
        """A new authenticator of this person."""
        factors = self.hall.approval_components.factors
        secret, _, sealed = await factors.start_enrolment(person, "local", "house")
        generator = TotpGenerator(secret, self)
        await factors.confirm_enrolment(sealed, generator.code())
        return generator

    async def key(self, name: str, *scopes: str, owner: str | None = None) -> str:
        """A new API key."""
        wanted = NewKey(name=name, owner=owner, scopes=(ALL_TOOLS, *scopes))
        _, secret = await self.hall.access.keys.create(wanted, "local")
        return secret

    async def grant(self, callers: str) -> None:
        """From now on these callers may call every tool."""
        await self.hall.access.grants.add(NewGrant(callers=callers, tools="*"), "local")


class TotpGenerator:
    """A TOTP generator that advances the clock for each code, so that codes never repeat."""

    def __init__(self, secret: str, hall: ApprovalHall) -> None:
        self._generator = pyotp.TOTP(secret)
        self._hall = hall

    def code(self) -> str:
        factors = self._hall.hall.approval_components.factors
        now = factors.clock() + 30
        factors.clock = lambda: now
        return self._generator.generate_otp(int(now) // 30)


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


ALICE = Caller("ci", proof="key", person="alice", scopes=frozenset({ALL_TOOLS}), expires_at=CLOCK * 2)
