"""The composition root: the only file that knows every part."""

import asyncio
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from toolhall.authoring.definition import Definition, definitions_of
from toolhall.config import BadConfig, Config
from toolhall.dialects.mcp.write import Server
from toolhall.dialects.openapi.catalog import Info
from toolhall.hall import Hall
from toolhall.model.recording import FILE_NAME as RECORDINGS
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Authorize, LocalPolicy
from toolhall.pipeline.check import Check
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Find
from toolhall.pipeline.limit import Limit
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.record import Recorder
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.validate import Validate
from toolhall.pipeline.verify import Approver, Verify
from toolhall.registrar.papers import Paper
from toolhall.registrar.registrar import Registrar
from toolhall.registrar.terms import ALONE, Terms
from toolhall.registry.entry import Entry, compile_entry
from toolhall.registry.registry import Registry
from toolhall.registry.search_tool import search_tool
from toolhall.registry.shortlist import Shortlist
from toolhall.runners.checker import ProcessChecker
from toolhall.runners.function import FunctionRunner
from toolhall.runners.nowhere import Nowhere
from toolhall.stores.choosing import choose_store
from toolhall.stores.journal import FileJournal, MemoryJournal
from toolhall.stores.readonly import ReadOnly
from toolhall.stores.recordings import FileRecordings
from toolhall.stores.seal import KEY_BYTES, Seal, kept_key
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.tools import Api
from toolhall.transports.asgi import Receive, Scope, Send
from toolhall.transports.description import Description
from toolhall.transports.health import Health
from toolhall.transports.http import HttpApp, Methods
from toolhall.transports.hub import Hub, HubHttp, configure
from toolhall.transports.identity import LocalIdentity
from toolhall.transports.line_dialect import serve_lines
from toolhall.transports.lines import standard_lines
from toolhall.transports.listing import Listing
from toolhall.transports.machine import Machine, MachineHttp
from toolhall.transports.mcp.http import McpHttp
from toolhall.transports.mcp.legacy_http import LegacyHttp
from toolhall.transports.mcp.modern import Modern
from toolhall.transports.mcp.rounds import Rounds
from toolhall.transports.mcp.stdio import McpStdio
from toolhall.transports.oxp import OxpHttp
from toolhall.transports.rest import Rest
from toolhall.transports.shield import LOOPBACK_HOSTS, Shield
from toolhall.transports.websocket import WebSocket


class Toolhall:
    """A hall with its tools, ready to be served; it is an ASGI application itself.

    `Toolhall(forecast, Calendar)` takes functions, toolkits and modules. Close it, or use it as a context manager.
    """

    def __init__(self, *targets: object, config: Config | None = None, approver: Approver | None = None) -> None:
        self.config = config or Config()
        self.registry = Registry(self.config.page_size)
        self.registrar = Registrar(self.registry, time.time)
        self._files: list[Paper] = []
        self._opened = False
        self._recordings = self._open_recordings()
        self.journal = self._open_journal()
        self._threads = ThreadPoolExecutor(self.config.threads, thread_name_prefix="toolhall-tool")
        self._checker = ProcessChecker()
        self._verify = Verify(approver)
        self.hall = self._build_hall()
        self._server = Server(name=self.config.name, version=version("toolhall"), instructions=self.config.instructions)
        self._rounds = Rounds(Seal(self._key()), time.time)
        self._shield = Shield(LOOPBACK_HOSTS | set(self.config.allowed_hosts), max_body=self.config.max_body_bytes)
        self._stopping = False
        self.machine = Machine(self.hall, self.registrar)
        self.hub = Hub(self.hall, self.registrar, configure, self._state)
        self._mcp = self._build_mcp()
        self.api = self._build_api()
        sockets = {"/hub": WebSocket(self.hub.answer, self.config.max_body_bytes)}
        self.http = HttpApp(self._shield, LocalIdentity(), self._endpoints(), sockets, self.open)
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
            store = await asyncio.to_thread(choose_store, self._folder(), share=terms.share)
            self.registry.change(without={str(tool.id) for paper in self._files for tool in paper.tools})
            hold = terms.hold and self.config.data is not None
            await self.registrar.open(store, hold=hold, files=self._files)
            self.registrar.frozen = terms.frozen or (terms.refusal if isinstance(store, ReadOnly) else None)
            self._opened = True
            self.hall.shortlist.of(self.registry.snapshot)  # everything is there: says which pins fit nothing
        self.registrar.watch()

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
        self._checker.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.journal.close()
        if self._recordings is not None:
            self._recordings.close()

    def __enter__(self) -> "Toolhall":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entry(self, definition: Definition) -> Entry:
        # Its schemas were checked when the function was marked.
        return compile_entry(definition.tool, FunctionRunner(definition.body, self._threads), known_good=True)

    def _search_entry(self) -> Entry:
        hall = self.hall
        found = search_tool(lambda: hall.shortlist.of(hall.registry.snapshot).names, hall.policy.sees)
        return compile_entry(found.tool, FunctionRunner(found.body, self._threads))

    def _build_hall(self) -> Hall:
        config, policy = self.config, LocalPolicy()
        stages = Stages(
            find=Find(self.registry, policy, time.time),
            authorize=Authorize(policy),
            limit=Limit(config.calls_per_second, config.call_burst, time.monotonic),
            validate=Validate(self._checker),
            verify=self._verify,
            equip=Equip(),
            run=Run(config.call_timeout),
            check=Check(config.max_output_bytes),
            sanitize=Sanitize(),
            audit=Audit(self.journal, time.time, time.monotonic),
            record=Recorder(config.record, self._recordings, time.time) if self._recordings else None,
        )
        shortlist = Shortlist(config.pinned, search=config.search)
        return Hall(
            self.registry, policy, Pipeline(stages), new_id=_call_ids(), timer=time.monotonic, shortlist=shortlist
        )

    def _build_mcp(self) -> McpHttp:
        legacy = LegacyHttp(self.hall, self._server, time.monotonic)
        return McpHttp(self.hall, self._shield, self._modern(), legacy)

    def _build_api(self) -> Api:
        managed = Managed(self.hall, self.registrar, self.journal, time.time, self.config.page_size)
        return Api(managed, self._shield)

    def _endpoints(self) -> dict[str, Methods]:
        """Every path that is served; one that ends with a slash serves all below it."""
        health, rest = Health(self.hall, self._state), Rest(self.hall, self._shield)
        oxp = OxpHttp(self.hall, self._shield, new_id=_call_ids(), state=self._state)
        machine = MachineHttp(self.machine, self._shield)
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
            "/health": {"GET": health, "HEAD": health},
            "/health/live": {"GET": health.live, "HEAD": health.live},
            "/health/ready": {"GET": health.ready, "HEAD": health.ready},
        }

    def _state(self) -> str:
        if self._stopping:
            return "unhealthy"
        return "degraded" if self.journal.failing else "healthy"

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

    def _open_journal(self) -> FileJournal | MemoryJournal:
        folder = self._folder()
        return FileJournal(folder / "audit.jsonl") if folder else MemoryJournal()

    def _key(self) -> bytes:
        folder = self._folder()
        return kept_key(folder / "state.key") if folder else secrets.token_bytes(KEY_BYTES)


def _call_ids() -> Callable[[], str]:
    """Ids that never repeat: a random start for this process, then a count."""
    start, count = secrets.token_hex(6), iter(range(1, 2**63))
    return lambda: f"{start}-{next(count)}"
