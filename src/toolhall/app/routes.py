"""HallRoutes: every HTTP path, WebSocket and stdio dialect of a hall, and the component that serves each.

Only a hall that is served imports this module: it loads HTTP, MCP, the pages and the OAuth broker.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from toolhall import __version__
from toolhall.app.data_dir import DataDir
from toolhall.app.setting_rows import Deployment, setting_rows
from toolhall.app.tool_servers import ToolServers
from toolhall.app.wiring import ApprovalComponents, CredentialSources, SecurityComponents, rate_limits_from
from toolhall.auth.authenticator import TokenIssuer
from toolhall.config import Config
from toolhall.dialects.mcp.responses import ServerInfo
from toolhall.dialects.openapi.catalog import OpenApiInfo
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.health_checks import DEGRADED, HEALTHY, UNHEALTHY
from toolhall.http.api.accounts import AccountsApi
from toolhall.http.api.base import ManagementContext
from toolhall.http.api.events import EventsApi, EventSources
from toolhall.http.api.limits import ConcurrencyLimits, LimitsApi
from toolhall.http.api.secrets import SecretsApi
from toolhall.http.api.settings import DeployedHall, SettingsApi
from toolhall.http.api.tasks import TasksApi
from toolhall.http.api.tool_servers import ToolServersApi
from toolhall.http.api.tools import ManagementApi
from toolhall.http.api.upstreams import ManagedUpstreams, UpstreamsApi
from toolhall.http.app import HttpApp
from toolhall.http.authentication import public_hosts
from toolhall.http.health import ComponentCheck, HealthEndpoint, MetricsEndpoint
from toolhall.http.hub import HubHandler, HubHttp, apply_runtime_config
from toolhall.http.machine import MachineHandler, MachineHttp
from toolhall.http.oxp import OxpHttp
from toolhall.http.request import Methods
from toolhall.http.request_guard import LOOPBACK_HOSTS, RequestValidator
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.http.rest import OpenApiEndpoint, RestEndpoint, ToolListEndpoint
from toolhall.http.rest_readings import ReadingEndpoints
from toolhall.http.stdio_lines import StdioLines, open_stdio, serve_stdio
from toolhall.http.tasks import TasksEndpoint
from toolhall.http.tool_server_join import JoinEndpoint
from toolhall.http.websocket import HubWebSocket
from toolhall.mcp.http import McpHttp, StatefulHttp
from toolhall.mcp.request_state import RequestState
from toolhall.mcp.stateless import StatelessMcp
from toolhall.mcp.stdio import McpStdio
from toolhall.oauth.providers import ProviderSettings
from toolhall.pipeline.dispatcher import Dispatcher, call_id_generator
from toolhall.redaction.redactor import preload_secret_forms
from toolhall.registration.service import RegistrationService
from toolhall.stores.approvals import UsedStateStore
from toolhall.stores.crypto import SealedBox
from toolhall.telemetry import Telemetry
from toolhall.web.auth import PageAuth
from toolhall.web.connect import account_link_routes
from toolhall.web.console import ConsoleRoutes
from toolhall.web.cookie_auth import SessionAuthenticator, SessionRenewal
from toolhall.web.me import ConsoleFacts, MeApi
from toolhall.web.sign_in import ConsoleSignInPage
from toolhall.web.tools_page import ToolsPage


class ServedComponents(NamedTuple):
    """What the routes are made of, besides the dispatcher and the registration service."""

    data_dir: DataDir
    security: SecurityComponents
    approval_components: ApprovalComponents
    credentials: CredentialSources
    telemetry: Telemetry
    tool_servers: ToolServers
    find_upstreams: Callable[[], ManagedUpstreams | None]
    build_upstreams: Callable[[], ManagedUpstreams]
    check_health: ComponentCheck
    deployment: Callable[[], Deployment]


class HallRoutes:
    """The routes of one hall; `startup` opens the hall when a server starts."""

    def __init__(
        self,
        config: Config,
        components: ServedComponents,
        dispatcher: Dispatcher,
        registration: RegistrationService,
        startup: Callable[[], Awaitable[None]],
    ) -> None:
        preload_secret_forms()
        self._config = config
        self._components = components
        self._dispatcher = dispatcher
        self._server = ServerInfo(name=config.name, version=__version__, instructions=config.instructions)
        self._request_state = RequestState(SealedBox(components.data_dir.root_key), time.time)
        self._request_state.on_refused = self._on_round_refused
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
        hosts = LOOPBACK_HOSTS | set(config.allowed_hosts) | public_hosts(config)
        self._validator = RequestValidator(hosts, max_body=config.max_body_bytes)
        stateful = StatefulHttp(dispatcher, self._server, time.monotonic)
        self._mcp = McpHttp(dispatcher, self._validator, self._stateless_mcp(), stateful)
        context = ManagementContext(
            dispatcher,
            registration,
            components.security.access,
            components.data_dir.journal,
            time.time,
            config.page_size,
            workers=lambda: components.deployment().workers,
        )
        self.api = ManagementApi(context, self._validator)
        find, build = components.find_upstreams, components.build_upstreams
        accounts = components.credentials.broker.accounts
        self._upstreams = UpstreamsApi(context, find, build, self._validator, accounts)
        verification, check = self.api.verification, components.check_health
        sources = EventSources(verification, self.health_state, check, self._upstreams.marks)
        self._events = EventsApi(context, sources)
        self.http = self._http_app(startup)

    def use_state_store(self, states: UsedStateStore) -> None:
        """Keep used request states and ended sessions in this store, which all processes of the hall share."""
        self._request_state.used_states = states
        self._components.approval_components.sessions.ended.use_store(states)

    def _on_round_refused(self, memory: Mapping[str, bytes]) -> None:
        """The next request of a call was refused; an upstream may still wait for it."""
        upstreams = self._components.find_upstreams()
        if upstreams is not None:
            upstreams.end_waiting_call(memory)

    async def reload_sessions(self) -> None:
        """Load the sessions that were ended in other processes; raises StoreFailed."""
        sessions = self._components.approval_components.sessions
        await sessions.ended.reload(sessions.clock())

    def health_state(self) -> str:
        """Return the hall's own health: degraded while its audit fails or has gaps, unhealthy once it stops."""
        if self._stopping:
            return UNHEALTHY
        journal = self._components.data_dir.journal
        return DEGRADED if journal.failing or journal.behind else HEALTHY

    async def serve_lines(self, dialect: str) -> None:
        """Serve one dialect on this process's own input and output, until the input ends."""
        max_bytes = self._config.max_body_bytes
        lines = await open_stdio(max_bytes)
        if dialect == "mcp":
            await self.serve_mcp_lines(lines)
        else:
            await serve_stdio(lines, self.machine.answer if dialect == "machine" else self.hub.answer, max_bytes)

    async def serve_mcp_lines(self, lines: StdioLines) -> None:
        """Serve MCP to one client that sends and gets lines, as the local caller, until its lines end."""
        max_bytes = self._config.max_body_bytes
        await McpStdio(self._dispatcher, self._server, self._stateless_mcp(), lines, max_bytes).run()

    def end_streams(self) -> None:
        """End every stream that a client holds open; running calls may finish."""
        self._stopping = True
        self._mcp.end_streams()
        self._events.close()

    def close(self) -> None:
        """End every stream and every session."""
        self._mcp.close()
        self._events.close()
        self.machine.unauthenticated_audit.close()

    def _join_endpoint(self, registration: RegistrationService) -> JoinEndpoint:
        servers = self._components.tool_servers
        return JoinEndpoint(self._dispatcher, registration, servers.leases, servers.transport_for)

    def _stateless_mcp(self) -> StatelessMcp:
        takes_tokens = bool(self._config.issuers)
        return StatelessMcp(self._dispatcher, self._server, self._request_state, takes_tokens=takes_tokens)

    def _http_app(self, startup: Callable[[], Awaitable[None]]) -> HttpApp:
        auth, websockets = self._components.security.auth, {"/hub": self._websocket()}
        sessions = self._components.approval_components.sessions
        authenticator = SessionAuthenticator(auth.authenticator, sessions)
        routes = SessionRenewal(sessions).wrap(self._routes())
        app = HttpApp(self._validator, authenticator, routes, websockets, startup, auth.challenges)
        app.on_mounted = self._components.approval_components.public_url.on_mounted
        app.limiter = limiter = self._request_limiter()
        self._components.tool_servers.leases.is_overloaded = lambda: limiter.is_overloaded
        app.unauthenticated_audit = self.machine.unauthenticated_audit
        return app

    def _request_limiter(self) -> ConcurrencyLimiter:
        """Limit concurrent requests; anonymous callers have few slots, unless the hall is made for them."""
        config = self._config
        return ConcurrencyLimiter(
            config.concurrency.total,
            per_caller=config.concurrency.per_caller,
            anonymous_limit=config.concurrency.total if config.allow_anonymous else None,
        )

    def _websocket(self) -> HubWebSocket:
        return HubWebSocket(self.hub, self._config.max_body_bytes, self._config.max_frame_bytes)

    def _credential_routes(self) -> dict[str, Methods]:
        """The routes by which secrets are set and accounts are linked."""
        security, credentials, context = self._components.security, self._components.credentials, self.api.context
        approvals = self._components.approval_components
        page_auth = PageAuth(approvals.sessions, security.auth.authenticator, self._dispatcher.admin)
        accounts = AccountsApi(context, credentials.broker, self._validator)
        context.needs["accounts"] = accounts.needs
        return {
            **account_link_routes(
                credentials.broker, self._dispatcher.admin, page_auth, approvals.public_url, time.time
            ),
            **self._limits_api().endpoints(),
            **SecretsApi(context, credentials.vault, self._validator).endpoints(),
            **accounts.endpoints(),
        }

    def _limits_api(self) -> LimitsApi:
        config, rates = self._config, rate_limits_from(self._config)
        total = config.concurrency.total
        per_caller = config.concurrency.per_caller or -(-total // 2)  # rounded up: it never holds more than are free
        concurrency = ConcurrencyLimits(per_caller, rates.running, total)
        return LimitsApi(self.api.context, rates, concurrency, self._validator)

    def _console_routes(self) -> dict[str, Methods]:
        """The first page of the hall, and its console."""
        approvals = self._components.approval_components
        page_auth = PageAuth(approvals.sessions, self._components.security.auth.authenticator, self._dispatcher.admin)
        tools_page = ToolsPage(
            self._config.name, self._dispatcher, approvals.approvals, page_auth, approvals.public_url
        )
        return ConsoleRoutes(self._config.name, __version__, approvals.public_url, tools_page).endpoints()

    def _session_routes(self) -> dict[str, Methods]:
        """Sign-in, and what a session is about."""
        approvals, config = self._components.approval_components, self._config
        oidc = self._oidc_routes()
        facts = ConsoleFacts(config.name, config.profile, __version__, has_oidc=bool(oidc))
        context = self.api.context
        pages = approvals.pages
        me = MeApi(facts, context, pages.sessions, approvals.factors, pages.passkeys, self._validator)
        context.require_presence = me.require_presence
        page_auth = PageAuth(pages.sessions, self._components.security.auth.authenticator, self._dispatcher.admin)
        sign_in = ConsoleSignInPage(page_auth, approvals.public_url)
        sign_in.has_oidc = bool(oidc)
        return {**me.endpoints(), **sign_in.endpoints(), **oidc}

    def _oidc_routes(self) -> dict[str, Methods]:
        """Sign-in with the first issuer that has a client id; none without one."""
        config = self._config
        issuer = next((each for each in config.issuers if each.client_id is not None), None)
        if issuer is None or issuer.client_id is None:
            return {}
        from toolhall.auth.key_sets import JsonFetcher  # lazy: httpx2 and joserfc
        from toolhall.web.sign_in_oidc import OidcSignIn  # lazy: joserfc

        trusted = TokenIssuer(name=issuer.name, issuer=issuer.issuer, jwks_url=issuer.jwks_url)
        client = ProviderSettings(issuer=issuer.issuer, client_id=issuer.client_id, client_secret=issuer.client_secret)
        egress = LazyEgressClient(config.egress_allow, for_hall=True)
        sessions = self._components.approval_components.sessions
        fetch = JsonFetcher([trusted], config.egress_allow)
        return OidcSignIn(trusted, client, sessions, egress, fetch, self._dispatcher.admin).endpoints()

    def _operation_routes(self) -> dict[str, Methods]:
        """The routes by which tool servers are watched and drained, and settings are shown."""
        servers, context = self._components.tool_servers, self.api.context
        tool_servers = ToolServersApi(context, servers.pools, servers.leases, self._validator)
        context.needs["servers"] = tool_servers.needs
        context.needs["upstreams"] = self._upstreams.needs
        return {
            **tool_servers.endpoints(),
            **self._upstreams.endpoints(),
            **TasksApi(context, self._dispatcher.tasks, self._validator).endpoints(),
            **SettingsApi(context, self._deployed_hall).endpoints(),
        }

    def _deployed_hall(self) -> DeployedHall:
        deployment = self._components.deployment()
        return DeployedHall(
            list(setting_rows(self._config, deployment.origins)), self._config.data, deployment.workers, __version__
        )

    def _prefix(self) -> str:
        return self._components.approval_components.public_url.prefix

    def _routes(self) -> dict[str, Methods]:
        """Every path and the endpoint of each method; a path that ends with a slash serves all paths below it."""
        config, dispatcher, validator = self._config, self._dispatcher, self._validator
        auth, approvals = self._components.security.auth, self._components.approval_components
        health = HealthEndpoint(dispatcher, self.health_state, self._components.check_health)
        rest = RestEndpoint(dispatcher, validator, self._prefix)
        oxp = OxpHttp(dispatcher, validator, new_id=call_id_generator(), state=self.health_state)
        machine = MachineHttp(self.machine, validator, auth.authenticator)
        info = OpenApiInfo(title=config.name, version=__version__, description=config.instructions)
        return {
            "/mcp": {"POST": self._mcp, "GET": self._mcp.get_or_delete, "DELETE": self._mcp.get_or_delete},
            "/oxp/health": {"GET": oxp.health, "HEAD": oxp.health},
            "/oxp/tools": {"GET": oxp.tools},
            "/oxp/tools/call": {"POST": oxp.call},
            "/hub": {"POST": HubHttp(self.hub, validator)},
            "/machine": {"POST": machine.message},
            "/machine/tools": {"GET": machine.tools, "POST": machine.register},
            "/openapi.json": {"GET": OpenApiEndpoint(dispatcher, info, self._prefix)},
            "/tools": {"GET": ToolListEndpoint(dispatcher, config.page_size)},
            "/tools/": {"POST": rest.call},
            **TasksEndpoint(dispatcher, validator).endpoints(),
            **ReadingEndpoints(dispatcher, validator).endpoints(),
            **self.api.endpoints(),
            **self._events.endpoints(),
            **auth.endpoints,
            **approvals.pages.endpoints(self.api.context, validator, auth.authenticator),
            **self._credential_routes(),
            **self._operation_routes(),
            **self._console_routes(),
            **self._session_routes(),
            "/metrics": {"GET": MetricsEndpoint(dispatcher, self._components.telemetry, public=config.public_metrics)},
            "/health": {"GET": health, "HEAD": health},
            "/health/live": {"GET": health.live, "HEAD": health.live},
            "/health/ready": {"GET": health.ready, "HEAD": health.ready},
        }
