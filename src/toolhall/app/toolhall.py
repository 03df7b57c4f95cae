"""Toolhall: a hall with its tools, an ASGI application with an explicit life cycle.

The life cycle is construct, `open` (stores, registered tools, lifespans), serve, `settle` (in the loop that served),
`close`. The order of construction in `Toolhall.__init__` matters.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Any

import msgspec

from toolhall.app.data_dir import EXCLUSIVE, DataDir, OpenOptions, stdio_open_options
from toolhall.app.routes import STDIO_DIALECTS, HallRoutes
from toolhall.app.wiring import Components, CredentialSources, SecurityComponents, ToolServers, build_dispatcher
from toolhall.auth.authenticator import AsgiApp, Receive, Scope, Send
from toolhall.authoring.code_digest import code_sha256
from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Definition, definitions_of
from toolhall.config import Config, overridden
from toolhall.execution.executor import FunctionExecutor, limits_from_config
from toolhall.execution.health_checks import HealthChecks
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.execution.worker_protocol import is_worker_process
from toolhall.http.health import ComponentHealth
from toolhall.pipeline.policy import AccessRules
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Valid
from toolhall.pipeline.verify import Approver, Verify
from toolhall.registration.records import DefinitionDocument
from toolhall.registration.service import RegistrationService
from toolhall.registration.store_sync import WriteLock
from toolhall.registry.registry import Conflict, Registry
from toolhall.registry.search import search_tool
from toolhall.registry.snapshot import Entry, compile_entry
from toolhall.stores.bundle import Stores
from toolhall.stores.open import open_stores
from toolhall.telemetry.metrics import Metric, Telemetry
from toolhall.telemetry.spans import tracer_from_environment


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
        self.config = _config_for_process(overridden(config or Config()))
        self.registry = Registry(self.config.page_size)
        self.tool_servers = ToolServers(self.config)
        self.registration = RegistrationService(self.registry, time.time, self.tool_servers.runner)
        self.registration.level_overrides = self.config.levels
        self._documents: list[DefinitionDocument] = []
        self._definition_places: list[tuple[str, str]] = []  # ids and where their functions are
        self.undocumented: list[str] = []  # what to tell the author of tools without a docstring
        self._stores: Stores | None = None
        self._data_dir = DataDir(self.config)
        self.journal = self._data_dir.journal
        self.security = self._build_security()
        self.access, self.approval_components = self.security.access, self.security.approval_components
        self._executor, self._schema_checker = (
            FunctionExecutor(limits_from_config(self.config), Run.tool_of_frame),
            ProcessValidator(),
        )
        self.lifespans = self._executor.lifespans
        if lifespan is not None:
            self.lifespans.add("the lifespan of the hall", lambda: lifespan(self))
            self._executor.allows_fallback = False  # to a process in which that lifespan was not entered
        self._health_checks, self._health_checked = HealthChecks(self._executor.thread_pool), list[Definition]()
        self.credentials = self._build_credentials()
        self.access.reload_hooks += [self.credentials.reload, self._data_dir.recheck_anchors]
        self.tool_servers.follow_key_changes(self.access)
        parts = self._build_components(approver)
        self.telemetry = parts.telemetry
        self.dispatcher = build_dispatcher(self.config, parts)
        self._routes = HallRoutes(self.config, parts, self.dispatcher, self.registration, self.open)
        self.api, self.http = self._routes.api, self._routes.http
        self.http.on_shutdown, self.http.open_on_request = self.settle, self._open_on_first_request
        self.http.add_routes(routes or {})
        self.machine, self.hub = self._routes.machine, self._routes.hub
        try:
            if self.config.search:
                self.registration.add_code_tools([self._search_entry()])
            self.add(*targets)
        except BaseException:
            self.close()
            raise

    def add(self, *targets: object) -> None:
        """Add every tool in these functions, toolkits or modules, all or none."""
        definitions = [definition for target in targets for definition in definitions_of(target)]
        if self.lifespans.entered and (late := self.lifespans.find_unknown_toolkit(definitions)):
            raise BadDeclaration(f"toolkit '{late}' has to be entered: add it before the hall is opened")
        drafts = {str(each.tool.id) for each in definitions if not each.versioned}
        self._definition_places.extend((str(each.tool.id), each.source_location) for each in definitions)
        try:
            self.registration.add_code_tools(list(map(self._entry, definitions)), drafts)
        except Conflict as conflict:
            raise self._with_places(conflict) from None
        self.undocumented.extend(filter(None, (each.missing_description for each in definitions)))
        self.lifespans.add_toolkits(definitions)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        return self.registration.remove_code_tool(name)

    def propose(self, *papers: DefinitionDocument) -> None:
        """Take definitions from outside the operator's own code; until the hall is opened, they are all there."""
        entries = [compile_entry(tool, self.tool_servers.runner) for paper in papers for tool in paper.tools]
        self.registry.add(entries)
        self._documents.extend(papers)

    async def open(self, terms: OpenOptions = EXCLUSIVE, *, enter: bool = True) -> None:
        """Bring back what was registered; whoever serves the hall does this first. A second time does nothing more.

        Raises StoreFailed, BadDocument for code or files whose versions do not say what changed, and LifespanFailed
        for a toolkit that cannot be entered. Without `enter`, the loop that serves the hall has to open it again.
        """
        if self._stores is None:
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
        self._watch()
        if enter:
            await self.enter()
            self.http.opened = True

    async def _open_on_first_request(self) -> None:
        """Open the hall with a request that came before anybody did; without a data folder, it is as it was made."""
        if self._stores is None and self.config.data is None:
            self._watch()
            await self.enter()
        else:
            await self.open()

    def _watch(self) -> None:
        self.registration.watch()
        self.access.watch()
        self._executor.watchdog.watch()
        self.tool_servers.watch()

    async def enter(self) -> None:
        """Enter the hall's lifespan and its toolkits in the loop that runs now; `settle` leaves them."""
        await self.lifespans.enter()

    async def _load(self, stores: Stores, terms: OpenOptions) -> None:
        self.registry.change(removed_ids={str(tool.id) for paper in self._documents for tool in paper.tools})
        hold = terms.enforce_versions and self.config.data is not None
        await self.security.open(stores)
        await self.credentials.open(stores)
        known = (
            stores.readonly or stores.tools_readonly or terms.role == "sibling"
        )  # another process has kept what is served
        await self.registration.open(stores.tools, enforce_versions=hold, files=self._documents, readonly=known)
        self.access.write_lock.read_only_reason = terms.locked_message if stores.readonly else None
        others = terms.locked_message if stores.tools_readonly or terms.release_tools else None
        self.registration.write_lock.read_only_reason = (
            terms.read_only_reason or self.access.write_lock.read_only_reason or others
        )
        if terms.release_tools:
            stores.release_tools()
        if self.config.providers or any(entry.requirements for entry in self.registry.snapshot.entries):
            await self._executor.egress.preload()
        await self._data_dir.open_anchors(stores)
        if not stores.readonly:
            self._routes.use_state_store(stores.states)
        self.dispatcher.shortlist.for_snapshot(
            self.registry.snapshot
        )  # everything is there: says which pins fit nothing

    def ask_through(self, approver: Approver) -> None:
        """From now on, ask a person this way where a call needs one."""
        self._verify.approver = approver

    def without_pages(self) -> None:
        """Nobody can open this hall's pages, because it is not served over HTTP: then nobody is sent there."""
        self._verify.approvals = None
        self.credentials.broker.has_pages = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve every dialect over HTTP, as an ASGI application."""
        await self.http(scope, receive, send)

    async def serve_stdio(self, dialect: str = "mcp") -> None:
        """Serve mcp, machine or hub on this process's own input and output, until the input ends."""
        if dialect not in STDIO_DIALECTS:
            raise ValueError(f"{dialect!r} is not spoken over standard input; use one of {', '.join(STDIO_DIALECTS)}")
        self.without_pages()
        await self.open(stdio_open_options(dialect))  # in this loop, whoever opened it before
        await self._routes.serve_lines(dialect)
        await self.settle()

    def end_streams(self) -> None:
        """Say goodbye to every client that holds a stream open, so that a server can stop; what runs may finish."""
        self.tool_servers.leases.begin_shutdown()
        self._routes.end_streams()

    async def settle(self) -> None:
        """Finish what goes on by itself, before the loop ends; whoever serves the hall does this last."""
        self.http.opened = False
        self.tool_servers.suspend()
        await self.lifespans.leave()
        await self.credentials.drain()
        await self._health_checks.close()

    def close(self) -> None:
        """Write what is left and stop the worker threads; a part that fails to close keeps no other from it."""
        with ExitStack() as last_first:
            if self._stores is not None:  # after the audit, whose last checkpoint they keep
                last_first.callback(self._stores.close)
            last_first.callback(self._data_dir.close)
            last_first.callback(self.telemetry.close)
            last_first.callback(self._executor.close)
            last_first.callback(self._schema_checker.close)
            for part in (self.credentials, self.access, self.registration, self.tool_servers, self._routes):
                last_first.callback(part.close)

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

    def _with_places(self, conflict: Conflict) -> Conflict:
        """The same with the places where the tools that it names are written."""
        named = set(re.split(r"[\s;,']+", str(conflict)))
        places = [f"{tool} is at {place}" for tool, place in dict.fromkeys(self._definition_places) if tool in named]
        return Conflict(f"{conflict} ({', '.join(places)})") if places else conflict

    def _build_security(self) -> SecurityComponents:
        try:
            return SecurityComponents(self.config, self._data_dir.root_key, WriteLock(), self._set_rules)
        except BaseException:  # settings that cannot be used; the folder is open already
            self._data_dir.close()
            raise

    def _build_credentials(self) -> CredentialSources:
        place = self.security.approval_components.public_url
        try:
            return CredentialSources(self.config, self._data_dir.path, lambda: place.url)
        except BaseException:
            self._data_dir.close()
            raise

    def _set_rules(self, rules: AccessRules) -> None:
        self.dispatcher.set_rules(rules)  # which is there by the time that rules change

    def _build_components(self, approver: Approver | None) -> Components:
        approvals = self.security.approval_components.approvals
        self._verify = Verify(self.security.policy, approver, approvals, self._check_ready)
        figures = [*self._executor.metrics(), *self.tool_servers.pools.metrics(), *self._audit_metrics()]
        return Components(
            registry=self.registry,
            data_dir=self._data_dir,
            security=self.security,
            verify=self._verify,
            credentials=self.credentials,
            executor=self._executor,
            schema_checker=self._schema_checker,
            telemetry=Telemetry(tracer_from_environment(), figures),
            tool_servers=self.tool_servers,
            check_health=self._check_health,
        )

    def _entry(self, definition: Definition) -> Entry:
        if definition.health_check is not None:
            self._health_checked.append(definition)
        # Its schemas were checked when the function was marked.
        code = code_sha256(definition.body.function)
        runner, bind = self._executor.runner_for(definition, code), definition.body.bind
        return compile_entry(definition.tool, runner, known_good=True, bind=bind, code_sha256=code)

    async def _check_health(self) -> ComponentHealth:
        toolkits = await self._health_checks.states(self._health_checked)
        return ComponentHealth(
            {**self.tool_servers.toolkit_states(self.registry.snapshot, self.registration.index), **toolkits},
            self.tool_servers.pools.server_states(),
        )

    def _search_entry(self) -> Entry:
        hall = self.dispatcher
        found = search_tool(lambda: hall.shortlist.for_snapshot(hall.registry.snapshot).names, hall.policy.can_see)
        return compile_entry(found.tool, self._executor.runner_for(found))

    async def _check_ready(self, valid: Valid) -> None:
        """Raise what would keep a call from running once a person has agreed to it."""
        self.dispatcher.audit.check_complete()
        await self.credentials.equip.check_ready(valid)

    def _audit_metrics(self) -> Iterator[Metric]:
        about = "1 while records cannot be written."
        yield Metric("toolhall_audit_failing", "gauge", about, lambda: float(self.journal.failing))
        about = "1 while the audit is not what the store knows of it."
        yield Metric("toolhall_audit_behind", "gauge", about, lambda: float(bool(self.journal.behind)))


def _config_for_process(config: Config) -> Config:
    """A tool's file may make a hall; a worker process that imports the file must not open that hall's own files.

    Nor does it link accounts, for which it lacks settings that the hall was told by its environment.
    """
    return msgspec.structs.replace(config, data=None, record=(), providers={}) if is_worker_process() else config
