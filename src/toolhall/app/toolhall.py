"""Toolhall: a hall with its tools, an ASGI application with an explicit life cycle.

The life cycle is construct, `open` (stores, registered tools, lifespans), serve, `settle` (in the loop that served),
`close`.

Theory of operation
-------------------
The constructor builds what every call needs, each part from parts that exist already: settings, data directory,
executor, policy, approvals, credentials, the dispatcher with its pipeline, then API keys and grants, which report
changed rules to the dispatcher, and last the registration service, which serves tools. It checks all settings, so a
hall that was constructed can be opened.

What only a served hall needs is imported and built on first use: the routes (`http`, `api`, `machine`, `hub`: HTTP, MCP
and the pages), the tool servers (`tool_servers`), the upstreams (`upstreams`, only where there is one) and the OAuth
broker (`credentials.broker`). `open` builds the routes before it opens the stores, unless `without_pages` was called:
`toolhall call` and the test client never build them. Whatever uses an optional part later (`_watch`, `settle`, `close`)
asks whether it was built.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from toolhall.app.data_dir import EXCLUSIVE, DataDir, OpenOptions, stdio_open_options
from toolhall.app.runner_on_demand import RunnerOnDemand
from toolhall.app.setting_rows import Deployment
from toolhall.app.wiring import (
    ApprovalComponents,
    Components,
    CredentialSources,
    SecurityComponents,
    build_dispatcher,
    build_policy,
    check_egress_allow,
    check_pages,
    config_for_process,
    resource_lookup,
    upstreams_from,
)
from toolhall.auth.authenticator import AsgiApp, Receive, Scope, Send
from toolhall.authoring.code_digest import code_sha256
from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Definition, definitions_of, takes_typed
from toolhall.config import Config, overridden
from toolhall.execution.executor import FunctionExecutor, limits_from_config
from toolhall.execution.health_checks import HealthChecks
from toolhall.execution.long_calls import LongCallRunner
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.upstream import Upstream
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Valid
from toolhall.pipeline.verify import Approver, Verify
from toolhall.registration.records import DefinitionDocument
from toolhall.registration.service import RegistrationService
from toolhall.registry.registry import Conflict, Registry
from toolhall.registry.snapshot import CompletionRunner, Entry, Runner, compile_entry
from toolhall.stores.crypto import derive_key
from toolhall.stores.tools import ToolOrigin
from toolhall.telemetry import Metric, Telemetry, tracer_from_environment

if TYPE_CHECKING:
    from toolhall.app.routes import HallRoutes
    from toolhall.app.tool_servers import ToolServers
    from toolhall.app.upstreams import Upstreams
    from toolhall.http.api.tools import ManagementApi
    from toolhall.http.app import HttpApp
    from toolhall.http.health import ComponentHealth
    from toolhall.http.hub import HubHandler
    from toolhall.http.machine import MachineHandler
    from toolhall.http.stdio_lines import StdioLines
    from toolhall.stores.bundle import Stores

_HALL_ID_PURPOSE = "toolhall hops"  # of requests to upstreams, which a circle of halls would send for ever
STDIO_DIALECTS = ("mcp", "machine", "hub")


class Toolhall:
    """A hall with its tools, ready to be served; it is an ASGI application itself.

    `Toolhall(forecast, Calendar)` takes functions, toolkits and modules. Close it, or use it as a context manager.
    `lifespan` is entered before the first call and left at shutdown, around the toolkits' own; `routes` are ASGI
    applications of the author, served beside the hall by their paths.
    """

    def __init__(
        self,
        *targets: object,
        config: Config | None = None,
        approver: Approver | None = None,
        lifespan: "Callable[[Toolhall], AbstractAsyncContextManager[Any]] | None" = None,
        routes: Mapping[str, AsgiApp] | None = None,
    ) -> None:
        if lifespan is not None and not callable(lifespan):
            raise BadDeclaration(f"lifespan is {lifespan!r}; give a function that returns an async context manager")
        self.config = config = config_for_process(overridden(config or Config()))
        self.deployment = Deployment()  # set by the command line: origins of settings, number of processes
        self.undocumented: list[str] = []  # warnings about tools without a docstring
        self._documents: list[DefinitionDocument] = []
        self._source_locations: list[tuple[str, str]] = []  # tool ids, and where their functions are defined
        self._health_checked: list[Definition] = []
        self._serves_http = True
        self._stores: Stores | None = None
        self._built_routes: HallRoutes | None = None
        self._stopping = False
        self.is_open = False  # `open` was called, and `settle` was not since
        self._built_tool_servers: ToolServers | None = None
        self._given_upstreams = upstreams_from(config)  # and those of files and of the command line, later
        self._built_upstreams: Upstreams | None = None
        self._reaches_upstreams = self._registers_upstreams = True
        check_egress_allow(config)  # before anything is created for a hall that cannot be
        self._data_dir = DataDir(config)
        self.journal = self._data_dir.journal
        try:
            self._build(config, approver)
        except BaseException:  # settings that cannot be used; the journal is open already
            self._data_dir.close()
            raise
        try:
            if lifespan is not None:
                self.lifespans.add("the lifespan of the hall", lambda: lifespan(self))
                self._executor.allows_fallback = False  # to a process in which that lifespan was not entered
            if routes:
                self.http.add_routes(routes)
            if config.search:
                self.registration.add_code_tools([self._search_entry()])
            if config.resources_as_tools:
                self.registration.add_code_tools(self._resource_tool_entries())
            self.add(*targets)
        except BaseException:
            self.close()
            raise

    def _build(self, config: Config, approver: Approver | None) -> None:
        """Build what every call needs, in the order that the theory of operation above states."""
        self.registry = Registry(config.page_size, resources_as_tools=config.resources_as_tools)
        self._executor = FunctionExecutor(limits_from_config(config), Run.tool_of_frame)
        self.lifespans = self._executor.lifespans
        self._health_checks = HealthChecks(self._executor.thread_pool)
        self._schema_checker = ProcessValidator()
        policy = build_policy(config)
        self.approval_components = ApprovalComponents(config, self._data_dir.root_key)
        public_url = self.approval_components.public_url
        self.credentials = CredentialSources(config, self._data_dir.path, lambda: public_url.url)
        self._verify = Verify(policy, approver, self.approval_components.approvals, self._check_ready)
        self.telemetry = Telemetry(tracer_from_environment())
        self.dispatcher = build_dispatcher(
            config,
            Components(
                registry=self.registry,
                data_dir=self._data_dir,
                policy=policy,
                verify=self._verify,
                equip=self.credentials.equip,
                executor=self._executor,
                schema_checker=self._schema_checker,
                telemetry=self.telemetry,
            ),
        )
        self.security = SecurityComponents(config, self._data_dir.root_key, self.dispatcher.set_rules)
        self.access = self.security.access
        self.tasks = self.dispatcher.tasks
        self.tasks.rows.make_id_key = lambda: derive_key(self._data_dir.root_key, "task ids")
        self.tasks.current_caller = self.access.keys.current
        self.access.reload_hooks += [self.credentials.reload, self._data_dir.recheck_anchors, self._reload_upstreams]
        self.access.keys.on_change.append(self._recheck_tool_servers)
        self._remote_runner = RunnerOnDemand(lambda: self.tool_servers.runner)
        self._upstream_runner = RunnerOnDemand(lambda: self.upstreams.runner)
        self.registration = RegistrationService(self.registry, time.time, self._runner_for)
        self.registration.level_overrides = config.levels
        self.registration.active.has_upstream = self._has_upstream

    @property
    def tool_servers(self) -> "ToolServers":
        """The tool servers that have joined; built on first use."""
        if self._built_tool_servers is None:
            from toolhall.app.tool_servers import ToolServers  # lazy: pools, leases and transports

            self._built_tool_servers = ToolServers(
                self.config, self.dispatcher.audit.note_server, resource_lookup(self.registry)
            )
            if self.is_open:  # built in an open hall: leases expire and replicas are probed from now on
                self._built_tool_servers.watch()
        return self._built_tool_servers

    @property
    def upstreams(self) -> "Upstreams":
        """The servers of somebody else whose tools are offered; built on first use."""
        if self._built_upstreams is None:
            from toolhall.app.upstreams import build_upstreams  # lazy: sessions, children and sync

            hall_id = derive_key(self._data_dir.root_key, _HALL_ID_PURPOSE)[:8].hex()
            self._built_upstreams = built = build_upstreams(self, hall_id, self._given_upstreams.values())
            if self._stores is not None:  # it has none so far, or this would have been built with it
                built.open(self._stores.upstreams, ())
            if self.lifespans.entered and self._reaches_upstreams:
                built.start()
        return self._built_upstreams

    def add_upstreams(self, upstreams: Sequence[Upstream]) -> None:
        """Offer the tools of these upstreams, which a file or the command line names; they win over stored ones."""
        self._give(self._given_upstreams | {each.name: each for each in upstreams})

    def replace_upstreams(self, where: str, upstreams: Sequence[Upstream]) -> None:
        """Offer these upstreams in place of all others that came from this file; those that are the same go on."""
        others = {name: each for name, each in self._given_upstreams.items() if each.where != where}
        self._give(others | {each.name: each for each in upstreams})

    def _give(self, upstreams: dict[str, Upstream]) -> None:
        self._given_upstreams = upstreams
        if self._built_upstreams is not None:
            self._built_upstreams.give(upstreams.values())
        elif upstreams and self.lifespans.entered:
            _ = self.upstreams  # the first one of a hall that is served

    @property
    def given_upstreams(self) -> tuple[Upstream, ...]:
        """The upstreams that files and the command line name."""
        return tuple(self._given_upstreams.values())

    @property
    def has_upstreams(self) -> bool:
        """Whether there is any upstream."""
        return bool(self._given_upstreams) or self._built_upstreams is not None

    def _has_upstream(self, name: str) -> bool:
        return self._built_upstreams is not None and self._built_upstreams.is_offered(name)

    def _runner_for(self, origin: ToolOrigin) -> Runner:
        """Return the runner of tools that no code here defines."""
        return self._upstream_runner if origin == "upstream" else self._remote_runner

    @property
    def _routes(self) -> "HallRoutes":
        if self._built_routes is None:
            self._built_routes = self._build_routes()
            self._built_routes.http.opened = self.lifespans.entered
            if self._stopping:  # also routes that are built after the hall began to stop refuse to be ready
                self.end_streams()
        return self._built_routes

    @property
    def http(self) -> "HttpApp":
        """The ASGI application of every dialect; built on first use."""
        return self._routes.http

    @property
    def api(self) -> "ManagementApi":
        """The management API; built on first use."""
        return self._routes.api

    @property
    def machine(self) -> "MachineHandler":
        """The handler of Machine Context messages; built on first use."""
        return self._routes.machine

    @property
    def hub(self) -> "HubHandler":
        """The handler of hub messages; built on first use."""
        return self._routes.hub

    def add(self, *targets: object) -> None:
        """Add every tool in these functions, toolkits or modules, all or none."""
        definitions = [definition for target in targets for definition in definitions_of(target)]
        if self.lifespans.entered and (late := self.lifespans.find_unknown_toolkit(definitions)):
            raise BadDeclaration(f"toolkit '{late}' has to be entered: add it before the hall is opened")
        check_pages(definitions, self.registry.snapshot)
        drafts = {str(each.tool.id) for each in definitions if not each.versioned}
        self._source_locations.extend((str(each.tool.id), each.source_location) for each in definitions)
        try:
            self.registration.add_code_tools(list(map(self._entry, definitions)), drafts)
        except Conflict as conflict:
            raise self._with_locations(conflict) from None
        self.undocumented.extend(filter(None, (each.missing_description for each in definitions)))
        self.lifespans.add_toolkits(definitions)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        return self.registration.remove_code_tool(name)

    def changed(self, uri: str) -> None:
        """Tell everybody who subscribed to a resource, or to one above it, that it has changed; from any thread."""
        self.dispatcher.changes.changed(uri)

    def propose(self, *papers: DefinitionDocument) -> None:
        """Add definitions that are not the operator's own code; until the hall is opened, all of them are served."""
        entries = [compile_entry(tool, self._remote_runner) for paper in papers for tool in paper.tools]
        self.registry.add(entries)
        self._documents.extend(papers)

    async def open(self, terms: OpenOptions = EXCLUSIVE, *, enter: bool = True) -> None:
        """Load what was registered and start watching; a server calls this first, in the loop that serves.

        The stores are opened once, by the first call. Without `enter`, the loop that serves has to open the hall again.
        Raises StoreFailed, BadDocument for code or files whose versions do not match their changes, and LifespanFailed
        for a toolkit that cannot be entered.
        """
        if self._serves_http:
            _ = self._routes  # built before anything is opened
        if self._stores is None:
            from toolhall.stores.open import open_stores  # lazy: `toolhall list` and `call` open none

            stores = await asyncio.to_thread(
                open_stores,
                self._data_dir.path,
                allow_readonly=terms.allow_readonly,
                role=terms.role,
                tools_optional=terms.tools_optional,
                short_lived=terms.short_lived,
            )
            try:
                await self._load(stores, terms)
            except BaseException:
                stores.close()
                raise
            self._stores = stores
        self._reaches_upstreams = terms.runs_tasks  # a command that only looks at the data folder reaches none
        self._watch()
        if enter:
            await self.enter()
            if self._reaches_upstreams and self.has_upstreams:
                self.upstreams.start()
            if terms.runs_tasks:
                await self.tasks.resume()
            if self._built_routes is not None:
                self._built_routes.http.opened = True

    async def _open_on_first_request(self) -> None:
        """Open a hall that is mounted without its lifespan, for its first request; without data there is no store."""
        if self._stores is None and self.config.data is None:
            self._watch()
            await self.enter()
            if self.has_upstreams:
                self.upstreams.start()
            await self.tasks.resume()
        else:
            await self.open()

    def _watch(self) -> None:
        self.is_open = True
        self.registration.watch()
        self.access.watch()
        self._executor.watchdog.watch()
        self.dispatcher.files.watch()
        if self._built_tool_servers is not None:
            self._built_tool_servers.watch()

    async def enter(self) -> None:
        """Enter the lifespans of the hall and its toolkits in the running loop; `settle` leaves them."""
        await self.lifespans.enter()

    async def _load(self, stores: "Stores", terms: OpenOptions) -> None:
        self.registry.change(removed_ids={str(tool.id) for paper in self._documents for tool in paper.tools})
        enforce = terms.enforce_versions and self.config.data is not None
        self.approval_components.open(stores)
        await self.access.open(stores)
        await self.credentials.open(stores)
        readonly = stores.readonly or stores.tools_readonly or terms.role == "sibling"  # another process has stored it
        vault = None if self.config.data is None else self.credentials.vault
        self.tasks.open(stores.tasks, vault, version=stores.version, readonly=stores.readonly)
        self._registers_upstreams = not readonly
        await self._open_upstreams(stores)
        await self.registration.open(stores.tools, enforce_versions=enforce, files=self._documents, readonly=readonly)
        self.access.write_lock.read_only_reason = terms.locked_message if stores.readonly else None
        releases_tools = terms.release_tools and not self.has_upstreams  # whose tools this process registers
        tools_locked = stores.readonly or stores.tools_readonly or releases_tools
        self.registration.write_lock.read_only_reason = terms.read_only_reason or (
            terms.locked_message if tools_locked else None
        )
        if releases_tools:
            stores.release_tools()
        if self.config.providers or any(entry.requirements for entry in self.registry.snapshot.all_entries):
            await self._executor.egress.preload()
        await self._data_dir.open_anchors(stores)
        if self._built_routes is not None and not stores.readonly:
            self._built_routes.use_state_store(stores.states)
            await self._built_routes.reload_sessions()
        if terms.runs_tasks and terms.role != "sibling":
            self.tasks.warn_if_not_stored()
        self.dispatcher.shortlist.for_snapshot(self.registry.snapshot)  # warns about pins that match no tool

    async def _open_upstreams(self, stores: "Stores") -> None:
        """Load the stored upstreams; without any, and without any that was given, nothing of them is imported."""
        rows = await stores.upstreams.all()
        if rows or self.has_upstreams:
            self.upstreams.registers = self._registers_upstreams
            self.upstreams.open(stores.upstreams, rows)

    async def _reload_upstreams(self) -> None:
        """Follow what another process has changed of upstreams and their tools."""
        if self._stores is not None:
            await self._open_upstreams(self._stores)
            if self.has_upstreams and not self._registers_upstreams:
                await self.registration.follow_upstreams()

    def ask_through(self, approver: Approver) -> None:
        """Use this approver for calls that need a person's approval."""
        self._verify.approver = approver

    def without_pages(self) -> None:
        """Declare that the hall is not served over HTTP: nobody is sent to its pages, and `open` builds no routes."""
        self._serves_http = False
        self._verify.approvals = None
        self.credentials.without_pages()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve every dialect over HTTP, as an ASGI application."""
        await self.http(scope, receive, send)

    async def serve_stdio(self, dialect: str = "mcp") -> None:
        """Serve mcp, machine or hub on this process's own input and output, until the input ends."""
        if dialect not in STDIO_DIALECTS:
            raise ValueError(f"{dialect!r} is not spoken over standard input; use one of {', '.join(STDIO_DIALECTS)}")
        self.without_pages()
        await self.open(stdio_open_options(dialect))  # in this loop, even if it was opened in another one
        await self._routes.serve_lines(dialect)
        await self.settle()

    async def serve_mcp_lines(self, lines: "StdioLines") -> None:
        """Serve MCP to a client in this process that sends and gets lines, until these end; the hall must be open."""
        await self._routes.serve_mcp_lines(lines)

    def end_streams(self) -> None:
        """End the streams that clients hold open, so that a server can stop; running calls may finish."""
        self._stopping = True
        if self._built_tool_servers is not None:
            self._built_tool_servers.leases.begin_shutdown()
        if self._built_routes is not None:
            self._built_routes.end_streams()

    async def settle(self) -> None:
        """Finish background work before the loop ends; a server calls this last."""
        if self._built_routes is not None:
            self._built_routes.http.opened = False
        self.is_open = False
        if self._built_tool_servers is not None:
            self._built_tool_servers.suspend()
        await self.tasks.settle()
        if self._built_upstreams is not None:
            await self._built_upstreams.suspend()
        await self.lifespans.leave()
        await self.dispatcher.files.settle()
        await self.credentials.drain()
        await self._health_checks.close()

    def close(self) -> None:
        """Write what is buffered and stop the worker threads; every part is closed even if another one fails to."""
        with ExitStack() as last_first:
            if self._stores is not None:  # after the audit, whose last checkpoint they keep
                last_first.callback(self._stores.close)
            last_first.callback(self._data_dir.close)
            last_first.callback(self.telemetry.close)
            last_first.callback(self._executor.close)
            last_first.callback(self._schema_checker.close)
            last_first.callback(self.tasks.close)
            for part in (self.credentials, self.access, self.registration, self.dispatcher.files):
                last_first.callback(part.close)
            if self._built_tool_servers is not None:
                last_first.callback(self._built_tool_servers.close)
            if self._built_upstreams is not None:
                last_first.callback(self._built_upstreams.close)
            if self._built_routes is not None:
                last_first.callback(self._built_routes.close)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:  # noqa: ARG002 - what the hall is mounted in
        """The lifespan of an application that the hall is mounted in: `FastAPI(lifespan=hall.lifespan)`.

        Opens the hall and enters its toolkits, then leaves them again; it may be entered once more after that.
        """
        await self.open()
        try:
            yield
        finally:
            await self.settle()

    async def __aenter__(self) -> "Toolhall":
        try:
            await self.open()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.settle()
        finally:
            self.close()

    def __enter__(self) -> "Toolhall":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _with_locations(self, conflict: Conflict) -> Conflict:
        """Add to a conflict where the tools that it names are defined."""
        named = set(re.split(r"[\s;,']+", str(conflict)))
        locations = [f"{tool} is at {where}" for tool, where in dict.fromkeys(self._source_locations) if tool in named]
        return Conflict(f"{conflict} ({', '.join(locations)})") if locations else conflict

    def _build_routes(self) -> "HallRoutes":
        from toolhall.app.observation import audit_metrics, task_metrics  # lazy: only for `/metrics`
        from toolhall.app.routes import HallRoutes, ServedComponents  # lazy: HTTP, MCP and the pages

        self.telemetry.metrics = (
            *self._executor.metrics(),
            *self.tool_servers.pools.metrics(),
            *audit_metrics(self.journal),
            *task_metrics(self.tasks),
            Metric("toolhall_completions_total", "counter", "Completions answered.", self.dispatcher.completion_count),
        )
        self.telemetry.changing_metrics = lambda: () if (up := self._built_upstreams) is None else up.manager.metrics()
        served = ServedComponents(
            data_dir=self._data_dir,
            security=self.security,
            approval_components=self.approval_components,
            credentials=self.credentials,
            telemetry=self.telemetry,
            tool_servers=self.tool_servers,
            find_upstreams=lambda: self._built_upstreams,
            build_upstreams=lambda: self.upstreams,
            check_health=self._check_health,
            deployment=lambda: self.deployment,
        )
        routes = HallRoutes(self.config, served, self.dispatcher, self.registration, self.open)
        routes.http.on_shutdown, routes.http.open_on_request = self.settle, self._open_on_first_request
        if self._stores is not None and not self._stores.readonly:
            routes.use_state_store(self._stores.states)
        self.access.reload_hooks.append(routes.reload_sessions)
        return routes

    def _recheck_tool_servers(self) -> None:
        """Stop calling tool servers whose key was revoked."""
        if self._built_tool_servers is not None:
            self._built_tool_servers.leases.recheck_credentials()

    def _entry(self, definition: Definition) -> Entry:
        if definition.health_check is not None:
            self._health_checked.append(definition)
        if definition.files is not None:
            definition.files.load(self.config.max_output_bytes)
        # known_good: the decorator has checked its schemas.
        code = code_sha256(definition.body.function)
        runner, bind = self._executor.runner_for(definition, code), definition.body.bind
        if definition.tool.task is not None:
            runner = LongCallRunner(runner, self.tasks.refuse_in_line)
        completers = {
            name: CompletionRunner(self._executor.completion_runner(definition, name), takes_typed(each))
            for name, each in definition.completions.items()
        }
        entry = compile_entry(
            definition.tool, runner, known_good=True, bind=bind, code_sha256=code, completers=completers
        )
        return entry if definition.files is None else msgspec.structs.replace(entry, files=definition.files)

    async def _check_health(self) -> "ComponentHealth":
        from toolhall.app.observation import task_health  # lazy: only for `/health`
        from toolhall.http.health import ComponentHealth  # lazy: the HTTP layer

        toolkits = await self._health_checks.states(self._health_checked)
        return ComponentHealth(
            {**self.tool_servers.toolkit_states(self.registry.snapshot, self.registration.index), **toolkits},
            self.tool_servers.pools.server_states(),
            await task_health(self.tasks.figures),
            {} if self._built_upstreams is None else self._built_upstreams.health(),
        )

    def _search_entry(self) -> Entry:
        from toolhall.registry.search import search_tool  # lazy: only with the setting `search`

        dispatcher, registry = self.dispatcher, self.registry
        found = search_tool(
            lambda: dispatcher.shortlist.for_snapshot(registry.snapshot).names, dispatcher.policy.can_see
        )
        return compile_entry(found.tool, self._executor.runner_for(found))

    def _resource_tool_entries(self) -> list[Entry]:
        from toolhall.registry.resource_toolkit import resource_tools  # lazy: only with the setting

        definitions = resource_tools(self.dispatcher.visible_snapshot, self.dispatcher.files.refresh)
        return [compile_entry(each.tool, self._executor.runner_for(each)) for each in definitions]

    async def _check_ready(self, valid: Valid) -> None:
        """Raise what would keep a call from running, before a person is asked to approve it."""
        self.dispatcher.audit.check_complete()
        await self.credentials.equip.check_ready(valid)
