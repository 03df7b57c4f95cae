"""The composition root: the only file that knows every part."""

import asyncio
import secrets
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec

from toolhall.authoring.definition import Definition, definitions_of
from toolhall.config import BadConfig, Config
from toolhall.dialects.mcp.write import Server
from toolhall.dialects.openapi.catalog import Info
from toolhall.hall import Hall
from toolhall.model.recording import FILE_NAME as RECORDINGS
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Authorize
from toolhall.pipeline.check import Check
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Find
from toolhall.pipeline.grants import Rulings
from toolhall.pipeline.limit import Limit, Rate, Rates
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.record import Recorder
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.validate import Validate
from toolhall.pipeline.verify import Approver, Verify
from toolhall.registrar.access import Access
from toolhall.registrar.papers import Paper
from toolhall.registrar.registrar import Registrar
from toolhall.registrar.terms import ALONE, Terms
from toolhall.registry.entry import Entry, compile_entry
from toolhall.registry.registry import Registry
from toolhall.registry.search_tool import search_tool
from toolhall.registry.shortlist import Shortlist
from toolhall.runners.checker import ProcessChecker
from toolhall.runners.inside import is_worker
from toolhall.runners.nowhere import Nowhere
from toolhall.runners.staff import Staff, means_of
from toolhall.stores.bundle import Stores
from toolhall.stores.choosing import choose_stores
from toolhall.stores.journal import journal_in
from toolhall.stores.recordings import FileRecordings
from toolhall.stores.seal import KEY_BYTES, KEY_NAME, Seal, kept_key
from toolhall.telemetry.figures import Gauge, Telemetry
from toolhall.telemetry.spans import spans_from
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.tools import Api
from toolhall.transports.asgi import Receive, Scope, Send
from toolhall.transports.description import Description
from toolhall.transports.door import build_door, hosts_of
from toolhall.transports.health import Health
from toolhall.transports.http import HttpApp, Methods
from toolhall.transports.hub import Hub, HubHttp, configure
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
from toolhall.transports.oxp import OxpHttp
from toolhall.transports.pages.building import People
from toolhall.transports.pages.place import Place
from toolhall.transports.rest import Rest
from toolhall.transports.shield import LOOPBACK_HOSTS, Shield
from toolhall.transports.websocket import WebSocket


