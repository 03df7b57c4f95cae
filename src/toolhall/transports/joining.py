"""Tool servers join the hall, say that they are there, and leave: who may, with what, and how they are called."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from toolhall.dialects.hub import catalog
from toolhall.dialects.hub.leasing import JOIN, LEAVE
from toolhall.dialects.hub.remote import HEALTH, write_request
from toolhall.egress.addresses import Address
from toolhall.egress.errors import EgressRefused
from toolhall.egress.urls import shown
from toolhall.hall import Hall
from toolhall.model.caller import ADMIN, SERVE_ALL, TRUSTED, Caller, serve_scope
from toolhall.model.errors import Denied, Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import Secret
from toolhall.pipeline.manage import Change
from toolhall.registrar.papers import Paper, Source
from toolhall.registrar.registrar import Registrar
from toolhall.runners.hub.leases import EXPIRES_SECONDS, HEARTBEAT_SECONDS, Leases
from toolhall.runners.hub.line import Line, Lost
from toolhall.runners.hub.replica import Joined
from toolhall.transports.sender import Sender

MOST_TOOLKITS = 100
REACH_SECONDS = 2.0
Dialling: TypeAlias = Callable[[str, Secret, Address | None], Line]  # to a url, by a token, from an address
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ANY = serve_scope("")
_SECRET = re.compile(r"[A-Za-z0-9._~+/=-]{16,256}")


class _Join(msgspec.Struct):
    """What a tool server sends to join."""

    server: str
    replica: str
    tools: list[JsonObject]
    url: str | None = None  # where it listens; None: it is called on the socket that it opened
    token: str | None = None  # what the hall proves itself by, there

    def __repr__(self) -> str:
        return f"_Join({self.server!r})"


class Joining:
    """The hub's methods join, heartbeat and leave."""

    def __init__(self, hall: Hall, registrar: Registrar, leases: Leases, line: Dialling) -> None:
        self._hall = hall
        self._registrar = registrar
        self._leases = leases
        self._line_to = line

    async def join(self, params: JsonObject, caller: Caller, sender: Sender) -> Json:
        """Keep what it declares, and call it from now on; what is new and not trusted is quarantined."""
        asked = read_join(params)
        papers = [Paper(document, catalog.name, asked.server) for document in asked.tools]
        change = Change(f"{JOIN} {asked.server}", catalog.name, params | {"token": None}, personal=True)
        return await self._hall.manage(change, caller, lambda: self._join(asked, papers, caller, sender))

    async def heartbeat(self, params: JsonObject, caller: Caller) -> Json:
        """It is still there, and hears how its tools are."""
        lease, status = _lease(params), params.get("status", "healthy")
        replica = self._leases.heartbeat(lease, caller.id, str(status))
        return {"status": "ok", "tools": self._states(replica.joined)}

    async def leave(self, params: JsonObject, caller: Caller) -> Json:
        """It gets no new calls; answered when none runs any more."""
        lease = _lease(params)
        change = Change(LEAVE, catalog.name, {}, personal=True)
        running = await self._hall.manage(change, caller, lambda: self._leases.leave(lease, caller.id))
        return {"status": "left", "running": running}

    async def _join(self, asked: _Join, papers: list[Paper], caller: Caller, sender: Sender) -> Json:
        if self._registrar.turns.frozen is not None:
            raise Denied(self._registrar.turns.frozen)
        kits = frozenset((tool.id.toolkit, tool.id.version) for paper in papers for tool in paper.tools)
        joined = Joined(asked.server, asked.replica, caller.id, kits, asked.url is not None)
        self._refuse_strangers(joined, caller)
        line = self._line(asked, sender)
        try:
            if joined.listens:
                await _reach(line, asked.url or "")
            await self._enroll(papers, joined, caller)
            lease = self._leases.join(joined, line, sender.proof())
        except BaseException:
            if joined.listens:  # nobody else has it
                line.close()
            raise
        if not joined.listens:
            sender.on_end(asked.replica, lambda: self._leases.cut(lease.id))
            lease.on_over = lambda: sender.forget(asked.replica)
        terms = {"heartbeat": HEARTBEAT_SECONDS, "expires": EXPIRES_SECONDS}
        return {"lease": lease.id, **terms, "tools": self._states(joined)}

    async def _enroll(self, papers: list[Paper], joined: Joined, caller: Caller) -> None:
        trusted = not caller.scopes.isdisjoint((ADMIN, TRUSTED))
        source = Source("tool-server", caller.id, time.time(), joined.server)
        # Somebody else may have registered the same toolkit meanwhile: that is known once it is our turn.
        await self._registrar.enroll(papers, source, lambda: self._refuse_strangers(joined, caller), trusted=trusted)

    def _refuse_strangers(self, joined: Joined, caller: Caller) -> None:
        for toolkit in {toolkit for toolkit, _ in joined.tools}:
            self._refuse_stranger(toolkit, caller)

    def _refuse_stranger(self, toolkit: str, caller: Caller) -> None:
        """Who may run everything may not take over what somebody else has registered."""
        explicit, owners = serve_scope(toolkit), self._registrar.ledger.owners(toolkit)
        if ADMIN in caller.scopes or explicit in caller.scopes:
            return
        if SERVE_ALL not in caller.scopes:
            raise Denied(f"this caller may not run {toolkit}; its key needs the scope {explicit}", scopes=(explicit,))
        if owners - {caller.id}:
            raise Denied(f"{toolkit} was registered by another caller; the key needs {explicit}", scopes=(explicit,))

    def _line(self, asked: _Join, sender: Sender) -> Line:
        if asked.url is None:
            line = sender.line(asked.replica)
            if line is None:
                raise Malformed("give the url where the tool server listens, or join over a WebSocket to /hub")
            return line
        if asked.token is None or not _SECRET.fullmatch(asked.token):
            raise Malformed("token is a secret of 16 to 256 letters and digits that the hall sends with every call")
        try:
            return self._line_to(asked.url, Secret(asked.token), sender.address)
        except EgressRefused as refused:
            raise Malformed(f"the hall does not call there: {refused}") from None

    def _states(self, joined: Joined) -> JsonObject:
        ledger = self._registrar.ledger
        return {name: state for kit in sorted(joined.tools) for name, state in ledger.states(*kit).items()}


