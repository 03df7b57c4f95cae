"""`Toolhall`: a hall with its tools, ready to be served."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Any

import msgspec

from toolhall.app.calls import Parts, build_hall
from toolhall.app.entrances import SPOKEN, Entrances
from toolhall.app.folder import Folder
from toolhall.app.guard import Guard
from toolhall.app.supplies import Supplies
from toolhall.app.toolservers import ToolServers
from toolhall.authoring.code import code_sha256
from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Definition, definitions_of
from toolhall.config import Config, overridden
from toolhall.pipeline.rulings import Rules
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Valid
from toolhall.pipeline.verify import Approver, Verify
from toolhall.registrar.papers import Paper
from toolhall.registrar.registrar import Registrar
from toolhall.registrar.terms import ALONE, Terms, over_stdio
from toolhall.registrar.turns import Turns
from toolhall.registry.entry import Entry, compile_entry
from toolhall.registry.registry import Conflict, Registry
from toolhall.registry.search_tool import search_tool
from toolhall.runners.checker import ProcessChecker
from toolhall.runners.checkup import Checkup
from toolhall.runners.inside import is_worker
from toolhall.runners.staff import Staff, means_of
from toolhall.stores.bundle import Stores
from toolhall.stores.choosing import choose_stores
from toolhall.telemetry.figures import Gauge, Telemetry
from toolhall.telemetry.spans import spans_from
from toolhall.transports.asgi import AsgiApp, Receive, Scope, Send
from toolhall.transports.health import Vitals


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
        self.config = _usable(overridden(config or Config()))
        self.registry = Registry(self.config.page_size)
        self.servers = ToolServers(self.config)
        self.registrar = Registrar(self.registry, time.time, self.servers.runner)
        self.registrar.levels = self.config.levels
        self._files: list[Paper] = []
        self._written: list[tuple[str, str]] = []  # ids and where their functions are
        self.undocumented: list[str] = []  # what to tell the author of tools without a docstring
        self._stores: Stores | None = None
        self._folder = Folder(self.config)
        self.journal = self._folder.journal
        self.guard = self._guarded()
        self.access, self.people = self.guard.access, self.guard.people
        self._staff, self._checker = Staff(means_of(self.config), Run.tool_in), ProcessChecker()
        self.lifespans = self._staff.lifespans
        if lifespan is not None:
            self.lifespans.add("the lifespan of the hall", lambda: lifespan(self))
            self._staff.moves = False  # to a process in which that lifespan was not entered
        self._checkup, self._examined = Checkup(self._staff.threads), list[Definition]()
        self.supplies = self._supplied()
        self.access.also += [self.supplies.refresh, self._folder.compare]
        self.servers.obey(self.access)
        parts = self._parts(approver)
        self.telemetry = parts.telemetry
        self.hall = build_hall(self.config, parts)
        self._entrances = Entrances(self.config, parts, self.hall, self.registrar, self.open)
        self.api, self.http = self._entrances.api, self._entrances.http
        self.http.settle, self.http.open_unasked = self.settle, self._open_unasked
        self.http.add_routes(routes or {})
        self.machine, self.hub = self._entrances.machine, self._entrances.hub
        try:
            if self.config.search:
                self.registrar.own([self._search_entry()])
            self.add(*targets)
        except BaseException:
            self.close()
            raise

    def add(self, *targets: object) -> None:
        """Add every tool in these functions, toolkits or modules, all or none."""
        definitions = [definition for target in targets for definition in definitions_of(target)]
        if self.lifespans.entered and (late := self.lifespans.new_in(definitions)):
            raise BadDeclaration(f"toolkit '{late}' has to be entered: add it before the hall is opened")
        drafts = {str(each.tool.id) for each in definitions if not each.versioned}
        self._written.extend((str(each.tool.id), each.place) for each in definitions)
        try:
            self.registrar.own(list(map(self._entry, definitions)), drafts)
        except Conflict as conflict:
            raise self._located(conflict) from None
        self.undocumented.extend(filter(None, (each.undocumented for each in definitions)))
        self.lifespans.add_toolkits(definitions)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        return self.registrar.disown(name)

    def propose(self, *papers: Paper) -> None:
        """Take definitions from outside the operator's own code; until the hall is opened, they are all there."""
        entries = [compile_entry(tool, self.servers.runner) for paper in papers for tool in paper.tools]
        self.registry.add(entries)
        self._files.extend(papers)

    async def open(self, terms: Terms = ALONE, *, enter: bool = True) -> None:
        """Bring back what was registered; whoever serves the hall does this first. A second time does nothing more.

        Raises StoreFailed, BadDocument for code or files whose versions do not say what changed, and LifespanFailed
        for a toolkit that cannot be entered. Without `enter`, the loop that serves the hall has to open it again.
        """
        if self._stores is None:
            stores = await asyncio.to_thread(
                choose_stores,
                self._folder.path,
                share=terms.share,
                family=terms.family,
                beside=terms.beside,
                briefly=terms.briefly,
            )
            try:
                await self._bring_back(stores, terms)
            except BaseException:
                stores.close()
                raise
            self._stores = stores
        self._watch()
        if enter:
            await self.enter()
            self.http.opened = True

    async def _open_unasked(self) -> None:
        """Open the hall with a request that came before anybody did; without a data folder, it is as it was made."""
        if self._stores is None and self.config.data is None:
            self._watch()
            await self.enter()
        else:
            await self.open()

    def _watch(self) -> None:
        self.registrar.watch()
        self.access.watch()
        self._staff.watchdog.watch()
        self.servers.watch()

    async def enter(self) -> None:
        """Enter the hall's lifespan and its toolkits in the loop that runs now; `settle` leaves them."""
        await self.lifespans.enter()

    async def _bring_back(self, stores: Stores, terms: Terms) -> None:
        self.registry.change(without={str(tool.id) for paper in self._files for tool in paper.tools})
        hold = terms.hold and self.config.data is not None
        await self.guard.open(stores)
        await self.supplies.open(stores)
        known = stores.readonly or stores.guest or terms.family == "sibling"  # another process has kept what is served
        await self.registrar.open(stores.tools, hold=hold, files=self._files, readonly=known)
        self.access.turns.frozen = terms.refusal if stores.readonly else None
        others = terms.refusal if stores.guest or terms.leaves_tools else None
        self.registrar.turns.frozen = terms.frozen or self.access.turns.frozen or others
        if terms.leaves_tools:
            stores.yield_tools()
        if self.config.providers or any(entry.needs for entry in self.registry.snapshot.entries):
            await self._staff.outside.ready()
        await self._folder.anchor(stores)
        if not stores.readonly:
            self._entrances.remember(stores.states)
        self.hall.shortlist.of(self.registry.snapshot)  # everything is there: says which pins fit nothing

    def ask_through(self, approver: Approver) -> None:
        """From now on, ask a person this way where a call needs one."""
        self._verify.approver = approver

    def without_pages(self) -> None:
        """Nobody can open this hall's pages, because it is not served over HTTP: then nobody is sent there."""
        self._verify.approvals = None
        self.supplies.broker.pages = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve every dialect over HTTP, as an ASGI application."""
        await self.http(scope, receive, send)

    async def serve_stdio(self, dialect: str = "mcp") -> None:
        """Serve mcp, machine or hub on this process's own input and output, until the input ends."""
        if dialect not in SPOKEN:
            raise ValueError(f"{dialect!r} is not spoken over standard input; use one of {', '.join(SPOKEN)}")
        self.without_pages()
        await self.open(over_stdio(dialect))  # in this loop, whoever opened it before
        await self._entrances.serve_lines(dialect)
        await self.settle()

    def end_streams(self) -> None:
        """Say goodbye to every client that holds a stream open, so that a server can stop; what runs may finish."""
        self.servers.leases.end()
        self._entrances.end_streams()

    async def settle(self) -> None:
        """Finish what goes on by itself, before the loop ends; whoever serves the hall does this last."""
        self.http.opened = False
        self.servers.rest()
        await self.lifespans.leave()
        await self.supplies.settle()
        await self._checkup.close()

    def close(self) -> None:
        """Write what is left and stop the worker threads; a part that fails to close keeps no other from it."""
        with ExitStack() as last_first:
            if self._stores is not None:  # after the audit, whose last checkpoint they keep
                last_first.callback(self._stores.close)
            last_first.callback(self._folder.close)
            last_first.callback(self.telemetry.close)
            last_first.callback(self._staff.close)
            last_first.callback(self._checker.close)
            for part in (self.supplies, self.access, self.registrar, self.servers, self._entrances):
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

    def _located(self, conflict: Conflict) -> Conflict:
        """The same with the places where the tools that it names are written."""
        named = set(re.split(r"[\s;,']+", str(conflict)))
        places = [f"{tool} is at {place}" for tool, place in dict.fromkeys(self._written) if tool in named]
        return Conflict(f"{conflict} ({', '.join(places)})") if places else conflict

    def _guarded(self) -> Guard:
        try:
            return Guard(self.config, self._folder.root, Turns(), self._follow)
        except BaseException:  # settings that cannot be used; the folder is open already
            self._folder.close()
            raise

    def _supplied(self) -> Supplies:
        place = self.guard.people.place
        try:
            return Supplies(self.config, self._folder.path, lambda: place.url)
        except BaseException:
            self._folder.close()
            raise

    def _follow(self, rules: Rules) -> None:
        self.hall.follow(rules)  # which is there by the time that rules change

    def _parts(self, approver: Approver | None) -> Parts:
        approvals = self.guard.people.approvals
        self._verify = Verify(self.guard.policy, approver, approvals, self._ready)
        figures = [*self._staff.figures(), *self.servers.pools.figures(), *self._audit_figures()]
        return Parts(
            registry=self.registry,
            folder=self._folder,
            guard=self.guard,
            verify=self._verify,
            supplies=self.supplies,
            staff=self._staff,
            checker=self._checker,
            telemetry=Telemetry(spans_from(), figures),
            servers=self.servers,
            examine=self._examine,
        )

    def _entry(self, definition: Definition) -> Entry:
        if definition.health is not None:
            self._examined.append(definition)
        # Its schemas were checked when the function was marked.
        code = code_sha256(definition.body.function)
        runner, bind = self._staff.runner(definition, code), definition.body.bind
        return compile_entry(definition.tool, runner, known_good=True, bind=bind, code_sha256=code)

    async def _examine(self) -> Vitals:
        toolkits = await self._checkup.states(self._examined)
        return Vitals(
            {**self.servers.states(self.registry.snapshot, self.registrar.ledger), **toolkits},
            self.servers.pools.states(),
        )

    def _search_entry(self) -> Entry:
        hall = self.hall
        found = search_tool(lambda: hall.shortlist.of(hall.registry.snapshot).names, hall.policy.sees)
        return compile_entry(found.tool, self._staff.runner(found))

    async def _ready(self, valid: Valid) -> None:
        """Raise what would keep a call from running once a person has agreed to it."""
        self.hall.audit.refuse_behind()
        await self.supplies.equip.ready(valid)

    def _audit_figures(self) -> Iterator[Gauge]:
        about = "1 while records cannot be written."
        yield Gauge("toolhall_audit_failing", "gauge", about, lambda: float(self.journal.failing))
        about = "1 while the audit is not what the store knows of it."
        yield Gauge("toolhall_audit_behind", "gauge", about, lambda: float(bool(self.journal.behind)))


def _usable(config: Config) -> Config:
    """A tool's file may make a hall; a worker process that imports the file must not open that hall's own files.

    Nor does it link accounts, for which it lacks settings that the hall was told by its environment.
    """
    return msgspec.structs.replace(config, data=None, record=(), providers={}) if is_worker() else config