class Toolhall:
    """A hall with its tools, ready to be served; it is an ASGI application itself.

    `Toolhall(forecast, Calendar)` takes functions, toolkits and modules. Close it, or use it as a context manager.
    """

    def __init__(self, *targets: object, config: Config | None = None, approver: Approver | None = None) -> None:
        self.config = _usable(config or Config())
        self.registry = Registry(self.config.page_size)
        self.registrar = Registrar(self.registry, time.time)
        self._files: list[Paper] = []
        self._opened = False
        self._stores: Stores | None = None
        self._recordings = self._open_recordings()
        self.journal = journal_in(self._folder(), self.config.audit_days)
        self._staff = Staff(means_of(self.config), Run.tool_in)
        self.telemetry = Telemetry(spans_from(), [*self._staff.figures(), self._audit_figure()])
        self._checker = ProcessChecker()
        self.policy = LevelPolicy(
            steps=self.config.steps,
            overrides=self.config.levels,
            allow_anonymous=self.config.allow_anonymous,
            clock=time.time,
        )
        root = self._root()
        turns, policy = self.registrar.turns, self.policy
        self.access = Access(root, turns, time.time, lambda grants: self.hall.follow(Rulings(grants)))
        self.people = People(self.config.name, Place(self.config.public_url, self.config.port), root, time.time)
        self._verify = Verify(self.policy, approver, self.people.approvals)
        self.hall = self._build_hall()
        self._server = Server(name=self.config.name, version=version("toolhall"), instructions=self.config.instructions)
        self._rounds = Rounds(Seal(root), time.time)
        hosts = LOOPBACK_HOSTS | set(self.config.allowed_hosts) | hosts_of(self.config)
        self._shield = Shield(hosts, max_body=self.config.max_body_bytes)
        self._stopping = False
        self.door = build_door(self.config.name, self.config, self.access.ring, time.time)
        self.machine = Machine(self.hall, self.registrar)
        self.hub = Hub(self.hall, self.registrar, configure, self._state)
        self._mcp = self._build_mcp()
        self.api = self._build_api()
        sockets = {"/hub": WebSocket(self.hub.answer, self.config.max_body_bytes)}
        identity, challenges = self.door.identity, self.door.challenges
        self.http = HttpApp(self._shield, identity, self._endpoints(), sockets, self.open, challenges)
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
        drafts = {str(each.tool.id) for each in definitions if not each.versioned}
        self.registrar.own(list(map(self._entry, definitions)), drafts)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        return self.registrar.disown(name)

    def propose(self, *papers: Paper) -> None:
        """Take definitions from outside the operator's own code; until the hall is opened, they are all there."""
        entries = [compile_entry(tool, Nowhere()) for paper in papers for tool in paper.tools]
        self.registry.add(entries)
        self._files.extend(papers)

    async def open(self, terms: Terms = ALONE) -> None:
        """Bring back what was registered; whoever serves the hall does this first. A second time does nothing more.

        Raises StoreFailed, and BadDocument for code or files whose versions do not say what changed.
        """
        if not self._opened:
            stores = self._stores = await asyncio.to_thread(choose_stores, self._folder(), share=terms.share)
            self.registry.change(without={str(tool.id) for paper in self._files for tool in paper.tools})
            hold = terms.hold and self.config.data is not None
            self.people.open(stores)
            await self.access.open(stores)
            await self.registrar.open(stores.tools, hold=hold, files=self._files, readonly=stores.readonly)
            self.registrar.turns.frozen = terms.frozen or (terms.refusal if stores.readonly else None)
            self._opened = True
            self.hall.shortlist.of(self.registry.snapshot)  # everything is there: says which pins fit nothing
        self.registrar.watch()
        self._staff.watchdog.watch()

    def ask_through(self, approver: Approver) -> None:
        """From now on, ask a person this way where a call needs one."""
        self._verify.approver = approver

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve every dialect over HTTP, as an ASGI application."""
        await self.http(scope, receive, send)

    async def serve_stdio(self, dialect: str = "mcp") -> None:
        """Serve mcp, machine or hub on this process's own input and output, until the input ends."""
        answers = {"mcp": None, "machine": self.machine.answer, "hub": self.hub.answer}
        if dialect not in answers:
            raise ValueError(f"{dialect!r} is not spoken over standard input; use one of {', '.join(answers)}")
        await self.open()  # in this loop, whoever opened it before
        lines = await standard_lines(self.config.max_body_bytes)
        answer = answers[dialect]
        if answer is None:
            await McpStdio(self.hall, self._server, self._modern(), lines, self.config.max_body_bytes).run()
        else:
            await serve_lines(lines, answer, self.config.max_body_bytes)

    def end_streams(self) -> None:
        """Say goodbye to every client that holds a stream open, so that a server can stop; what runs may finish."""
        self._stopping = True
        self._mcp.end_streams()

    def close(self) -> None:
        """Write what is left and stop the worker threads."""
        self._mcp.close()
        self.registrar.close()
        if self._stores is not None:
            self._stores.close()
        self._checker.close()
        self._staff.close()
        self.telemetry.close()
        self.journal.close()
        if self._recordings is not None:
            self._recordings.close()

    def __enter__(self) -> "Toolhall":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entry(self, definition: Definition) -> Entry:
        # Its schemas were checked when the function was marked.
        return compile_entry(definition.tool, self._staff.runner(definition), known_good=True)

    def _search_entry(self) -> Entry:
        hall = self.hall
        found = search_tool(lambda: hall.shortlist.of(hall.registry.snapshot).names, hall.policy.sees)
        return compile_entry(found.tool, self._staff.runner(found))

    def _build_hall(self) -> Hall:
        config, policy = self.config, self.policy
        stages = Stages(
            find=Find(self.registry, policy, time.time),
            authorize=Authorize(policy),
            limit=Limit(_rates(config), time.monotonic),
            validate=Validate(self._checker),
            verify=self._verify,
            equip=Equip(),
            run=Run(config.call_timeout, self._staff.activity),
            check=Check(config.max_output_bytes),
            sanitize=Sanitize(),
            audit=Audit(self.journal, time.time, time.monotonic),
            record=Recorder(config.record, self._recordings, time.time) if self._recordings else None,
            telemetry=self.telemetry,
        )
        shortlist = Shortlist(config.pinned, search=config.search)
        return Hall(
            self.registry, policy, Pipeline(stages), new_id=_call_ids(), timer=time.monotonic, shortlist=shortlist
        )

    def _build_mcp(self) -> McpHttp:
        legacy = LegacyHttp(self.hall, self._server, time.monotonic)
        return McpHttp(self.hall, self._shield, self._modern(), legacy)

    def _build_api(self) -> Api:
        managed = Managed(self.hall, self.registrar, self.access, self.journal, time.time, self.config.page_size)
        return Api(managed, self._shield)

    def _endpoints(self) -> dict[str, Methods]:
        """Every path that is served; one that ends with a slash serves all below it."""
        health, rest = Health(self.hall, self._state), Rest(self.hall, self._shield)
        oxp = OxpHttp(self.hall, self._shield, new_id=_call_ids(), state=self._state)
        machine = MachineHttp(self.machine, self._shield, self.door.identity)
        info = Info(title=self.config.name, version=version("toolhall"), description=self.config.instructions)
        return {
            "/mcp": {"POST": self._mcp, "GET": self._mcp.other, "DELETE": self._mcp.other},
            "/oxp/health": {"GET": oxp.health, "HEAD": oxp.health},
            "/oxp/tools": {"GET": oxp.tools},
            "/oxp/tools/call": {"POST": oxp.call},
            "/hub": {"POST": HubHttp(self.hub, self._shield)},
            "/machine": {"POST": machine.message},
            "/machine/tools": {"GET": machine.tools, "POST": machine.register},
            "/openapi.json": {"GET": Description(self.hall, info)},
            "/tools": {"GET": Listing(self.hall, self.config.page_size)},
            "/tools/": {"POST": rest.call},
            **self.api.endpoints(),
            **self.door.endpoints,
            **self.people.endpoints(self.api.managed, self._shield, self.door.identity),
            "/metrics": {"GET": Metrics(self.hall, self.telemetry, public=self.config.public_metrics)},
            "/health": {"GET": health, "HEAD": health},
            "/health/live": {"GET": health.live, "HEAD": health.live},
            "/health/ready": {"GET": health.ready, "HEAD": health.ready},
        }

    def _state(self) -> str:
        if self._stopping:
            return "unhealthy"
        return "degraded" if self.journal.failing else "healthy"

    def _audit_figure(self) -> Gauge:
        about = "1 while records cannot be written."
        return Gauge("toolhall_audit_failing", "gauge", about, lambda: float(self.journal.failing))

    def _modern(self) -> Modern:
        return Modern(self.hall, self._server, self._rounds)

    def _folder(self) -> Path | None:
        if self.config.data is None:
            return None
        folder = Path(self.config.data)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _open_recordings(self) -> FileRecordings | None:
        if not self.config.record:
            return None
        folder = self._folder()
        if folder is None:
            raise BadConfig("'record' needs a folder to record into; set 'data' (TOOLHALL_DATA), or leave out 'record'")
        return FileRecordings(folder / RECORDINGS)

    def _root(self) -> bytes:
        folder = self._folder()
        return kept_key(folder / KEY_NAME) if folder else secrets.token_bytes(KEY_BYTES)


def _call_ids() -> Callable[[], str]:
    """Ids that never repeat: a random start for this process, then a count."""
    start, count = secrets.token_hex(6), iter(range(1, 2**63))
    return lambda: f"{start}-{next(count)}"


def _usable(config: Config) -> Config:
    """A tool's file may make a hall; a worker process that imports the file must not open that hall's own files."""
    return msgspec.structs.replace(config, data=None, record=()) if is_worker() else config


def _rates(config: Config) -> Rates:
    caller = Rate(config.calls_per_second, config.call_burst)
    return Rates(caller=caller, tool=config.tool_limit, pair=config.pair_limit, costs=config.costs)
