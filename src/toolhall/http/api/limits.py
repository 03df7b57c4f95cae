"""`/api/limits`: the limits in force, who is held back by them, and what others would have refused in the last hour."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from toolhall.http.api.base import (
    ManagementContext,
    iso_time,
    json_response,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.call_records import AuditRecord
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import WireResponse
from toolhall.pipeline.limit import Limit, RateLimits
from toolhall.pipeline.rate_buckets import Rate
from toolhall.stores.audit.filters import AuditQuery, OutcomeFilter

T = TypeVar("T")
HOUR = 3_600.0
LIMITED = OutcomeFilter.of("Limited")
MAX_FULLEST = 20
MAX_CALLERS = 1_000
MAX_REPLAYED = 200_000
_UNFOUND = ("find", "authorize")  # stages whose refusals count for the caller alone
_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_FIX = 'write {"perCaller": {"rate": 10, "burst": 20}}, and "perTool" or "perPair" where you need them; null: no limit'


class ConcurrencyLimits(NamedTuple):
    """How many requests and calls may run at once; None: no limit of its own."""

    per_caller: int
    per_tool: int | None
    total: int


class NewRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rate limit: calls per second, and how many of them may come at once."""

    rate: _Positive
    burst: Annotated[float, msgspec.Meta(ge=1, le=1e9)] = 1.0


class LimitsPreview(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Other rates; those that are left out stay as they are."""

    per_caller: NewRate | msgspec.UnsetType | None = msgspec.UNSET
    per_tool: NewRate | msgspec.UnsetType | None = msgspec.UNSET
    per_pair: NewRate | msgspec.UnsetType | None = msgspec.UNSET


class LimitsApi:
    """`/api/limits` and `/api/limits/preview`, for administrators and observers."""

    def __init__(
        self, context: ManagementContext, rates: RateLimits, concurrency: ConcurrencyLimits, validator: RequestValidator
    ) -> None:
        self._context = context
        self._rates = rates
        self._concurrency = concurrency
        self._validator = validator
        self._lock = asyncio.Lock()  # one thread reads or replays the records at a time

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of limits."""
        return {"/api/limits": {"GET": self.limits}, "/api/limits/preview": {"POST": self.preview}}

    async def limits(self, request: HttpRequest) -> None:
        """`GET /api/limits`."""
        await respond(request, self._show(request))

    async def preview(self, request: HttpRequest) -> None:
        """`POST /api/limits/preview`."""
        await respond(request, self._preview(request))

    async def _show(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        rates, refused = self._rates, Counter[str]()
        last: dict[str, float] = {}
        query = AuditQuery(since=self._context.clock() - HOUR, outcome=LIMITED)
        for record in await self._read(lambda: self._last_hour(query)):
            refused[record.caller] += 1
            last[record.caller] = max(record.time, last.get(record.caller, 0.0))
        processes = await asyncio.to_thread(self._context.running_processes)
        held_back: list[Json] = [
            {"caller": caller, "calls": calls, "lastAt": iso_time(last[caller])}
            for caller, calls in refused.most_common(MAX_CALLERS)
        ]
        fullest: list[Json] = [
            {"key": each.key, "kind": each.kind, "fill": round(each.fill, 3)}
            for each in self._context.dispatcher.stages.limit.fullest(MAX_FULLEST)
        ]
        return json_response(
            {
                "perCaller": _rate_json(rates.caller),
                "perTool": _rate_json(rates.tool),
                "perPair": _rate_json(rates.pair),
                "concurrency": {
                    "perCaller": self._concurrency.per_caller,
                    "perTool": self._concurrency.per_tool,
                    "total": self._concurrency.total,
                },
                "costs": dict(rates.costs),
                "fullest": fullest,
                "refused": held_back,
                "processes": {"running": processes, "seen": 1},
            }
        )

    async def _preview(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        self._context.require_observer(request.caller)
        body = await read_json(request, self._validator)
        try:
            wanted = msgspec.convert(body, LimitsPreview)
        except msgspec.ValidationError as error:
            raise Malformed(f"{str(error)[:160]}; {_FIX}") from None
        rates = RateLimits(
            caller=_chosen(wanted.per_caller, self._rates.caller),
            tool=_chosen(wanted.per_tool, self._rates.tool),
            pair=_chosen(wanted.per_pair, self._rates.pair),
            costs=self._rates.costs,
        )
        query = AuditQuery(since=self._context.clock() - HOUR)
        calls, refused = await self._read(lambda: replay(rates, self._last_hour(query)))
        callers: list[Json] = [
            {"caller": caller, "refused": number} for caller, number in refused.most_common(MAX_CALLERS)
        ]
        return json_response({"calls": calls, "refused": refused.total(), "callers": callers})

    async def _read(self, work: Callable[[], T]) -> T:
        """Do this work with the records in a thread, once all of them are written."""
        await self._context.journal.flush()
        async with self._lock:
            return await asyncio.to_thread(work)

    def _last_hour(self, query: AuditQuery) -> list[AuditRecord]:
        """Return the newest calls of the last hour that match; in no order across processes."""
        return list(islice(self._calls(query), MAX_REPLAYED))

    def _calls(self, query: AuditQuery) -> Iterator[AuditRecord]:
        reader = self._context.reader
        for found in reader.scan(query, reader.follow().positions):
            if found.record.is_ended_call:
                yield found.record


def replay(rates: RateLimits, records: list[AuditRecord]) -> tuple[int, Counter[str]]:
    """Return how many calls there were, and how many of each caller these rates would have refused.

    Every attempt counts, also one that was refused, as in a running hall. One process has all allowances here.
    """
    times = [record.time - record.duration_us / 1e6 for record in records]
    limit, refused = Limit(rates, float), Counter[str]()
    for number in sorted(range(len(records)), key=times.__getitem__):
        record = records[number]
        tool = None if record.stage in _UNFOUND else record.tool
        if limit.take(record.caller, tool, times[number]) > 0.0:
            refused[record.caller] += 1
    return len(records), refused


def _chosen(wanted: NewRate | msgspec.UnsetType | None, known: Rate | None) -> Rate | None:
    if isinstance(wanted, msgspec.UnsetType):
        return known
    return None if wanted is None else Rate(wanted.rate, wanted.burst)


def _rate_json(rate: Rate | None) -> JsonObject | None:
    return None if rate is None else {"rate": rate.per_second, "burst": rate.burst}
