"""Joining of tool servers: `JoinEndpoint` handles join, heartbeat and leave; `HubPeer` is the sender of a message.

A tool server is called at the URL that it gives, or over the WebSocket that it opened (`HubPeer.transport`).
`CredentialRecheck` tells the lease whether the credential is still valid.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from typing import TypeAlias

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
)
from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.hub import catalog
from toolhall.dialects.hub.call_messages import HEALTH, write_request
from toolhall.dialects.hub.lease_messages import JOIN, LEAVE
from toolhall.egress.addresses import EgressRefused, IpAddress
from toolhall.egress.exchange import ExchangeLost
from toolhall.egress.urls import display_url
from toolhall.execution.remote.leases import EXPIRY_SECONDS, HEARTBEAT_SECONDS, LeaseManager
from toolhall.execution.remote.replica import ReplicaInfo
from toolhall.execution.remote.replica_transport import MAX_MESSAGE_BYTES, Transport
from toolhall.execution.remote.websocket_transport import PeerSocket, WebSocketTransport
from toolhall.http.request import WebSocketExtension
from toolhall.model.caller import ADMIN, SERVE_ALL, TRUSTED_SERVER, Caller, serve_scope
from toolhall.model.errors import Denied, Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import Secret
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.records import DefinitionDocument, RegistrationSource
from toolhall.registration.service import RegistrationService

_SCOPE_KEYS = ("type", "path", "method", "client")  # the rest of the scope refers to the connection
MAX_TOOLKITS = 100
REACH_SECONDS = 2.0
ConnectTransport: TypeAlias = Callable[[str, Secret, IpAddress | None], Transport]  # url, token, peer address
_SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SERVE_PREFIX = serve_scope("")
_SECRET_TEXT = re.compile(r"[A-Za-z0-9._~+/=-]{16,256}")


class CredentialRecheck:
    """Tells whether the credential of a tool server is still valid: not revoked, not expired."""

    def __init__(self, reauthenticate: Callable[[], AuthResult]) -> None:
        self._reauthenticate = reauthenticate
        self._tasks = BackgroundTasks()

    def __call__(self) -> bool | None:
        """Return whether it is valid; None if that takes a fetch, which runs now and is cached for the next check."""
        try:
            result = self._reauthenticate()
        except AuthenticationFailed:
            return False
        if isinstance(result, Caller):
            return True
        self._tasks.start(_ignore_failure(result))
        return None


async def _ignore_failure(pending: Awaitable[Caller]) -> None:
    try:
        await pending
    except AuthenticationFailed:
        return


class HubPeer:
    """The sender of hub messages on one connection."""

    __slots__ = ("_extension", "_max_bytes", "_on_close", "_reauthenticate", "_send", "_socket")

    def __init__(
        self,
        send: Send | None = None,
        reauthenticate: Callable[[], AuthResult] | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
        extension: WebSocketExtension | None = None,
    ) -> None:
        self._send = send
        self._extension = extension
        self._reauthenticate = reauthenticate  # verifies the credential again
        self._max_bytes = max_bytes
        self._socket: PeerSocket | None = None
        self._on_close: dict[str, Callable[[], None]] = {}

    @property
    def address(self) -> IpAddress | None:
        """The IP address of the peer; None if unknown."""
        return None

    def transport(self, replica: str) -> WebSocketTransport | None:
        """Return the transport to call a replica on this WebSocket; None without a WebSocket."""
        if self._send is None:
            return None
        if self._socket is None:
            send_now = None if self._extension is None else self._extension.send_text
            self._socket = PeerSocket(self._write, self._max_bytes, send_now)
            if self._extension is not None:
                self._extension.take_text(self._socket.handle_frame)
        return self._socket.transport_for(replica)

    def handle_report(self, body: bytes) -> bool:
        """Whether the message belongs to a call over this transport, which has received it."""
        return self._socket is not None and self._socket.handle_frame(body)

    def on_close(self, key: str, callback: Callable[[], None]) -> None:
        """Call this when the WebSocket is closed; replaces the callback of the same key."""
        self._on_close[key] = callback

    def remove_on_close(self, key: str) -> None:
        """Remove the callback of this key."""
        self._on_close.pop(key, None)

    def credential_check(self) -> Callable[[], bool | None]:
        """Return a function that tells later whether the credential is still valid; it returns None if unknown."""
        return _always_valid if self._reauthenticate is None else CredentialRecheck(self._reauthenticate)

    def close(self) -> None:
        """The WebSocket is closed: fail the calls on it and run the callbacks."""
        if self._socket is not None:
            self._socket.on_closed()
        if self._extension is not None:
            self._extension.take_text(None)
        for callback in tuple(self._on_close.values()):
            callback()

    def _write(self, body: bytes) -> Awaitable[None]:
        if self._send is None:
            raise RuntimeError("only the sender on a WebSocket has a transport")
        return self._send({"type": "websocket.send", "text": body.decode()})


def _always_valid() -> bool:
    return True


UNKNOWN_PEER = HubPeer()


class HttpPeer(HubPeer):
    """The sender of one posted message."""

    __slots__ = ("_authenticator", "_headers", "_scope")

    def __init__(self, scope: Scope, headers: Headers, authenticator: RequestAuthenticator | None = None) -> None:
        super().__init__()
        self._scope = scope
        self._headers = headers
        self._authenticator = authenticator

    @property
    def address(self) -> IpAddress | None:
        """The address of the connection; None if a proxy forwarded the request."""
        if not FORWARDING_HEADERS.isdisjoint(self._headers):
            return None
        try:
            return ip_address(client_address(self._scope))
        except ValueError:
            return None

    def credential_check(self) -> Callable[[], bool | None]:
        """Check the same headers from the same address again."""
        if self._authenticator is None:
            return _always_valid
        scope = {name: self._scope[name] for name in _SCOPE_KEYS if name in self._scope}
        return CredentialRecheck(partial(self._authenticator.authenticate, scope, self._headers))


class _JoinRequest(msgspec.Struct):
    """The parameters of `join`."""

    server: str
    replica: str
    tools: list[JsonObject]
    url: str | None = None  # where it listens; None: it is called over its WebSocket
    token: str | None = None  # the credential of the hall there

    def __repr__(self) -> str:
        return f"_JoinRequest({self.server!r})"


class JoinEndpoint:
    """The hub methods join, heartbeat and leave."""

    def __init__(
        self, dispatcher: Dispatcher, registration: RegistrationService, leases: LeaseManager, connect: ConnectTransport
    ) -> None:
        self._dispatcher = dispatcher
        self._registration = registration
        self._leases = leases
        self._connect = connect

    async def join(self, params: JsonObject, caller: Caller, peer: HubPeer) -> Json:
        """Register the declared toolkits and start calling the replica; untrusted new tools are quarantined."""
        request = parse_join(params)
        documents = [DefinitionDocument(document, catalog.name, request.server) for document in request.tools]
        operation = AdminOperation(f"{JOIN} {request.server}", catalog.name, params | {"token": None}, personal=True)
        return await self._dispatcher.admin(operation, caller, lambda: self._join(request, documents, caller, peer))

    async def heartbeat(self, params: JsonObject, caller: Caller) -> Json:
        """Renew the lease and return the states of its tools."""
        lease, status = _lease_id(params), params.get("status", "healthy")
        replica = self._leases.heartbeat(lease, caller.id, str(status))
        return {"status": "ok", "tools": self._states(replica.info)}

    async def leave(self, params: JsonObject, caller: Caller) -> Json:
        """Send no new calls; respond when none is running any more."""
        lease = _lease_id(params)
        operation = AdminOperation(LEAVE, catalog.name, {}, personal=True)
        running = await self._dispatcher.admin(operation, caller, lambda: self._leases.leave(lease, caller.id))
        return {"status": "left", "running": running}

    async def _join(
        self, request: _JoinRequest, documents: list[DefinitionDocument], caller: Caller, peer: HubPeer
    ) -> Json:
        if self._registration.write_lock.read_only_reason is not None:
            raise Denied(self._registration.write_lock.read_only_reason)
        toolkits = frozenset((tool.id.toolkit, tool.id.version) for document in documents for tool in document.tools)
        address = None if request.url is None else _origin(request.url)
        replica = ReplicaInfo(
            request.server, request.replica, caller.id, toolkits, listens=request.url is not None, address=address
        )
        self._check_may_serve(replica, caller)
        transport = self._transport(request, peer)
        try:
            if replica.listens:
                await _probe(transport, request.url or "")
            await self._enroll(documents, replica, caller)
            lease = self._leases.join(replica, transport, peer.credential_check())
        except BaseException:
            if replica.listens:  # not in use yet
                transport.close()
            raise
        if not replica.listens:
            peer.on_close(request.replica, lambda: self._leases.on_socket_closed(lease.id))
            lease.on_end = lambda: peer.remove_on_close(request.replica)
        intervals = {"heartbeat": HEARTBEAT_SECONDS, "expires": EXPIRY_SECONDS}
        return {"lease": lease.id, **intervals, "tools": self._states(replica)}

    async def _enroll(self, documents: list[DefinitionDocument], replica: ReplicaInfo, caller: Caller) -> None:
        trusted = not caller.scopes.isdisjoint((ADMIN, TRUSTED_SERVER))
        source = RegistrationSource("tool-server", caller.id, time.time(), replica.server)
        # Checked again under the write lock: another caller may have registered the toolkit meanwhile.
        await self._registration.register_declared(
            documents, source, lambda: self._check_may_serve(replica, caller), trusted=trusted
        )

    def _check_may_serve(self, replica: ReplicaInfo, caller: Caller) -> None:
        for toolkit in {toolkit for toolkit, _ in replica.toolkits}:
            self._check_may_serve_toolkit(toolkit, caller)

    def _check_may_serve_toolkit(self, toolkit: str, caller: Caller) -> None:
        """Raise Denied unless the scopes allow it; `serve:*` does not cover toolkits that another caller registered."""
        explicit, owners = serve_scope(toolkit), self._registration.index.owners(toolkit)
        if ADMIN in caller.scopes or explicit in caller.scopes:
            return
        if SERVE_ALL not in caller.scopes:
            raise Denied(f"this caller may not run {toolkit}; its key needs the scope {explicit}", scopes=(explicit,))
        if owners - {caller.id}:
            raise Denied(f"{toolkit} was registered by another caller; the key needs {explicit}", scopes=(explicit,))

    def _transport(self, request: _JoinRequest, peer: HubPeer) -> Transport:
        if request.url is None:
            transport = peer.transport(request.replica)
            if transport is None:
                raise Malformed("give the url where the tool server listens, or join over a WebSocket to /hub")
            return transport
        if request.token is None or not _SECRET_TEXT.fullmatch(request.token):
            raise Malformed("token is a secret of 16 to 256 letters and digits that the hall sends with every call")
        try:
            return self._connect(request.url, Secret(request.token), peer.address)
        except EgressRefused as refused:
            raise Malformed(f"the hall does not call there: {refused}") from None

    def _states(self, replica: ReplicaInfo) -> JsonObject:
        index = self._registration.index
        return {
            name: state for toolkit in sorted(replica.toolkits) for name, state in index.tool_states(*toolkit).items()
        }


def may_serve(caller: Caller) -> bool:
    """Whether the caller may serve any toolkit for the hall."""
    return any(scope == ADMIN or scope.startswith(_SERVE_PREFIX) for scope in caller.scopes)


async def _probe(transport: Transport, url: str) -> None:
    """Raise Malformed unless a tool server responds at the URL; it gets no call before that."""
    probe_id = f"h{secrets.token_hex(8)}"
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await transport.request(write_request(probe_id, HEALTH, {}), probe_id)
    except ExchangeLost as lost:
        reason = lost.reason
    except TimeoutError:
        reason = f"no answer to {HEALTH} within {REACH_SECONDS:g} seconds"
    else:
        return
    raise Malformed(
        f"the hall cannot reach {display_url(url)}: {reason}; is it the address that the hall sees?"
        " Give another one with --advertise"
    )


def parse_join(params: JsonObject) -> _JoinRequest:
    """Parse the parameters of `join`; Malformed names the parameter that is wrong."""
    try:
        request = msgspec.convert(params, _JoinRequest)
    except msgspec.ValidationError as error:
        raise Malformed(f"join cannot be read: {error}") from None
    if not _SERVER_NAME.fullmatch(request.server):
        raise Malformed("server is a name of at most 64 letters, digits, '.', '_' and '-'")
    if not _SECRET_TEXT.fullmatch(request.replica):
        raise Malformed("replica is a random text of 16 to 256 letters and digits, new in every process")
    if not 0 < len(request.tools) <= MAX_TOOLKITS:
        raise Malformed(f"tools is a list of 1 to {MAX_TOOLKITS} declarations")
    return request


def _lease_id(params: JsonObject) -> str:
    lease = params.get("lease")
    if not isinstance(lease, str):
        raise Malformed("lease is what join returned")
    return lease


def _origin(url: str) -> str:
    """Return scheme, host and port of a URL, without credentials and path."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
