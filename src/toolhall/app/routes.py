"""HallRoutes: every HTTP path, WebSocket and stdio dialect of a hall, and the component that serves each."""

import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

from toolhall.app.wiring import Components, call_id_generator
from toolhall.config import Config
from toolhall.dialects.mcp.responses import ServerInfo
from toolhall.dialects.openapi.catalog import OpenApiInfo
from toolhall.execution.health_checks import DEGRADED, HEALTHY, UNHEALTHY
from toolhall.http.api.accounts import AccountsApi
from toolhall.http.api.base import ManagementContext
from toolhall.http.api.secrets import SecretsApi
from toolhall.http.api.tools import ManagementApi
from toolhall.http.app import HttpApp
from toolhall.http.concurrency import ConcurrencyLimiter
from toolhall.http.health import HealthEndpoint, MetricsEndpoint
from toolhall.http.hub import HubHandler, HubHttp, apply_runtime_config
from toolhall.http.machine import MachineHandler, MachineHttp
from toolhall.http.oxp import OxpHttp
from toolhall.http.request import Methods
from toolhall.http.rest import OpenApiEndpoint, RestEndpoint, ToolListEndpoint
from toolhall.http.stdio_lines import open_stdio, serve_stdio
from toolhall.http.tool_server_join import JoinEndpoint
from toolhall.http.websocket import HubWebSocket
from toolhall.mcp.http import McpHttp, StatefulHttp
from toolhall.mcp.request_state import RequestState
from toolhall.mcp.stateless import StatelessMcp
from toolhall.mcp.stdio import McpStdio
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.service import RegistrationService
from toolhall.stores.crypto import SealedBox
from toolhall.stores.used_states import UsedStateStore
from toolhall.web.auth import PageAuth
from toolhall.web.page_routes import account_link_routes

STDIO_DIALECTS = ("mcp", "machine", "hub")  # over lines


