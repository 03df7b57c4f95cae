"""Joining of tool servers: `JoinEndpoint` handles join, heartbeat and leave; `HubPeer` is the sender of a message.

A tool server is called at the URL that it gives, or over the WebSocket that it opened (`HubPeer.transport`).
`CredentialRecheck` tells the lease whether the credential is still valid.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeAlias

import msgspec

from toolhall.auth.authenticator import (
    FORWARDING_HEADERS,
    AuthenticationFailed,
    AuthResult,
    Headers,
    RequestAuthenticator,
    Scope,
    Send,
    client_address,
    resolve_caller,
)
from toolhall.dialects.hub import catalog
from toolhall.dialects.hub.call_messages import HEALTH, write_request
from toolhall.dialects.hub.lease_messages import JOIN, LEAVE
from toolhall.egress.addresses import EgressRefused, IpAddress
from toolhall.egress.urls import display_url
from toolhall.execution.remote.leases import EXPIRY_SECONDS, HEARTBEAT_SECONDS, LeaseManager
from toolhall.execution.remote.replica import ReplicaInfo
from toolhall.execution.remote.replica_transport import MAX_MESSAGE_BYTES, CallLost, Transport
from toolhall.execution.remote.websocket_transport import PeerSocket, WebSocketTransport
from toolhall.model.caller import ADMIN, SERVE_ALL, TRUSTED_SERVER, Caller, serve_scope
from toolhall.model.errors import Denied, Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import Secret
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.records import DefinitionDocument, RegistrationSource
from toolhall.registration.service import RegistrationService

_SCOPE_KEYS = ("type", "path", "method", "client")  # of a scope, which also holds its connection
MAX_TOOLKITS = 100
REACH_SECONDS = 2.0
ConnectTransport: TypeAlias = Callable[
    [str, Secret, IpAddress | None], Transport
]  # to a url, by a token, from an address
_SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SERVE_PREFIX = serve_scope("")
_SECRET_TEXT = re.compile(r"[A-Za-z0-9._~+/=-]{16,256}")


class CredentialRecheck:
    """Of one caller, by what proves it `again`; a key that was revoked, or a token that ran out, is none any more."""

    def __init__(self, reauthenticate: Callable[[], AuthResult]) -> None:
        self._reauthenticate = reauthenticate
        self._tasks: set[asyncio.Task[Any]] = set()

    def __call__(self) -> bool | None:
        """None where that is not known: who has to be asked first is asked, and known the next time."""
        try:
            found = self._reauthenticate()
        except AuthenticationFailed:
            return False
        if isinstance(found, Caller):
            return True
        asking = asyncio.get_running_loop().create_task(_ignore_failure(resolve_caller(found)))
        self._tasks.add(asking)
        asking.add_done_callback(self._tasks.discard)
        return None


async def _ignore_failure(pending: Any) -> None:
    try:
        await pending
    except AuthenticationFailed:
        return


class HubPeer:
    """One connection's, for as long as it lasts."""

    __slots__ = ("_max_bytes", "_on_close", "_reauthenticate", "_send", "_socket")

    def __init__(
        self,
        send: Send | None = None,
        reauthenticate: Callable[[], AuthResult] | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._send = send
        self._reauthenticate = reauthenticate  # proves anew who it is
        self._max_bytes = max_bytes
        self._socket: PeerSocket | None = None
        self._on_close: dict[str, Callable[[], None]] = {}

    @property
    def address(self) -> IpAddress | None:
        """Where it is; None where nobody knows."""
        return None

    def transport(self, replica: str) -> WebSocketTransport | None:
        """The line on which a tool server is called that opened this socket; None where there is no socket."""
        if self._send is None:
            return None
        if self._socket is None:
            self._socket = PeerSocket(self._write, self._max_bytes)
        return self._socket.transport_for(replica)

    def handle_report(self, body: bytes) -> bool:
        """Whether this was said about a call that was made on the line."""
        return self._socket is not None and self._socket.handle_frame(body)

    def on_close(self, key: str, callback: Callable[[], None]) -> None:
        """Let somebody hear when the socket is closed, in place of what was said for them before."""
        self._on_close[key] = callback

    def remove_on_close(self, key: str) -> None:
        """They need not hear of it any more."""
        self._on_close.pop(key, None)

    def credential_check(self) -> Callable[[], bool | None]:
        """What tells later whether what it brought is still good; None where that is not known."""
        return _always_valid if self._reauthenticate is None else CredentialRecheck(self._reauthenticate)

    def close(self) -> None:
        """The socket is closed: what runs on it is lost."""
        if self._socket is not None:
            self._socket.on_closed()
        for callback in tuple(self._on_close.values()):
            callback()

    async def _write(self, body: bytes) -> None:
        if self._send is not None:
            await self._send({"type": "websocket.send", "text": body.decode()})


def _always_valid() -> bool:
    return True


UNKNOWN_PEER = HubPeer()


class HttpPeer(HubPeer):
    """Whoever posts one message; hardly any message asks where that is."""

    __slots__ = ("_authenticator", "_headers", "_scope")

    def __init__(self, scope: Scope, headers: Headers, authenticator: RequestAuthenticator | None = None) -> None:
        super().__init__()
        self._scope = scope
        self._headers = headers
        self._authenticator = authenticator

    @property
    def address(self) -> IpAddress | None:
        """Of the connection itself; where a proxy speaks for somebody else, nobody knows where that is."""
        if not FORWARDING_HEADERS.isdisjoint(self._headers):
            return None
        try:
            return ip_address(client_address(self._scope))
        except ValueError:
            return None

    def credential_check(self) -> Callable[[], bool | None]:
        """By the same headers, from the same address."""
        if self._authenticator is None:
            return _always_valid
        scope = {name: self._scope[name] for name in _SCOPE_KEYS if name in self._scope}
        return CredentialRecheck(partial(self._authenticator.authenticate, scope, self._headers))


class _JoinRequest(msgspec.Struct):
    """What a tool server sends to join."""

    server: str
    replica: str
    tools: list[JsonObject]
    url: str | None = None  # where it listens; None: it is called on the socket that it opened
    token: str | None = None  # what the hall proves itself by, there

    def __repr__(self) -> str:
        return f"_Join({self.server!r})"


class JoinEndpoint:
    """The hub's methods join, heartbeat and leave."""

    def __init__(
        self, dispatcher: Dispatcher, registration: RegistrationService, leases: LeaseManager, connect: ConnectTransport
    ) -> None:
        self._dispatcher = dispatcher
        self._registration = registration
        self._leases = leases
        self._connect = connect

    async def join(self, params: JsonObject, caller: Caller, peer: HubPeer) -> Json:
        """Keep what it declares, and call it from now on; what is new and not trusted is quarantined."""
        asked = parse_join(params)
        papers = [DefinitionDocument(document, catalog.name, asked.server) for document in asked.tools]
        change = AdminOperation(f"{JOIN} {asked.server}", catalog.name, params | {"token": None}, personal=True)
        return await self._dispatcher.admin(change, caller, lambda: self._join(asked, papers, caller, peer))

    async def heartbeat(self, params: JsonObject, caller: Caller) -> Json:
        """It is still there, and hears how its tools are."""
        lease, status = _lease_id(params), params.get("status", "healthy")
        replica = self._leases.heartbeat(lease, caller.id, str(status))
        return {"status": "ok", "tools": self._states(replica.info)}

    async def leave(self, params: JsonObject, caller: Caller) -> Json:
        """It gets no new calls; answered when none runs any more."""
        lease = _lease_id(params)
        change = AdminOperation(LEAVE, catalog.name, {}, personal=True)
        running = await self._dispatcher.admin(change, caller, lambda: self._leases.leave(lease, caller.id))
        return {"status": "left", "running": running}

    async def _join(
        self, request: _JoinRequest, documents: list[DefinitionDocument], caller: Caller, peer: HubPeer
    ) -> Json:
        if self._registration.write_lock.read_only_reason is not None:
            raise Denied(self._registration.write_lock.read_only_reason)
        kits = frozenset((tool.id.toolkit, tool.id.version) for paper in documents for tool in paper.tools)
        joined = ReplicaInfo(request.server, request.replica, caller.id, kits, request.url is not None)
        self._check_may_serve(joined, caller)
        line = self._transport(request, peer)
        try:
            if joined.listens:
                await _probe(line, request.url or "")
            await self._enroll(documents, joined, caller)
            lease = self._leases.join(joined, line, peer.credential_check())
        except BaseException:
            if joined.listens:  # nobody else has it
                line.close()
            raise
        if not joined.listens:
            peer.on_close(request.replica, lambda: self._leases.on_socket_closed(lease.id))
            lease.on_end = lambda: peer.remove_on_close(request.replica)
        terms = {"heartbeat": HEARTBEAT_SECONDS, "expires": EXPIRY_SECONDS}
        return {"lease": lease.id, **terms, "tools": self._states(joined)}

    async def _enroll(self, documents: list[DefinitionDocument], replica: ReplicaInfo, caller: Caller) -> None:
        trusted = not caller.scopes.isdisjoint((ADMIN, TRUSTED_SERVER))
        source = RegistrationSource("tool-server", caller.id, time.time(), replica.server)
        # Somebody else may have registered the same toolkit meanwhile: that is known once it is our turn.
        await self._registration.register_declared(
            documents, source, lambda: self._check_may_serve(replica, caller), trusted=trusted
        )

    def _check_may_serve(self, replica: ReplicaInfo, caller: Caller) -> None:
        for toolkit in {toolkit for toolkit, _ in replica.toolkits}:
            self._check_may_serve_toolkit(toolkit, caller)

    def _check_may_serve_toolkit(self, toolkit: str, caller: Caller) -> None:
        """Who may run everything may not take over what somebody else has registered."""
        explicit, owners = serve_scope(toolkit), self._registration.index.owners(toolkit)
        if ADMIN in caller.scopes or explicit in caller.scopes:
            return
        if SERVE_ALL not in caller.scopes:
            raise Denied(f"this caller may not run {toolkit}; its key needs the scope {explicit}", scopes=(explicit,))
        if owners - {caller.id}:
            raise Denied(f"{toolkit} was registered by another caller; the key needs {explicit}", scopes=(explicit,))

    def _transport(self, request: _JoinRequest, peer: HubPeer) -> Transport:
        if request.url is None:
            line = peer.transport(request.replica)
            if line is None:
                raise Malformed("give the url where the tool server listens, or join over a WebSocket to /hub")
            return line
        if request.token is None or not _SECRET_TEXT.fullmatch(request.token):
            raise Malformed("token is a secret of 16 to 256 letters and digits that the hall sends with every call")
        try:
            return self._connect(request.url, Secret(request.token), peer.address)
        except EgressRefused as refused:
            raise Malformed(f"the hall does not call there: {refused}") from None

    def _states(self, replica: ReplicaInfo) -> JsonObject:
        ledger = self._registration.index
        return {name: state for kit in sorted(replica.toolkits) for name, state in ledger.tool_states(*kit).items()}


def may_serve(caller: Caller) -> bool:
    """Whether there is anything that it may run for the hall."""
    return any(scope == ADMIN or scope.startswith(_SERVE_PREFIX) for scope in caller.scopes)


async def _probe(transport: Transport, url: str) -> None:
    """Raise Malformed unless a tool server answers there: it gets no call before that."""
    probe_id = f"h{secrets.token_hex(8)}"
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await transport.request(write_request(probe_id, HEALTH, {}), probe_id)
    except CallLost as lost:
        why = lost.reason
    except TimeoutError:
        why = f"no answer to {HEALTH} within {REACH_SECONDS:g} seconds"
    else:
        return
    raise Malformed(
        f"the hall cannot reach {display_url(url)}: {why}; is it the address that the hall sees?"
        " Give another one with --advertise"
    )


def parse_join(params: JsonObject) -> _JoinRequest:
    """The params of `join`; Malformed for what cannot be."""
    try:
        asked = msgspec.convert(params, _JoinRequest)
    except msgspec.ValidationError as error:
        raise Malformed(f"join cannot be read: {error}") from None
    if not _SERVER_NAME.fullmatch(asked.server):
        raise Malformed("server is a name of at most 64 letters, digits, '.', '_' and '-'")
    if not _SECRET_TEXT.fullmatch(asked.replica):
        raise Malformed("replica is a random text of 16 to 256 letters and digits, new in every process")
    if not 0 < len(asked.tools) <= MAX_TOOLKITS:
        raise Malformed(f"tools is a list of 1 to {MAX_TOOLKITS} declarations")
    return asked


def _lease_id(params: JsonObject) -> str:
    lease = params.get("lease")
    if not isinstance(lease, str):
        raise Malformed("lease is what join returned")
    return lease
