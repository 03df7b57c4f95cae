"""RecentCalls: the newest calls of all tools, read from the audit at most once in a few seconds.

Lists of many tools ask who called each of them, or when a secret was last used. Reading the whole audit for each would
take seconds in a hall with a long history, so these answers cover the newest calls only.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable

from toolhall.http.api.audit import reached_tool
from toolhall.http.api.base import ReadableJournal, iso_time, optional_time
from toolhall.model.call_records import AuditRecord
from toolhall.model.json import JsonObject
from toolhall.model.requirements import requirements_from_json
from toolhall.registration.service import RegistrationService
from toolhall.stores.audit.filters import AuditQuery

MAX_RECENT = 10_000
_FRESH_SECONDS = 5.0
_RAN = (
    "ok",
    "tool_error",
    "Crashed",
    "TimedOut",
    "Cancelled",
    "BadOutput",
    "OutcomeUnknown",
)  # the outcomes of calls that ran


class RecentCalls:
    """The newest calls, each of a tool that was found, newest first."""

    def __init__(self, journal: ReadableJournal, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._read_at = float("-inf")
        self._calls: tuple[AuditRecord, ...] = ()
        self._reading = asyncio.Lock()

    async def read(self) -> tuple[AuditRecord, ...]:
        """Return the newest calls, at most a few seconds old."""
        async with self._reading:
            if not 0 <= self._clock() - self._read_at < _FRESH_SECONDS:
                found = await self._journal.search(AuditQuery(), MAX_RECENT)
                self._calls = tuple(each.record for each in found.records if _is_call(each.record))
                self._read_at = self._clock()
            return self._calls


def callers_by_tool(calls: Iterable[AuditRecord], tools: Collection[str]) -> dict[str, list[JsonObject]]:
    """Return the callers of each of these tool ids, most recent first."""
    counts: dict[tuple[str, str], list[float]] = {}  # the number of calls, and the time of the last one
    for call in calls:
        if call.tool in tools:
            count = counts.setdefault((call.tool, call.caller), [0, call.time])
            count[0] += 1
            count[1] = max(count[1], call.time)
    found: dict[str, list[JsonObject]] = {tool: [] for tool in tools}
    for (tool, caller), (number, last) in sorted(counts.items(), key=lambda each: -each[1][1]):
        found[tool].append({"caller": caller, "calls": int(number), "last": iso_time(last)})
    return found


def last_use(calls: Iterable[AuditRecord], tools: Collection[str], is_user: Callable[[str], bool]) -> str | None:
    """Return when a call of one of these tools last ran for a user; None if there is none among the calls."""
    times = (call.time for call in calls if call.tool in tools and call.outcome in _RAN and is_user(user_of(call)))
    return optional_time(max(times, default=None))


def user_of(call: AuditRecord) -> str:
    """Return the user whose secrets and accounts a call used."""
    return call.acting_for or call.person or call.caller


def _is_call(record: AuditRecord) -> bool:
    return record.phase is None and reached_tool(record)


def tools_by_requirement(registration: RegistrationService) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the tools that declare each requirement, by its kind (`secret`, `account`) and its name."""
    found: dict[tuple[str, str], list[str]] = {}
    for record in registration.all_records:
        needed = requirements_from_json(registration.tool(record).requirements)
        if needed is not None:
            names = [("secret", name) for name in needed.secrets] + [
                ("account", each.provider) for each in needed.accounts
            ]
            for kind_and_name in names:
                found.setdefault(kind_and_name, []).append(record.id)
    return {requirement: sorted(tools) for requirement, tools in found.items()}