class HallRoutes:
    """Made once the hall is there; `open` is what a server calls first."""

    def __init__(
        self,
        config: Config,
        components: Components,
        dispatcher: Dispatcher,
        registration: RegistrationService,
        open: Callable[[], Awaitable[None]],  # noqa: A002
    ) -> None:
        self._config = config
        self._components = components
        self._dispatcher = dispatcher
        self._server = ServerInfo(name=config.name, version=version("toolhall"), instructions=config.instructions)
        self._request_state = RequestState(SealedBox(components.data_dir.root_key), time.time)
        self._stopping = False
        self.machine = MachineHandler(dispatcher, registration)
        self.hub = HubHandler(
            dispatcher,
            registration,
            apply_runtime_config,
            self.health_state,
            self._join_endpoint(registration),
            components.check_health,
        )
        legacy = StatefulHttp(dispatcher, self._server, time.monotonic)
        self._mcp = McpHttp(dispatcher, components.security.request_validator, self._stateless_mcp(), legacy)
        managed = ManagementContext(
            dispatcher,
            registration,
            components.security.access,
            components.data_dir.journal,
            time.time,
            config.page_size,
        )
        self.api = ManagementApi(managed, components.security.request_validator)
        self.http = self._http_app(open)

    def use_state_store(self, states: UsedStateStore) -> None:
        """From now on, the request states that were used are kept here, for all processes of the hall."""
        self._request_state.used_states = states

    def health_state(self) -> str:
        """How the hall is: degraded while records cannot be written or were cut off, unhealthy once it stops."""
        if self._stopping:
            return UNHEALTHY
        journal = self._components.data_dir.journal
        return DEGRADED if journal.failing or journal.behind else HEALTHY

    async def serve_lines(self, dialect: str) -> None:
        """Speak one dialect on this process's own input and output, until the input ends."""
        most = self._config.max_body_bytes
        lines = await open_stdio(most)
        if dialect == "mcp":
            await McpStdio(self._dispatcher, self._server, self._stateless_mcp(), lines, most).run()
        else:
            await serve_stdio(lines, self.machine.answer if dialect == "machine" else self.hub.answer, most)

    def end_streams(self) -> None:
        """Say goodbye to every client that holds a stream open; what runs may finish."""
        self._stopping = True
        self._mcp.end_streams()

    def close(self) -> None:
        """End every stream and every session."""
        self._mcp.close()
        self.machine.unauthenticated_audit.close()

    def _join_endpoint(self, registration: RegistrationService) -> JoinEndpoint:
        servers = self._components.tool_servers
        return JoinEndpoint(self._dispatcher, registration, servers.leases, servers.transport_for)

    def _stateless_mcp(self) -> StatelessMcp:
        return StatelessMcp(self._dispatcher, self._server, self._request_state)

    def _http_app(self, open: Callable[[], Awaitable[None]]) -> HttpApp:  # noqa: A002
        guard, sockets = self._components.security, {"/hub": self._websocket()}
        app = HttpApp(
            guard.request_validator, guard.auth.authenticator, self._routes(), sockets, open, guard.auth.challenges
        )
        app.on_mounted = guard.approval_components.public_url.on_mounted
        app.limiter = admission = self._request_limiter()
        self._components.tool_servers.leases.is_overloaded = lambda: admission.is_overloaded
        app.unauthenticated_audit = self.machine.unauthenticated_audit
        return app

    def _request_limiter(self) -> ConcurrencyLimiter:
        """Strangers have few slots, unless they are who the hall is there for."""
        config = self._config
        strangers = config.max_concurrency if config.allow_anonymous else None
        return ConcurrencyLimiter(
            config.max_concurrency, per_caller=config.concurrency.per_caller, anonymous_limit=strangers
        )

    def _websocket(self) -> HubWebSocket:
        return HubWebSocket(self.hub, self._config.max_body_bytes, self._config.max_frame_bytes)

    def _credential_routes(self) -> dict[str, Methods]:
        """How secrets are set and accounts are linked."""
        guard, supplies, managed = self._components.security, self._components.credentials, self.api.context
        visiting = PageAuth(guard.approval_components.sessions, guard.auth.authenticator)
        return {
            **account_link_routes(
                supplies.broker, self._dispatcher.admin, visiting, guard.approval_components.public_url, time.time
            ),
            **SecretsApi(managed, supplies.vault, guard.request_validator).endpoints(),
            **AccountsApi(managed, supplies.broker, guard.request_validator).endpoints(),
        }

    def _prefix(self) -> str:
        return self._components.security.approval_components.public_url.prefix

    def _routes(self) -> dict[str, Methods]:
        """Every path that is served; one that ends with a slash serves all below it."""
        config, hall, guard = self._config, self._dispatcher, self._components.security
        health, rest = (
            HealthEndpoint(hall, self.health_state, self._components.check_health),
            RestEndpoint(hall, guard.request_validator, self._prefix),
        )
        oxp = OxpHttp(hall, guard.request_validator, new_id=call_id_generator(), state=self.health_state)
        machine = MachineHttp(self.machine, guard.request_validator, guard.auth.authenticator)
        info = OpenApiInfo(title=config.name, version=version("toolhall"), description=config.instructions)
        return {
            "/mcp": {"POST": self._mcp, "GET": self._mcp.get_or_delete, "DELETE": self._mcp.get_or_delete},
            "/oxp/health": {"GET": oxp.health, "HEAD": oxp.health},
            "/oxp/tools": {"GET": oxp.tools},
            "/oxp/tools/call": {"POST": oxp.call},
            "/hub": {"POST": HubHttp(self.hub, guard.request_validator)},
            "/machine": {"POST": machine.message},
            "/machine/tools": {"GET": machine.tools, "POST": machine.register},
            "/openapi.json": {"GET": OpenApiEndpoint(hall, info, self._prefix)},
            "/tools": {"GET": ToolListEndpoint(hall, config.page_size)},
            "/tools/": {"POST": rest.call},
            **self.api.endpoints(),
            **guard.auth.endpoints,
            **guard.approval_components.endpoints(self.api.context, guard.request_validator, guard.auth.authenticator),
            **self._credential_routes(),
            "/metrics": {"GET": MetricsEndpoint(hall, self._components.telemetry, public=config.public_metrics)},
            "/health": {"GET": health, "HEAD": health},
            "/health/live": {"GET": health.live, "HEAD": health.live},
            "/health/ready": {"GET": health.ready, "HEAD": health.ready},
        }