def may_serve(caller: Caller) -> bool:
    """Whether there is anything that it may run for the hall."""
    return any(scope == ADMIN or scope.startswith(_ANY) for scope in caller.scopes)


async def _reach(line: Line, url: str) -> None:
    """Raise Malformed unless a tool server answers there: it gets no call before that."""
    probe_id = f"h{secrets.token_hex(8)}"
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await line.ask(write_request(probe_id, HEALTH, {}), probe_id)
    except Lost as lost:
        why = lost.why
    except TimeoutError:
        why = f"no answer to {HEALTH} within {REACH_SECONDS:g} seconds"
    else:
        return
    raise Malformed(
        f"the hall cannot reach {shown(url)}: {why}; is it the address that the hall sees? Say another with --advertise"
    )


def read_join(params: JsonObject) -> _Join:
    """The params of `join`; Malformed for what cannot be."""
    try:
        asked = msgspec.convert(params, _Join)
    except msgspec.ValidationError as error:
        raise Malformed(f"join cannot be read: {error}") from None
    if not _SERVER.fullmatch(asked.server):
        raise Malformed("server is a name of at most 64 letters, digits, '.', '_' and '-'")
    if not _SECRET.fullmatch(asked.replica):
        raise Malformed("replica is a random text of 16 to 256 letters and digits, new in every process")
    if not 0 < len(asked.tools) <= MOST_TOOLKITS:
        raise Malformed(f"tools is a list of 1 to {MOST_TOOLKITS} declarations")
    return asked


def _lease(params: JsonObject) -> str:
    lease = params.get("lease")
    if not isinstance(lease, str):
        raise Malformed("lease is what join returned")
    return lease
