"""`/api/servers`: the tool servers that have joined or declared tools, their replicas; drain and forget one.

Draining is for maintenance: the replicas finish their calls, get no new ones, and stay joined, so that a process can be
stopped without a lost call. A process that joins again, as after its restart, takes calls again. Forgetting removes
what a tool server declared that runs nowhere any more; the history of these tools is kept.
"""

from collections.abc import Collection, Iterable

from toolhall.execution.remote.leases import LeaseManager
from toolhall.execution.remote.replica import Replica
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.http.api.base import (
    EmptyBody,
    ItemHandlers,
    ManagementContext,
    dispatch_below,
    iso_time,
    json_response,
    parse_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.api.tool_summaries import server_of
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import WireResponse
from toolhall.stores.tools import ToolRecord

PREFIX = "/api/servers/"


class ToolServersApi:
    """`/api/servers`: observers see all of them, administrators drain and forget them."""

    def __init__(
        self, context: ManagementContext, pools: ReplicaPools, leases: LeaseManager, validator: RequestValidator
    ) -> None:
        self._context = context
        self._pools = pools
        self._leases = leases
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of tool servers."""
        message = "there is nothing here; /api/servers/NAME is a tool server, /api/servers/NAME/drain drains it"
        return {"/api/servers": {"GET": self.servers}, PREFIX: dispatch_below(self._actions, message)}

    def _actions(self, request: HttpRequest) -> tuple[str, ItemHandlers] | None:
        match request.path_segments(PREFIX):
            case [str(name)] if name:
                return name, {"DELETE": self._forget}
            case [str(name), "drain"] if name:
                return name, {"POST": self._drain}
            case _:
                return None

    async def servers(self, request: HttpRequest) -> None:
        """`GET /api/servers`."""
        await respond(request, self._list(request))

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        replicas = self._replicas_by_server()
        gone = self._vanished_servers(replicas)
        rows = [self._live_row(name, several) for name, several in replicas.items()]
        rows += [_gone_row(name, records) for name, records in gone.items()]
        return json_response({"servers": sorted(rows, key=lambda row: str(row["name"]))})

    async def needs(self, caller: Caller) -> JsonObject:
        """Return how many tool servers there are, and which of them are not healthy; none for who may not see them."""
        if not self._context.dispatcher.admin.may_observe(caller):
            return {"count": 0, "unwell": []}
        replicas = self._replicas_by_server()
        states, gone = self._pools.server_states(), self._vanished_servers(replicas)
        unwell = [*gone, *(name for name in replicas if states[name] != "healthy")]
        return {"count": len(gone) + len(replicas), "unwell": sorted(unwell)}

    async def _drain(self, request: HttpRequest, name: str) -> WireResponse:
        """`POST /api/servers/{name}/drain`."""

        async def apply() -> JsonObject:
            if not self._leases.drain(name):
                raise NotFound("no replica of such a tool server has joined; GET /api/servers lists them")
            return self._live_row(name, self._replicas_by_server()[name])

        body = await self._read_empty_body(request)
        return json_response(await self._context.change(f"drain server {name}", body, request.caller, apply))

    async def _forget(self, request: HttpRequest, name: str) -> WireResponse:
        """`DELETE /api/servers/{name}`."""

        async def apply() -> None:
            replicas = self._replicas_by_server()
            if name in replicas:
                raise Malformed(f"{len(replicas[name])} replicas of {name[:128]} are joined; drain and stop them first")
            gone = self._vanished_servers(replicas)
            if name not in gone:
                raise NotFound("there is no such tool server; GET /api/servers lists them")
            for record in gone[name]:
                await self._context.registration.remove(record.id, request.caller.id)
            self._pools.forget_server(name)

        body = await self._read_empty_body(request)
        await self._context.change(f"forget server {name}", body, request.caller, apply)
        return json_response({"removed": name})

    async def _read_empty_body(self, request: HttpRequest) -> Json:
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)
        return body

    def _replicas_by_server(self) -> dict[str, list[Replica]]:
        found: dict[str, list[Replica]] = {}
        for replica in self._pools:
            found.setdefault(replica.server, []).append(replica)
        return found

    def _vanished_servers(self, live: Collection[str]) -> dict[str, tuple[ToolRecord, ...]]:
        """Return the servers without a replica, with the tools that they declared and that nobody else runs."""
        found = {name: list[ToolRecord]() for name in self._pools.server_states() if name not in live}
        for record in self._context.registration.all_records:
            server = server_of(record)
            if server is None or server in live or self._pools.has_replicas((record.toolkit, record.version)):
                continue
            found.setdefault(server, []).append(record)
        return {name: tuple(records) for name, records in found.items()}

    def _live_row(self, name: str, replicas: Iterable[Replica]) -> JsonObject:
        several = tuple(replicas)
        return {
            "name": name,
            "state": self._pools.server_states()[name],
            "toolkits": sorted({toolkit for replica in several for toolkit, _ in replica.info.toolkits}),
            "caller": ", ".join(sorted({replica.caller_id for replica in several})),
            "replicas": [self._replica_json(replica) for replica in several],
        }

    def _replica_json(self, replica: Replica) -> JsonObject:
        now, left = self._context.clock(), self._leases.seconds_left(replica)
        versions = {version for _, version in replica.info.toolkits}
        probed = replica.last_probe_at
        return {
            "id": replica.id,
            "state": _state(replica),
            "since": iso_time(now - self._pools.seconds_ago(replica.joined_at)),
            "leaseEndsAt": None if left is None else iso_time(now + left),
            "callsInFlight": replica.running,
            "lastProbeAt": None if probed is None else iso_time(now - self._pools.seconds_ago(probed)),
            "lastProbeOk": None if probed is None else replica.last_probe_succeeded,
            "breaker": replica.circuit.state.replace("-", "_"),
            "version": versions.pop() if len(versions) == 1 else None,
            "transport": "http" if replica.info.listens else "websocket",
            "address": replica.info.address,
            "draining": replica.draining,
        }


def _state(replica: Replica) -> str:
    if replica.draining:
        return "draining"
    if not any(replica.accepts_call(toolkit) for toolkit, _ in replica.info.toolkits):
        return "unhealthy"
    return "degraded" if replica.is_degraded() else "healthy"


def _gone_row(name: str, records: Collection[ToolRecord]) -> JsonObject:
    return {
        "name": name,
        "state": "gone",
        "toolkits": sorted({record.toolkit for record in records}),
        "caller": ", ".join(sorted({record.by for record in records})),
        "replicas": [],
    }
