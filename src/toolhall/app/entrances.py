"""Every way into a hall: the paths, the sockets, the lines, and the dialect that each speaks."""

import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

from toolhall.app.calls import Parts, call_ids
from toolhall.config import Config
from toolhall.dialects.mcp.write import Server
from toolhall.dialects.openapi.catalog import Info
from toolhall.hall import Hall
from toolhall.registrar.registrar import Registrar
from toolhall.runners.checkup import DEGRADED, HEALTHY, UNHEALTHY
from toolhall.stores.seal import Seal
from toolhall.stores.states import StateStore
from toolhall.transports.api.accounts import AccountsApi
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.secrets import SecretsApi
from toolhall.transports.api.tools import Api
from toolhall.transports.description import Description
from toolhall.transports.health import Health
from toolhall.transports.http import HttpApp, Methods
from toolhall.transports.hub import Hub, HubHttp, configure
from toolhall.transports.joining import Joining
from toolhall.transports.line_dialect import serve_lines
from toolhall.transports.lines import standard_lines
from toolhall.transports.listing import Listing
from toolhall.transports.machine import Machine, MachineHttp
from toolhall.transports.mcp.http import McpHttp
from toolhall.transports.mcp.legacy_http import LegacyHttp
from toolhall.transports.mcp.modern import Modern
from toolhall.transports.mcp.rounds import Rounds
from toolhall.transports.mcp.stdio import McpStdio
from toolhall.transports.metrics import Metrics
from toolhall.transports.overload import RequestLimiter
from toolhall.transports.oxp import OxpHttp
from toolhall.transports.pages.connecting import link_pages
from toolhall.transports.pages.visiting import Visiting
from toolhall.transports.rest import Rest
from toolhall.transports.websocket import WebSocket

SPOKEN = ("mcp", "machine", "hub")  # over lines


class Entrances:
    """Made once the hall is there; `open` is what a server calls first."""

    def __init__(
        self,
        config: Config,
        parts: Parts,
        hall: Hall,
        registrar: Registrar,
        open: Callable[[], Awaitable[None]],  # noqa: A002
    ) -> None:
        self._config = config
        self._parts = parts
        self._hall = hall
        self._server = Server(name=config.name, version=version("toolhall"), instructions=config.instructions)
        self._rounds = Rounds(Seal(parts.folder.root), time.time)
        self._stopping = False
        self.machine = Machine(hall, registrar)
        self.hub = Hub(hall, registrar, configure, self.state, self._joining(registrar), parts.examine)
        legacy = LegacyHttp(hall, self._server, time.monotonic)
        self._mcp = McpHttp(hall, parts.guard.shield, self._modern(), legacy)
        managed = Managed(hall, registrar, parts.guard.access, parts.folder.journal, time.time, config.page_size)
        self.api = Api(managed, parts.guard.shield)
        self.http = self._app(open)

    def remember(self, states: StateStore) -> None:
        """From now on, the request states that were used are kept here, for all processes of the hall."""
        self._rounds.states = states

    def state(self) -> str:
        """How the hall is: degraded while records cannot be written or were cut off, unhealthy once it stops."""
        if self._stopping:
            return UNHEALTHY
        journal = self._parts.folder.journal
        return DEGRADED if journal.failing or journal.behind else HEALTHY

    async def serve_lines(self, dialect: str) -> None:
        """Speak one dialect on this process's own input and output, until the input ends."""
        most = self._config.max_body_bytes
        lines = await standard_lines(most)
        if dialect == "mcp":
            await McpStdio(self._hall, self._server, self._modern(), lines, most).run()
        else:
            await serve_lines(lines, self.machine.answer if dialect == "machine" else self.hub.answer, most)

    def end_streams(self) -> None:
        """Say goodbye to every client that holds a stream open; what runs may finish."""
        self._stopping = True
        self._mcp.end_streams()

    def close(self) -> None:
        """End every stream and every session."""
        self._mcp.close()
        self.machine.strangers.close()

    def _joining(self, registrar: Registrar) -> Joining:
        servers = self._parts.servers
        return Joining(self._hall, registrar, servers.leases, servers.line)

    def _modern(self) -> Modern:
        return Modern(self._hall, self._server, self._rounds)

    def _app(self, open: Callable[[], Awaitable[None]]) -> HttpApp:  # noqa: A002
        guard, sockets = self._parts.guard, {"/hub": self._socket()}
        app = HttpApp(guard.shield, guard.door.identity, self._endpoints(), sockets, open, guard.door.challenges)
        app.mounted = guard.people.place.mounted
        app.admission = admission = self._admission()
        self._parts.servers.leases.strained = lambda: admission.strained
        app.strangers = self.machine.strangers
        return app

    def _admission(self) -> RequestLimiter:
        """Strangers have few slots, unless they are who the hall is there for."""
        config = self._config
        strangers = config.max_concurrency if config.allow_anonymous else None
        return RequestLimiter(config.max_concurrency, per_caller=config.concurrency.per_caller, strangers=strangers)

    def _socket(self) -> WebSocket:
        return WebSocket(self.hub, self._config.max_body_bytes, self._config.max_frame_bytes)

    def _supplies(self) -> dict[str, Methods]:
        """How secrets are set and accounts are linked."""
        guard, supplies, managed = self._parts.guard, self._parts.supplies, self.api.managed
        visiting = Visiting(guard.people.sessions, guard.door.identity)
        return {
            **link_pages(supplies.broker, self._hall.manage, visiting, guard.people.place, time.time),
            **SecretsApi(managed, supplies.vault, guard.shield).endpoints(),
            **AccountsApi(managed, supplies.broker, guard.shield).endpoints(),
        }

    def _prefix(self) -> str:
        return self._parts.guard.people.place.prefix

    def _endpoints(self) -> dict[str, Methods]:
        """Every path that is served; one that ends with a slash serves all below it."""
        config, hall, guard = self._config, self._hall, self._parts.guard
        health, rest = Health(hall, self.state, self._parts.examine), Rest(hall, guard.shield, self._prefix)
        oxp = OxpHttp(hall, guard.shield, new_id=call_ids(), state=self.state)
        machine = MachineHttp(self.machine, guard.shield, guard.door.identity)
        info = Info(title=config.name, version=version("toolhall"), description=config.instructions)
        return {
            "/mcp": {"POST": self._mcp, "GET": self._mcp.other, "DELETE": self._mcp.other},
            "/oxp/health": {"GET": oxp.health, "HEAD": oxp.health},
            "/oxp/tools": {"GET": oxp.tools},
            "/oxp/tools/call": {"POST": oxp.call},
            "/hub": {"POST": HubHttp(self.hub, guard.shield)},
            "/machine": {"POST": machine.message},
            "/machine/tools": {"GET": machine.tools, "POST": machine.register},
            "/openapi.json": {"GET": Description(hall, info, self._prefix)},
            "/tools": {"GET": Listing(hall, config.page_size)},
            "/tools/": {"POST": rest.call},
            **self.api.endpoints(),
            **guard.door.endpoints,
            **guard.people.endpoints(self.api.managed, guard.shield, guard.door.identity),
            **self._supplies(),
            "/metrics": {"GET": Metrics(hall, self._parts.telemetry, public=config.public_metrics)},
            "/health": {"GET": health, "HEAD": health},
            "/health/live": {"GET": health.live, "HEAD": health.live},
            "/health/ready": {"GET": health.ready, "HEAD": health.ready},
        }
