"""ActiveTools: keeps the registry in step with the records; RecordLookup finds records by id or name.

An active tool is served until its sunset. Tools defined in code take precedence: one shadows a registered tool of the
same id, and a toolkit that is defined in code is served from code only.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, date, datetime, time

import msgspec

from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import JsonObject
from toolhall.model.names import precedence
from toolhall.model.tool import Tool
from toolhall.registration.records import (
    IndexedTool,
    RecordIndex,
    RegistrationSource,
    record_for_code,
    tool_from_record,
)
from toolhall.registry.registry import (
    NOT_OFFERED,
    RETIRED,
    UNSERVED,
    Claimant,
    Conflict,
    NameClaims,
    Registry,
    name_conflict,
)
from toolhall.registry.snapshot import Entry, Runner, compile_entry, tool_key
from toolhall.registry.uri_conflicts import shared_uri
from toolhall.schema.validator import Validator
from toolhall.stores.tools import ToolOrigin, ToolRecord

_MAX_SLEEP_SECONDS = 3_600.0  # clocks are adjusted, and machines sleep
OPERATOR = "operator"  # who registers code and files
_log = logging.getLogger("toolhall.registrar")


class ActiveTools:
    """Serves tools: those defined in code with their own runners, all others with that of their origin."""

    def __init__(
        self, registry: Registry, clock: Callable[[], float], runner_for: Callable[[ToolOrigin], Runner]
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._runner_for = runner_for
        self.hold_for: Callable[[IndexedTool], Hold | None] = _no_hold  # of tools of upstreams
        self.has_upstream: Callable[[str], bool] = lambda _: True  # whether it is one of the hall's, and not off
        self._code: dict[str, Entry] = {}
        self._code_toolkits: Counter[str] = Counter()  # how many tools each toolkit has in code
        self.code_claims = NameClaims()
        self._sunsetting: dict[str, IndexedTool] = {}  # active tools with a sunset
        self._timer: asyncio.TimerHandle | None = None

    @property
    def code_entries(self) -> tuple[Entry, ...]:
        """The tools defined in code, served or not."""
        return tuple(self._code.values())

    def add_code_tools(self, entries: Iterable[Entry]) -> None:
        """Add tools defined in code; `apply` decides what is served."""
        for entry in entries:
            self._code[entry.id] = entry
            self._code_toolkits[entry.tool.id.toolkit] += 1
            self.code_claims.claim(entry.tool)

    def remove_code_tool(self, name: str) -> Entry | None:
        """Remove a tool defined in code by id or published name, served or not; returns it, or None."""
        found = self._registry.snapshot.find_any(name)
        by_name = [each for each in self._code.values() if each.tool.name == name]
        entry = self._code.pop(found.id if found else by_name[-1].id if by_name else name, None)
        if entry is not None:
            self.code_claims.release(entry.tool)
            self._code_toolkits[entry.tool.id.toolkit] -= 1
            self._registry.change(removed_ids={entry.id})
        return entry

    def is_servable(self, record: ToolRecord) -> bool:
        """Return whether a record could be served: code that is present, or a toolkit that has no code.

        Tools of an upstream could be, as long as the hall has that upstream and it is not switched off.
        """
        if record.origin == "code":
            return record.id in self._code
        if record.origin == "upstream" and not self.has_upstream(record.origin_detail):
            return False
        return not self.has_code_toolkit(record.toolkit)

    def has_code_toolkit(self, toolkit: str) -> bool:
        """Return whether any tool of the toolkit is defined in code."""
        return self._code_toolkits[toolkit] > 0

    def check_conflict(self, indexed: IndexedTool) -> None:
        """Raise Malformed if the tool's names collide with those of a served tool."""
        if problem := self._registry.find_conflict(self._entry(indexed)) or self.find_uri_conflict([indexed.tool]):
            raise Malformed(problem)

    def find_uri_conflict(self, tools: Iterable[Tool]) -> str | None:
        """Return why resources from outside cannot be served: a served one of another toolkit has such a URI."""
        found = shared_uri((tool for tool in tools if tool.foreign), self._registry.snapshot.resources)
        return None if found is None else name_conflict(found[0], Claimant.of(found[1]))

    def apply(self, changed: Iterable[IndexedTool], removed_ids: Iterable[str] = ()) -> None:
        """Serve each of these tools, or hold it back, as its record says, and stop serving those that are removed."""
        gone = set(removed_ids)
        applied = [each for each in changed if not self._is_unchanged(each) and not self.shadows(each.record)]
        served, refused = self._without_shared_uris([each for each in applied if self._is_served(each.record)])
        for each in applied:
            self._registry.inactive.drop(each.record.id)
            self._sunsetting.pop(each.record.id, None)
            if not self._is_served(each.record):
                self._registry.inactive.put(each.tool, self._inactive_state(each.record))
            if each.record.state == "active" and each.record.sunset and not self._is_past_sunset(each.record):
                self._sunsetting[each.record.id] = each
        for tool_id in gone:
            self._registry.inactive.drop(tool_id)
            self._sunsetting.pop(tool_id, None)
        gone.update(each.record.id for each in applied)
        try:
            self._registry.change([self._entry(each) for each in served], gone)
        except Conflict:
            self._apply_one_by_one(gone, served)
        for each, conflict in refused:
            self._hold_back(each, conflict)

    def left_out(self, applied: Iterable[IndexedTool]) -> list[IndexedTool]:
        """Return those of these tools that should be served and are not, because of a conflict."""
        served = [each for each in applied if self._is_served(each.record) and not self.shadows(each.record)]
        return [each for each in served if self._registry.snapshot.find_any(each.record.id) is None]

    def remove(self, tool_id: str) -> None:
        """Stop serving a tool and forget its state."""
        self._registry.change(removed_ids={tool_id})
        self._registry.inactive.drop(tool_id)
        self._sunsetting.pop(tool_id, None)

    def schedule_sunsets(self) -> None:
        """Stop serving tools whose sunset has come, and set a timer for the next one in the running loop."""
        self.stop()
        past = [each for each in self._sunsetting.values() if self._is_past_sunset(each.record)]
        if past:
            self.apply(past)
        days = [each.record.sunset for each in self._sunsetting.values() if each.record.sunset is not None]
        if days:
            seconds = _day_start(min(days)) - self._clock()
            self._timer = asyncio.get_running_loop().call_later(min(seconds, _MAX_SLEEP_SECONDS), self.schedule_sunsets)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _apply_one_by_one(self, removed_ids: Collection[str], served: list[IndexedTool]) -> None:
        """Serve the tools one by one after a conflict; only those that collide with a served tool are left out."""
        self._registry.change(removed_ids=removed_ids)
        for each in sorted(served, key=lambda each: each.record.id not in self._code):  # code first
            try:
                self._registry.add([self._entry(each)])
            except Conflict as conflict:
                self._hold_back(each, str(conflict))

    def _hold_back(self, indexed: IndexedTool, conflict: str) -> None:
        _log.warning("%s is not served: %s", indexed.record.id, conflict)
        self._registry.inactive.put(indexed.tool, UNSERVED)

    def _without_shared_uris(
        self, served: list[IndexedTool]
    ) -> tuple[list[IndexedTool], list[tuple[IndexedTool, str]]]:
        """Return what can be served, and resources from outside that have a URI of another toolkit, with the reason.

        They were registered when that toolkit did not have it; the hall's own code may have gained it since.
        """
        if self.find_uri_conflict(each.tool for each in served) is None:
            return served, []
        conflicts = {each.record.id: self.find_uri_conflict([each.tool]) for each in served}
        refused = [(each, conflict) for each in served if (conflict := conflicts[each.record.id]) is not None]
        return [each for each in served if conflicts[each.record.id] is None], refused

    def _is_unchanged(self, indexed: IndexedTool) -> bool:
        """Return whether a tool from code is served exactly so already; then it keeps its position in lists."""
        own = self._code.get(indexed.record.id)
        is_current = own is not None and self._registry.snapshot.find_any(own.id) is own
        return is_current and self._is_served(indexed.record) and indexed.record.deprecated_at is None

    def shadows(self, record: ToolRecord) -> bool:
        """Return whether a tool defined in code shadows this registered tool."""
        return record.origin != "code" and record.id in self._code

    def _is_served(self, record: ToolRecord) -> bool:
        return record.state == "active" and not self._is_past_sunset(record) and self.is_servable(record)

    def _is_past_sunset(self, record: ToolRecord) -> bool:
        return record.sunset is not None and _day_start(record.sunset) <= self._clock()

    def _inactive_state(self, record: ToolRecord) -> str:
        if record.state != "active":
            return record.state
        if self._is_past_sunset(record):
            return RETIRED
        has_none = record.origin == "upstream" and not self.has_upstream(record.origin_detail)
        return NOT_OFFERED if has_none else UNSERVED

    def _entry(self, indexed: IndexedTool) -> Entry:
        own = self._code.get(indexed.record.id)
        if own is None:
            entry = compile_entry(indexed.tool, self._runner_for(indexed.record.origin), known_good=True)
            return entry if indexed.record.origin != "upstream" else _held(entry, self.hold_for(indexed))
        deprecation = indexed.tool.deprecation
        if own.tool.deprecation == deprecation:
            return own
        return msgspec.structs.replace(own, tool=msgspec.structs.replace(own.tool, deprecation=deprecation))


