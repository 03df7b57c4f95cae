"""`GET /api/events`: what happens in a hall, as server-sent events; `Topic` has what there is to hear of.

Theory of operation
-------------------
Whatever happens is in the audit, of all processes of a data folder, so each listener follows the audit's logs. The id
of an event is the listener's position in them: a client that reconnects, to any process, misses nothing. Without
listeners there is no work. A listener is proven again while its stream lives, and the number of listeners is bounded.

At most 20 calls are sent in a second; then one event says how many were left out, and the client reads those with
`GET /api/audit`, whose filters are the same.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from toolhall.http.api.audit_state import AuditVerification
from toolhall.http.api.base import ManagementContext, error_response, is_same_origin, query_parameters
from toolhall.http.health import ComponentCheck
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.sse import KEEP_ALIVE_SECONDS, priming_event, start_events, wait_for_disconnect
from toolhall.model.call_records import AuditRecord
from toolhall.model.errors import Denied, Limited, Malformed, ToolhallError
from toolhall.model.json import JsonObject, encode
from toolhall.stores.audit.filters import FILTER_NAMES, AuditQuery, InvalidQuery, parse_query
from toolhall.stores.audit.follow import Follower
from toolhall.stores.audit.query import FoundRecord, Positions, parse_cursor, record_document, write_cursor

Topic: TypeAlias = Literal["calls", "approvals", "tools", "servers", "upstreams", "health", "audit"]
TOPICS: tuple[Topic, ...] = get_args(Topic)
MAX_LISTENERS, MAX_PER_CALLER = 64, 8
CALLS_PER_SECOND = 20
TICK_SECONDS = 0.2
RECHECK_SECONDS = 5.0
RETRY_MS = 2_000
_COMPONENT_SECONDS = 2.0
_BUSY_SECONDS = 10.0  # retry_after with too many listeners
_TOOL_VERBS = ("register ", "activate ", "deactivate ", "deprecate ", "roll back ", "unregister ")
ACCEPT_UPSTREAM = "accept the definitions of upstream "  # before its name; the action of a review
_DECISIONS = {"approve": "approved", "deny": "denied"}


class UpstreamMark(NamedTuple):
    """What tells whether an upstream has changed: its state, and a number that differs with each list of its tools."""

    state: str
    lists: int


class EventSources(NamedTuple):
    """What can be asked for its present state."""

    verification: AuditVerification
    health: Callable[[], str]
    components: ComponentCheck
    upstreams: Callable[[], Mapping[str, "UpstreamMark"]]


class EventsApi:
    """`/api/events`, for administrators and observers."""

    def __init__(self, context: ManagementContext, sources: EventSources) -> None:
        self._context = context
        self._sources = sources
        self._listeners: Counter[str] = Counter()  # by caller
        self._watching = 0  # listeners to calls
        self._closing = asyncio.Event()

    def endpoints(self) -> dict[str, Methods]:
        """Return the route of events."""
        return {"/api/events": {"GET": self.stream}}

    def close(self) -> None:
        """End every stream."""
        self._closing.set()

    async def stream(self, request: HttpRequest) -> None:
        """`GET /api/events`: events until the client goes, its credential ends, or the hall stops."""
        try:
            topics, query, positions = self._parse(request)
            self._check_room(request.caller.id)
        except ToolhallError as error:
            await request.reply(error_response(error))
            return
        request.detach_slot()()  # listeners have a limit of their own
        caller = request.caller.id
        self._listeners[caller] += 1
        self._watch("calls" in topics, 1)
        try:
            follower = await asyncio.to_thread(self._context.reader.follow, positions)
            await start_events(request)
            await _until_disconnect(
                request, self._write(request, EventListener(topics, query, follower, self._sources))
            )
        finally:
            self._watch("calls" in topics, -1)
            self._listeners[caller] -= 1
            self._listeners += Counter()  # drops zeros

    def _parse(self, request: HttpRequest) -> tuple[frozenset[Topic], AuditQuery, Positions | None]:
        if not is_same_origin(request):
            raise Denied("management takes no requests from pages of another origin")
        self._context.require_observer(request.caller)
        parameters = query_parameters(request, ("topics", *FILTER_NAMES))
        topics = [each.strip() for each in parameters.get("topics", ",".join(TOPICS)).split(",")]
        if not set(topics) <= set(TOPICS):
            raise Malformed(f"topics are some of {', '.join(TOPICS)}, separated by commas")
        try:
            query = parse_query(parameters)
        except InvalidQuery as error:
            raise Malformed(str(error)) from None
        try:
            positions = parse_cursor(request.headers.get(b"last-event-id", b"").decode("latin-1") or None)
        except InvalidQuery:  # not of this hall: begin now
            positions = None
        return frozenset(cast("list[Topic]", topics)), query, positions

    def _check_room(self, caller: str) -> None:
        if self._listeners[caller] >= MAX_PER_CALLER or self._listeners.total() >= MAX_LISTENERS:
            raise Limited(_BUSY_SECONDS)

    def _watch(self, calls: bool, change: int) -> None:
        """Take the stage times of every call while somebody listens to calls."""
        if calls:
            before, self._watching = self._watching, self._watching + change
            if bool(before) != bool(self._watching):
                self._context.dispatcher.watch_calls(watched=bool(self._watching))

    async def _write(self, request: HttpRequest, listener: "EventListener") -> None:
        await request.send_body(priming_event(listener.event_id, RETRY_MS), more=True)
        checked = written = time.monotonic()
        while not self._closing.is_set():
            events = await listener.collect()
            now = time.monotonic()
            if events or now - checked >= RECHECK_SECONDS:
                if not await request.is_still_authenticated():
                    break
                checked = now
            if not events and now - written >= KEEP_ALIVE_SECONDS:
                events = b": keep-alive\n\n"
            if events:
                await request.send_body(events, more=True)
                written = now
            await _wait(self._closing, TICK_SECONDS)
        await request.send_body(b"", more=False)


class EventListener:
    """One listener: what is new for it since it was asked last."""

    def __init__(self, topics: frozenset[Topic], query: AuditQuery, follower: Follower, sources: EventSources) -> None:
        self._topics = topics
        self._query = query
        self._follower = follower
        self._sources = sources
        self._follows = bool(topics & {"calls", "approvals", "tools"})
        self._follows_upstreams = bool(topics & {"upstreams", "tools"})
        self._positions = dict(follower.positions)  # behind the last event that was sent
        self._second = 0
        self._sent = 0  # calls in this second
        self._left_out = 0
        self._passed: dict[str, int] = {}  # by log, what was read behind the last event
        self._states: dict[str, str] = {}  # of health and of tool servers
        self._components_due = 0.0
        self._upstreams = sources.upstreams() if self._follows_upstreams else {}
        self._verification = (sources.verification.changes, sources.verification.done)
        if "health" in topics:
            self._states[""] = sources.health()

    @property
    def event_id(self) -> str:
        """Where a client goes on that has everything until now."""
        return write_cursor(self._positions)

    async def collect(self) -> bytes:
        """Return the events that are new, encoded."""
        events: list[bytes] = []
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._sent = second, 0
            if self._left_out:
                self._positions |= self._passed
                events.append(self._event({"topic": "calls", "more": self._left_out}))
                self._left_out = 0
        if self._follows:
            events += await asyncio.to_thread(self._new_events)  # many records, and patterns of the client
        events += [self._event(each) for each in self._state_changes()]
        if "servers" in self._topics:
            events += [self._event(each) for each in await self._server_changes()]
        return b"".join(events)

    def _new_events(self) -> list[bytes]:
        return [event for found in self._follower.read() for event in self._events_of(found)]

    def _events_of(self, found: FoundRecord) -> Iterator[bytes]:
        self._passed[found.log] = found.number + 1
        wanted = "calls" in self._topics and self._query.matches(found.record)
        if wanted and self._sent >= CALLS_PER_SECOND:
            self._left_out += 1
        if not self._left_out:
            self._positions |= self._passed
        if wanted and not self._left_out:
            self._sent += 1
            yield self._event({"topic": "calls", "record": record_document(found)})
        for change in changes_of(found.record):
            if change["topic"] in self._topics:
                yield self._event(change)

    def _state_changes(self) -> Iterator[JsonObject]:
        if "health" in self._topics and (status := self._sources.health()) != self._states[""]:
            self._states[""] = status
            yield {"topic": "health", "status": status}
        verification = self._sources.verification
        if "audit" in self._topics and (verification.changes, verification.done) != self._verification:
            self._verification = verification.changes, verification.done
            yield verification.progress()
        if self._follows_upstreams:
            yield from self._upstream_changes()

    def _upstream_changes(self) -> Iterator[JsonObject]:
        """Yield the upstreams that changed; nobody's request, and so no record, changes the tools of one."""
        before, self._upstreams = self._upstreams, self._sources.upstreams()
        if before == self._upstreams:
            return
        names = [*self._upstreams, *(name for name in before if name not in self._upstreams)]
        changed = [name for name in names if before.get(name) != self._upstreams.get(name)]
        if "upstreams" in self._topics:
            for name in changed:
                now = self._upstreams.get(name)
                yield {"topic": "upstreams", "name": name, "state": "gone" if now is None else now.state}
        if "tools" in self._topics:
            yield {"topic": "tools", "ids": []}

    async def _server_changes(self) -> list[JsonObject]:
        now = time.monotonic()
        if now < self._components_due:
            return []
        first, self._components_due = not self._components_due, now + _COMPONENT_SECONDS
        states: Mapping[str, str] = (await self._sources.components()).servers
        before = {name: state for name, state in self._states.items() if name}
        self._states = {**{name: state for name, state in self._states.items() if not name}, **states}
        gone = dict.fromkeys(before.keys() - states.keys(), "gone")
        changed = {name: state for name, state in {**states, **gone}.items() if before.get(name) != state}
        return [] if first else [{"topic": "servers", "id": name, "state": state} for name, state in changed.items()]

    def _event(self, data: JsonObject) -> bytes:
        return b"event: %b\nid: %b\ndata: %b\n\n" % (data["topic"].encode(), self.event_id.encode(), encode(data))


def changes_of(record: AuditRecord) -> Iterator[JsonObject]:
    """Yield what a record says of approvals and of tools."""
    if record.outcome == "NeedsVerification" and record.approval is not None:
        yield {"topic": "approvals", "id": record.approval, "state": "pending"}
    if not record.is_management or record.outcome != "ok":
        return
    verb, _, rest = record.tool.partition(" ")
    if verb in _DECISIONS and rest:
        yield {"topic": "approvals", "id": rest.partition(" ")[0], "state": _DECISIONS[verb]}
    elif record.tool.startswith(_TOOL_VERBS):
        found = next(each for each in _TOOL_VERBS if record.tool.startswith(each))
        yield {"topic": "tools", "ids": [record.tool.removeprefix(found)]}
    elif verb == "remove" and "@" in rest:  # not a grant, a secret or a factor
        yield {"topic": "tools", "ids": [rest]}
    elif verb in {"join", "leave"} or record.tool.startswith(ACCEPT_UPSTREAM):
        yield {"topic": "tools", "ids": []}


async def _until_disconnect(request: HttpRequest, writing: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(writing), asyncio.create_task(wait_for_disconnect(request))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
