"""`UpstreamManager`: the connections of all upstreams, their runner, statuses and metrics, in the serving loop."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import get_args

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.execution.upstream.check import CheckStep, CheckTools, check_upstream
from toolhall.execution.upstream.connection import ConnectingSlots, SyncListing, UpstreamConnection, UpstreamServices
from toolhall.execution.upstream.credentials import SessionOpener, UpstreamCredentials
from toolhall.execution.upstream.runner import UpstreamRunner
from toolhall.model.errors import NotFound
from toolhall.model.upstream import Upstream, UpstreamState, UpstreamStatus
from toolhall.telemetry import Metric

MAX_CONNECTING = 8  # at a time
RUNNING_CALLS_SECONDS = 30.0  # for which `close` lets calls end


class ManagerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an UpstreamManager is told of its hall."""

    hall_id: str  # random, and the same for all processes of the hall
    local: bool = False  # the profile `local`
    idempotent: tuple[str, ...] = ()  # globs of tools that may run twice
    note_server: Callable[[str, str], None] = lambda _call_id, _server: None
    on_resource_updated: Callable[[str, str], None] = lambda _upstream, _uri: None
    shown_uri: Callable[[str, str], str] = lambda _upstream, uri: uri  # of a resource, which may be another one here
    check_tools: CheckTools = CheckTools()
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time


class UpstreamManager:
    """States, sessions and syncs of all upstreams."""

    def __init__(
        self,
        open_session: SessionOpener,
        sync: SyncListing,
        credentials: UpstreamCredentials,
        options: ManagerOptions,
    ) -> None:
        """`sync` takes what an upstream lists into the registry; what it raises is shown as the upstream's reason."""
        self._services = UpstreamServices(
            open_session=open_session,
            sync=sync,
            credentials=credentials,
            on_resource_updated=options.on_resource_updated,
            connecting=ConnectingSlots(MAX_CONNECTING),
            local=options.local,
            clock=options.clock,
            wall_clock=options.wall_clock,
        )
        self._connections: dict[str, UpstreamConnection] = {}
        self._check_tools = options.check_tools
        self._is_running = False
        self._ending = BackgroundTasks()
        self.runner = UpstreamRunner(
            self._connections,
            options.hall_id,
            options.idempotent,
            options.note_server,
            options.clock,
            options.shown_uri,
        )

    def configure(self, upstreams: Mapping[str, Upstream]) -> None:
        """Take over these upstreams; only what changed is touched, and running calls end first."""
        for name, connection in list(self._connections.items()):
            if upstreams.get(name) != connection.upstream:
                self._remove(connection)
        for name, upstream in upstreams.items():
            if name not in self._connections:
                self._connections[name] = connection = UpstreamConnection(upstream, self._services)
                if self._is_running:
                    connection.start()

    def start(self) -> None:
        """Reach the upstreams in the background from now on, in the running loop."""
        self._is_running = True
        self._services.connecting.renew()
        for connection in self._connections.values():
            connection.start()

    def suspend(self) -> None:
        """Stop reaching upstreams, and end each session with its last call; `start` begins anew."""
        self._is_running = False
        for connection in list(self._connections.values()):
            self._remove(connection)
            self._connections[connection.name] = UpstreamConnection(connection.upstream, self._services)

    async def close(self) -> None:
        """End everything: sessions, children, waiting calls; `start` begins anew, also in another loop."""
        self._is_running = False
        await self.runner.parked.close()
        connections = list(self._connections.values())
        for each in connections:
            self._connections[each.name] = UpstreamConnection(each.upstream, self._services)
        await asyncio.gather(*(each.close() for each in connections), return_exceptions=True)
        await self.runner.stragglers.shutdown()
        await self._ending.shutdown(RUNNING_CALLS_SECONDS)
        for each in connections:  # for a later `start`, perhaps in another loop
            self._connections[each.name] = UpstreamConnection(each.upstream, self._services)

    def connection(self, name: str) -> UpstreamConnection:
        """The connection of an upstream; raises NotFound."""
        connection = self._connections.get(name)
        if connection is None:
            raise NotFound(f"there is no upstream {name[:64]!r}")
        return connection

    def statuses(self) -> tuple[UpstreamStatus, ...]:
        """What is known of each upstream now."""
        return tuple(map(self._status, self._connections.values()))

    def status(self, name: str) -> UpstreamStatus:
        """What is known of one upstream now; raises NotFound."""
        return self._status(self.connection(name))

    def watch(self, name: str, uri: str, *, watched: bool) -> None:
        """Hear of changes of a resource of an upstream, by its URI there, or no more."""
        connection = self._connections.get(name)
        if connection is not None:
            connection.watch(uri, watched=watched)

    async def sync_now(self, name: str) -> None:
        """List and sync an upstream now; raises NotFound, or Unavailable with the reason."""
        await self.connection(name).sync_now()

    async def check(self, checked: str | Upstream) -> tuple[CheckStep, ...]:
        """Look step by step whether an upstream can be used, in a session of its own; a name is tried again at once."""
        if isinstance(checked, str):
            connection = self.connection(checked)
            steps = await check_upstream(connection.upstream, self._services, self._check_tools)
            connection.retry_now()
            return steps
        return await check_upstream(checked, self._services, self._check_tools)

    def metrics(self) -> Iterator[Metric]:
        """Figures of all upstreams; labels are words of this package only."""
        for state in get_args(UpstreamState):
            yield Metric(
                "toolhall_upstreams", "gauge", "Upstreams by state.", partial(self._in_state, state), {"state": state}
            )
        total = self._total
        yield Metric("toolhall_upstream_sessions", "gauge", "Open sessions with upstreams.", partial(total, "sessions"))
        yield Metric("toolhall_upstream_children", "gauge", "Child processes of upstreams.", partial(total, "children"))
        restarts, lost = partial(total, "restarts"), partial(total, "lost_calls")
        yield Metric("toolhall_upstream_restarts_total", "counter", "Children that ended by themselves.", restarts)
        yield Metric("toolhall_upstream_syncs_total", "counter", "Syncs of lists.", partial(total, "syncs"))
        yield Metric("toolhall_upstream_calls_lost_total", "counter", "Calls whose outcome is not known.", lost)
        parked = self.runner.parked
        yield Metric("toolhall_upstream_parked_calls", "gauge", "Calls that wait for a person.", lambda: len(parked))

    # --- private ---

    def _remove(self, connection: UpstreamConnection) -> None:
        """Let running calls end, and then the connection; calls that wait for a person are cancelled."""
        del self._connections[connection.name]
        self.runner.parked.end_all(connection.name)
        self._ending.start(connection.stop_and_wait())

    def _in_state(self, state: str) -> float:
        return float(sum(each.state == state for each in self._connections.values()))

    def _total(self, figure: str) -> float:
        return float(sum(getattr(each, figure) for each in self.statuses()))

    def _status(self, connection: UpstreamConnection) -> UpstreamStatus:
        server, open_sessions = connection.server, len(connection.pool)
        return UpstreamStatus(
            name=connection.name,
            state=connection.state,
            reason=connection.reason,
            revision=None if server is None else server.revision.name,
            era=connection.era,
            server_name=None if server is None else server.name,
            server_version=None if server is None else server.version,
            since=connection.since,
            sessions=open_sessions,
            children=open_sessions if connection.is_command else 0,
            restarts=connection.restarts,
            syncs=connection.syncs,
            last_sync=connection.last_sync,
            next_try=connection.next_try,
            lost_calls=connection.lost_calls,
            parked_calls=self.runner.parked.count(connection.name),
        )