class Hold(msgspec.Struct, frozen=True):
    """What is refused of the calls of a tool while another definition of it waits for a look."""

    message: str | None = None  # with which every call is refused
    next_input: JsonObject | None = None  # the schema that arguments must fit as well


def _no_hold(_: IndexedTool) -> Hold | None:
    return None


def _held(entry: Entry, hold: Hold | None) -> Entry:
    if hold is None:
        return entry
    next_input = None if hold.next_input is None else Validator(hold.next_input, known_good=True)
    return msgspec.structs.replace(entry, held=hold.message, next_input=next_input)


def _day_start(day: str) -> float:
    """Return when a day begins, in UTC."""
    return datetime.combine(date.fromisoformat(day), time.min, UTC).timestamp()


class RecordLookup:
    """Finds records by id, by `Toolkit.tool` or by published name; tools in code have one even if not stored."""

    def __init__(self, index: RecordIndex, active: ActiveTools, clock: Callable[[], float]) -> None:
        self._index = index
        self._active = active
        self._clock = clock
        self._code_records: dict[str, tuple[Entry, ToolRecord]] = {}  # of code that is not stored, cached

    @property
    def all_records(self) -> tuple[ToolRecord, ...]:
        """The records of all tools in every state, without those that code shadows."""
        unstored = [
            self._code_record(entry) for entry in self._active.code_entries if not self._index.is_from_code(entry.id)
        ]
        stored = [listed.record for listed in self._index.all if not self._active.shadows(listed.record)]
        return (*stored, *unstored)

    def find(self, name: str) -> IndexedTool:
        """Return a tool by id, or the newest version of a name; raises NotFound."""
        versions = self._by_id(name) or self.versions(name) or self.versions(self._key_by_name(name))
        if not versions:
            raise NotFound(f"{name[:128]} is not registered; 'toolhall tool list' shows what is")
        return max(versions, key=lambda each: precedence(each.record.version))

    def versions(self, key: str) -> list[IndexedTool]:
        """Return every version of a `Toolkit.tool`; a tool in code also by its id."""
        stored = [each for each in self._index.versions(key) if not self._active.shadows(each.record)]
        own = [entry for entry in self._active.code_entries if key in (entry.id, tool_key(entry.tool))]
        unstored = [entry for entry in own if not self._index.is_from_code(entry.id)]
        return [*stored, *(IndexedTool(self._code_record(entry), entry.tool) for entry in unstored)]

    def tool(self, record: ToolRecord) -> Tool:
        """Return the tool of a record; decoded only if it is not in the index."""
        listed = self._index.get(record.id) if record.id in self._index else None
        return listed.tool if listed is not None and listed.record is record else tool_from_record(record)

    def operator_source(self, origin: ToolOrigin, detail: str = "") -> RegistrationSource:
        """Return the source of what the operator registers now."""
        return RegistrationSource(origin, OPERATOR, self._clock(), detail)

    def _by_id(self, tool_id: str) -> list[IndexedTool]:
        listed = self._index.get(tool_id) if tool_id in self._index else None
        return [listed] if listed is not None and not self._active.shadows(listed.record) else []

    @property
    def published_names(self) -> frozenset[str]:
        """The published names of all tools, in lower case."""
        return frozenset(tool.name.casefold() for tool in self._tools())

    def _key_by_name(self, name: str) -> str:
        return next((tool_key(tool) for tool in self._tools() if tool.name == name), "")

    def _tools(self) -> Iterator[Tool]:
        yield from (listed.tool for listed in self._index.all)
        yield from (entry.tool for entry in self._active.code_entries)

    def _code_record(self, entry: Entry) -> ToolRecord:
        cached = self._code_records.get(entry.id)
        if cached is None or cached[0] is not entry:
            cached = self._code_records[entry.id] = entry, record_for_code(entry.tool, self.operator_source("code"))
        return cached[1]
