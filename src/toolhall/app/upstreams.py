"""Upstreams: the servers of somebody else whose tools a hall offers, those of files and those that were added.

Theory of operation
-------------------
What a file or the command line names wins over what was added and stored under the same name. Both become one mapping,
which `UpstreamManager.configure` takes: it keeps the sessions and states, fetches the lists and runs the calls.
`UpstreamSync` turns each list into registered tools, so that a list is served from the store, whether its upstream can
be reached or not. A process that may not change tools, such as a sibling worker, calls upstreams and registers nothing.

Commands come from files and from this machine only: whoever lets somebody add an upstream over the network passes URLs
alone (`http/api/upstreams.py`).
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from toolhall.app.upstream_credentials import HallCredentials, SecretReader, dialer_for, own_addresses
from toolhall.app.upstream_sessions import UpstreamSessionOpener
from toolhall.app.wiring import resource_lookup
from toolhall.concurrency import BackgroundTasks
from toolhall.config import Config
from toolhall.dialects.mcp.client_handshake import Era
from toolhall.egress.addresses import EgressRefused
from toolhall.execution.health_checks import DEGRADED, HEALTHY, UNHEALTHY
from toolhall.execution.upstream.call_requests import upstream_uri
from toolhall.execution.upstream.check import CheckStep, CheckTools
from toolhall.execution.upstream.manager import ManagerOptions, UpstreamManager
from toolhall.execution.upstream.runner import UpstreamRunner
from toolhall.http.api.events import UpstreamMark
from toolhall.http.health import UpstreamHealth
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import Malformed, NeedsRequirement, NotFound, ToolhallError, Unavailable
from toolhall.model.requirements import AccountRequirement, MissingRequirement
from toolhall.model.upstream import (
    Upstream,
    UpstreamAuth,
    UpstreamListing,
    UpstreamSettings,
    UpstreamStatus,
    UpstreamView,
    upstream_name_problem,
)
from toolhall.oauth.providers import UPSTREAM_PREFIX
from toolhall.oauth.upstream_accounts import UpstreamAccounts, account_name
from toolhall.registration.service import RegistrationService
from toolhall.registration.upstream_definitions import DefinitionReader, UpstreamFinding, qualified_uri
from toolhall.registration.upstream_sync import UpstreamReview, UpstreamSync
from toolhall.registry.snapshot import Entry
from toolhall.registry.uri_index import UriMatch
from toolhall.stores.accounts import Account
from toolhall.stores.common import Stale, StoreFailed, Unstorable, WriteLock
from toolhall.stores.upstreams import MemoryUpstreamStore, StoredUpstream, UpstreamStore

if TYPE_CHECKING:
    from toolhall.app.toolhall import Toolhall

MAX_UPSTREAMS = 1_000
_OTHER_PROCESS = "another process of this hall takes the yes, and this request did not reach it: send it again"
_log = logging.getLogger("toolhall.upstreams")
T = TypeVar("T")


class UpstreamParts(NamedTuple):
    """What the upstreams of a hall work with."""

    registration: RegistrationService
    secrets: SecretReader
    accounts: Callable[[], UpstreamAccounts]
    write_lock: WriteLock  # of what is no tool
    hall_id: str
    note_server: Callable[[str, str], None]  # gets the id of each call, and where it goes
    has_resource: Callable[[str, str], bool]  # whether a toolkit has a resource with this URI
    match_resource: Callable[[str], UriMatch[Entry] | None]
    changed: Callable[[str], None]  # tells who subscribed to a resource that it has changed


class Upstreams:
    """All upstreams of one hall; `given` are those of files and of the command line."""

    def __init__(self, config: Config, parts: UpstreamParts, given: Iterable[Upstream] = ()) -> None:
        self._config = config
        self._parts = parts
        self._registration = parts.registration
        self._local = config.profile == "local"
        self._store: UpstreamStore = MemoryUpstreamStore()
        self._rows: dict[str, StoredUpstream] = {}
        self._given: dict[str, Upstream] = {}
        self._all: dict[str, Upstream] = {}
        self._removing: set[str] = set()
        self._tasks = BackgroundTasks()
        self.registers = True  # False: another process of this data folder registers what upstreams list
        self._detected: dict[str, UpstreamAuth] = {}  # how upstreams want to be called that do not say it
        self.credentials = HallCredentials(parts.secrets, parts.accounts, self._on_challenge)
        self._sync = UpstreamSync(parts.registration, time.time, local=self._local)
        self.manager = UpstreamManager(
            UpstreamSessionOpener(config, self._last_era),
            self._apply,
            self.credentials,
            ManagerOptions(
                hall_id=parts.hall_id,
                local=self._local,
                idempotent=config.idempotent,
                note_server=parts.note_server,
                on_resource_updated=self._on_resource_updated,
                shown_uri=self._shown_uri,
                check_tools=CheckTools(lambda each: dialer_for(each, config), _unreadable),
            ),
        )
        self.give(given)

    @property
    def runner(self) -> UpstreamRunner:
        """Runs the tools of every upstream."""
        return self.manager.runner

    def open(self, store: UpstreamStore, rows: Sequence[StoredUpstream]) -> None:
        """Take what is stored, at the start and whenever another process has changed it."""
        self._store, self._rows = store, {row.name: row for row in rows}
        self._configure()

    def give(self, given: Iterable[Upstream]) -> None:
        """Take what files and the command line name now, in place of what they named before."""
        self._given = {each.name: each for each in given}
        self._configure()

    def start(self) -> None:
        """Reach every upstream in the background, in the running loop."""
        self.manager.start()

    async def suspend(self) -> None:
        """End sessions and children, because the loop that they belong to ends; `start` begins anew."""
        await self._tasks.shutdown()
        await self.manager.close()

    def close(self) -> None:
        """Forget the secrets of upstreams."""
        self.credentials.redact_output({})

    @property
    def offered(self) -> set[str]:
        """The names of the upstreams whose tools are listed: those that are not switched off."""
        return {name for name, each in self._all.items() if not each.settings.off}

    def is_offered(self, name: str) -> bool:
        """Return whether the tools of an upstream are listed."""
        found = self._all.get(name)
        return found is not None and not found.settings.off

    def watch(self, uri: str, watched: bool) -> None:
        """Hear of changes of a resource, if it is an upstream's, because somebody subscribed to it; or no more."""
        match = self._parts.match_resource(uri)
        if match is not None and (tool := match.value.tool).id.toolkit in self._all:
            self.manager.watch(tool.id.toolkit, upstream_uri(tool, uri, match.variables), watched=watched)

    def end_waiting_call(self, memory: Mapping[str, bytes]) -> None:
        """Cancel a call that waits at its upstream, because its next request was refused."""
        self.manager.runner.parked.abandon(memory)

    def settings_of(self, name: str) -> UpstreamSettings | None:
        """Return the settings of an upstream."""
        found = self._all.get(name)
        return None if found is None else found.settings

    def own_addresses(self) -> tuple[str, ...]:
        """Return the addresses on this machine that a person named: the hall looks for accounts there, too."""
        return tuple(entry for each in self._all.values() for entry in own_addresses(each, self._config))

    def on_linked(self, account: Account) -> None:
        """Fetch the lists of an upstream with the account that somebody has just linked, in that moment only."""
        name = account.provider.removeprefix(UPSTREAM_PREFIX)
        if account.provider.startswith(UPSTREAM_PREFIX) and name in self._all:
            self._tasks.start(self._sync_with(name, account.user))

    def on_secrets_changed(self) -> None:
        """Try those again that wait for a secret."""
        self.credentials.redact_output(self._all)
        for status in self.manager.statuses():
            if status.state == "waiting":
                self.manager.connection(status.name).retry_now()

    def health(self) -> dict[str, UpstreamHealth]:
        """Return what each upstream means for the health of the hall; one that is off is not counted."""
        return {
            status.name: UpstreamHealth(status.state, self._health_of(status), status.reason)
            for status in self.manager.statuses()
        }

    def marks(self) -> Mapping[str, UpstreamMark]:
        """Return what tells whether an upstream has changed."""
        found = (self.manager.connection(name) for name in self._all)
        return {each.name: UpstreamMark(each.state, each.syncs) for each in found}

    def listed(self) -> tuple[UpstreamView, ...]:
        """Return all upstreams by name."""
        served = self._served()
        statuses = {each.name: each for each in self.manager.statuses()}
        return tuple(
            UpstreamView(
                upstream=upstream,
                status=self._with_memory(statuses.get(name) or UpstreamStatus(name=name, state="new")),
                tools=served[name],
                waiting=self._sync.waiting(name),
            )
            for name, upstream in sorted(self._all.items())
        )

    def view(self, name: str) -> UpstreamView:
        """Return one upstream; raises NotFound."""
        self._find(name)
        return next(each for each in self.listed() if each.upstream.name == name)

    async def add(self, name: str, settings: UpstreamSettings, by: Caller) -> UpstreamView:
        """Add an upstream and reach it in the background; raises Malformed if it cannot be, Unavailable."""
        if problem := upstream_name_problem(name) or self._name_taken(name):
            raise Malformed(problem)
        if len(self._all) >= MAX_UPSTREAMS:
            raise Malformed(f"there are {MAX_UPSTREAMS} upstreams; remove one first")
        now = time.time()
        document = msgspec.json.decode(msgspec.json.encode(settings))  # with lists, as it is stored
        row = StoredUpstream(name=name, settings=document, by=by.id, added_at=now, changed_at=now)
        upstream = self._from_row(row, settings)
        if settings.url is not None:
            try:
                dialer_for(upstream, self._config).parse(settings.url)
            except EgressRefused as refused:
                raise Malformed(str(refused)) from None
        await self._save(row)
        return self.view(name)

    async def remove(self, name: str, by: Caller) -> None:
        """Remove an upstream with its tools; raises NotFound, Malformed for one that a file names."""
        upstream = self._find(name)
        if upstream.source != "store":
            raise Malformed(f"{name} is not in the store but {_where(upstream)}; take it out there")
        await self._exclusive(self._remove(name, by.id))

    async def set_off(self, name: str, *, off: bool, by: Caller) -> UpstreamView:
        """Switch an upstream off, also one that a file names, or on again; raises NotFound."""
        upstream = self._find(name)
        if upstream.source != "store" and self._given[name].settings.off and not off:
            raise Malformed(f"{name} is switched off {_where(upstream)}; take out off = true there")
        row = self._rows.get(name) or self._new_row(name, by.id)
        await self._save(msgspec.structs.replace(row, off=off, changed_at=time.time()))
        return self.view(name)

    async def check(self, name: str, by: Caller) -> tuple[CheckStep, ...]:
        """Try everything that a call needs, step by step, with the account of whoever checks; raises NotFound."""
        upstream = self._find(name)
        if upstream.settings.auth != "oauth" or by.user is None:
            return await self.manager.check(name)
        with self._parts.accounts().lend(name, by.user):
            return await self.manager.check(name)

    async def sync(self, name: str) -> UpstreamView:
        """Fetch the lists of an upstream now; raises NotFound, and Unavailable if it cannot be reached."""
        self._find(name)
        await self.manager.sync_now(name)
        return self.view(name)

    def review(self, name: str) -> UpstreamReview:
        """Return everything of an upstream that waits for somebody's look; raises NotFound."""
        self._find(name)
        return self._sync.review(name)

    def findings(self, name: str) -> tuple[UpstreamFinding, ...]:
        """Return what was mended or withheld in its last list."""
        return self._sync.findings(name)

    async def accept(self, name: str, digest: str, by: Caller) -> tuple[str, ...]:
        """Serve exactly what was shown with this digest; raises Malformed if something else waits by now.

        Raises Unavailable in a process that registers nothing: of several workers, the first one does.
        """
        self._find(name)
        if not self.registers:
            raise Unavailable(_OTHER_PROCESS)
        return await self._sync.accept(name, digest, by.id)

    # --- what is there --------------------------------------------------------------------------------------------

    def _configure(self) -> None:
        stored = (self._stored(row) for row in self._rows.values() if row.settings is not None)
        merged = {each.name: each for each in stored if each is not None} | self._given
        before = self.offered
        self._all = {name: self._effective(each) for name, each in merged.items()}
        self.credentials.redact_output(self._all)
        self._sync.configure(self._all)
        if changed := before ^ self.offered:
            self._registration.reapply_upstreams(changed)
        self.manager.configure(self._all)

    def _stored(self, row: StoredUpstream) -> Upstream | None:
        try:
            return self._from_row(row, msgspec.convert(row.settings, UpstreamSettings))
        except msgspec.ValidationError as error:
            _log.error("the upstream %s is left out: %s; remove it and add it again", row.name, error)
            return None

    def _from_row(self, row: StoredUpstream, settings: UpstreamSettings) -> Upstream:
        typed = self._local and row.by == LOCAL.id
        return Upstream(name=row.name, settings=settings, source="store", where=row.by, named_by_person=typed)

    def _effective(self, upstream: Upstream) -> Upstream:
        """Return the upstream as it is called: off if somebody switched it off, and with the `auth` that it wants."""
        row, settings = self._rows.get(upstream.name), upstream.settings
        if row is not None and row.off:
            settings = msgspec.structs.replace(settings, off=True)
        detected = self._detected.get(upstream.name)
        if settings.auth is None and settings.url is not None and detected is not None and settings.share != "hall":
            settings = msgspec.structs.replace(settings, auth=detected)
        return msgspec.structs.replace(upstream, settings=settings)

    def _find(self, name: str) -> Upstream:
        found = self._all.get(name)
        if found is None:
            raise NotFound("there is no such upstream; 'toolhall upstream list' shows those that there are")
        return found

    def _name_taken(self, name: str) -> str | None:
        folded = name.casefold()
        if any(each.casefold() == folded for each in (*self._all, *self._rows)):
            return f"there is an upstream of the name {name}; remove it first, or use another name"
        toolkits = {each.toolkit for each in self._registration.all_records if each.origin_detail != name}
        if any(each.casefold() == folded for each in toolkits):
            return f"there is a toolkit of the name {name}; use another name"
        return None

    def _served(self) -> Counter[str]:
        """Return how many tools of each upstream are served, as `tools/list` counts them: no resources and prompts."""
        served = (each for each in self._registration.all_records if each.origin == "upstream")
        return Counter(
            each.origin_detail
            for each in served
            if each.state == "active" and self._registration.tool(each).kind == "tool"
        )

    def _with_memory(self, status: UpstreamStatus) -> UpstreamStatus:
        """Return the status with what was seen of the upstream before this start."""
        row = self._rows.get(status.name)
        if row is None or status.revision is not None:
            return status
        return msgspec.structs.replace(
            status,
            era=row.era,
            revision=row.revision,
            server_name=row.server_name,
            server_version=row.server_version,
        )

    def _health_of(self, status: UpstreamStatus) -> str:
        if status.state in ("ready", "off"):
            return HEALTHY
        if status.state == "connecting" and status.last_sync is not None:
            return HEALTHY  # again, after a failure; as before
        return UNHEALTHY if self._all[status.name].settings.required else DEGRADED

    # --- what is stored -------------------------------------------------------------------------------------------

    def _new_row(self, name: str, by: str) -> StoredUpstream:
        now = time.time()
        return StoredUpstream(name=name, by=by, added_at=now, changed_at=now)

    async def _save(self, row: StoredUpstream) -> None:
        async def save() -> None:
            self._rows[row.name] = await self._store.save(row)
            self._configure()

        try:
            await self._exclusive(save())
        except Unstorable as problem:
            raise Malformed(str(problem)) from None

    async def _remove(self, name: str, by: str) -> None:
        self._removing.add(name)  # a list that comes meanwhile registers nothing
        try:
            await self._sync.forget(name, by)
            await self._store.remove(name)
            self._rows.pop(name, None)
            self._configure()
        finally:
            self._removing.discard(name)

    async def _exclusive(self, change: Coroutine[Any, Any, T]) -> T:
        return await self._parts.write_lock.exclusive(change)

    async def _apply(self, upstream: Upstream, listing: UpstreamListing) -> None:
        """Register what an upstream listed, and remember what was seen of it."""
        if not self.registers or upstream.name in self._removing or upstream.name not in self._all:
            return  # another process does it, or it is gone
        await self._sync.apply(upstream, listing)
        await self._remember(upstream, listing)

    async def _remember(self, upstream: Upstream, listing: UpstreamListing) -> None:
        status = next((each for each in self.manager.statuses() if each.name == upstream.name), None)
        if upstream.name not in self._all:
            return
        row = self._rows.get(upstream.name) or self._new_row(upstream.name, upstream.where or LOCAL.id)
        seen = msgspec.structs.replace(
            row,
            era=row.era if status is None else status.era,
            revision=listing.revision,
            server_name=listing.server_name,
            server_version=listing.server_version,
        )
        if seen == row:
            return
        try:
            self._rows[upstream.name] = await self._store.save(seen)
        except (StoreFailed, Stale, Unstorable) as problem:  # it is asked again after the next start
            _log.warning("what was seen of the upstream %s is not remembered: %s", upstream.name, problem)

    def _last_era(self, name: str) -> Era | None:
        row = self._rows.get(name)
        return None if row is None else row.era

    def _on_resource_updated(self, name: str, uri: str) -> None:
        """Tell who subscribed to a resource of an upstream, by the URI that it has here."""
        shown = self._shown_uri(name, uri)
        if self._parts.has_resource(name, shown):
            self._parts.changed(shown)

    def _shown_uri(self, name: str, uri: str) -> str:
        """Return the URI here of what an upstream calls so: another one if something else had that first."""
        if self._parts.has_resource(name, uri) or not self._parts.has_resource(
            name, rewritten := qualified_uri(uri, name)
        ):
            return uri
        return rewritten

    # --- sessions -------------------------------------------------------------------------------------------------

    async def _sync_with(self, name: str, user: str) -> None:
        with self._parts.accounts().lend(name, user):
            try:
                await self.manager.sync_now(name)
            except ToolhallError as failed:
                _log.warning("the lists of %s could not be fetched with the account of %s: %s", name, user, failed)

    async def _on_challenge(self, upstream: Upstream, challenge: str | None) -> NeedsRequirement:
        """Find out how an upstream wants to be called that refused the hall itself, and say what has to be done."""
        name = upstream.name
        if upstream.settings.auth is None and upstream.settings.url is not None:
            detected = await self._parts.accounts().detect(upstream, challenge)
            if detected == "oauth" and self._detected.get(name) != detected:
                self._detected[name] = detected
                self._configure()
            if detected == "none":
                return NeedsRequirement(_no_credential(upstream))
        if fault := await self._parts.accounts().discovery_fault(name):
            return NeedsRequirement(f"{name} wants an account, and none can be linked: {fault}")
        need = AccountRequirement(account_name(name))
        return NeedsRequirement(
            f"nobody has linked an account with {name}: use 'toolhall account connect {account_name(name)}', or"
            " Accounts in the console",
            missing=[MissingRequirement("account", account=need)],
        )


def build_upstreams(hall: "Toolhall", hall_id: str, given: Iterable[Upstream]) -> Upstreams:
    """Build the upstreams of a hall, and let them hear of linked accounts and of secrets."""
    credentials = hall.credentials

    def match_resource(uri: str) -> UriMatch[Entry] | None:
        return hall.registry.snapshot.resources.match(uri)

    parts = UpstreamParts(
        registration=hall.registration,
        secrets=credentials.vault,
        accounts=lambda: credentials.upstream_accounts,
        write_lock=hall.access.write_lock,
        hall_id=hall_id,
        note_server=hall.dispatcher.audit.note_server,
        has_resource=resource_lookup(hall.registry),
        match_resource=match_resource,
        changed=hall.changed,
    )
    built = Upstreams(hall.config, parts, given)
    credentials.upstream_settings, credentials.on_linked = built.settings_of, built.on_linked
    credentials.egress.more = built.own_addresses
    credentials.vault.on_change = built.on_secrets_changed
    hall.dispatcher.changes.on_asked = built.watch
    return built


def _where(upstream: Upstream) -> str:
    return f"in {upstream.where}" if upstream.source == "file" and upstream.where else "on the command line"


def _no_credential(upstream: Upstream) -> str:
    """Say what to do about an upstream that answers 401 and names nobody who gives out tokens."""
    name, secrets = upstream.name, sorted(upstream.settings.header_secrets)
    if secrets:
        return f"{name} refuses its headers; set the right value with 'toolhall secret set {secrets[0]}'"
    if upstream.settings.headers:
        return f"{name} refuses its headers; write the right ones into its settings"
    return (
        f"{name} wants a credential, and does not say where to get one: ask whoever runs it for a key, set it with"
        " 'toolhall secret set NAME', and write headers = {Authorization = \"Bearer ${secret:NAME}\"}"
    )


def _unreadable(_: Upstream, listing: UpstreamListing) -> tuple[str, ...]:
    """Return a line for each definition of a list that cannot be offered."""
    read = (each.finding() for each in DefinitionReader().read(listing) if each.tool is None)
    return tuple(f"{each.name}: {'; '.join(finding.fix for finding in each.findings)}" for each in read)
