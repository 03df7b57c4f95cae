"""`/api/overview` and `/api/needs`: how the calls of the last minutes, hours or days ended, and what waits for one.

The counts are of all processes of a data folder. Nothing is counted until somebody asks: the first request reads the
records of its window in a thread; later ones read only what was added since.

Each part of what waits comes from the API that manages it, which adds a reader to `ManagementContext.needs`. A reader
gets the caller, and returns nothing of what this caller may not see: an empty part means that nothing waits.
"""

import asyncio

from toolhall.http.api.base import ManagementContext, json_response, query_parameters, respond
from toolhall.http.api.call_statistics import WINDOWS, CallStatistics, Window, start_of
from toolhall.http.api.tool_summaries import event_json
from toolhall.http.request import HttpRequest, Methods
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.stores.audit.filters import AuditQuery
from toolhall.stores.audit.follow import Follower

DEFAULT_WINDOW = "1h"
CHANGES = 6  # so many of the newest changes of tools


class OverviewApi:
    """`/api/overview`, for administrators and observers, and `/api/needs`, for everybody."""

    def __init__(self, context: ManagementContext) -> None:
        self._context = context
        self._lock = asyncio.Lock()  # one thread counts at a time
        self._statistics: CallStatistics | None = None
        self._follower: Follower | None = None

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of the overview."""
        return {"/api/overview": {"GET": self.overview}, "/api/needs": {"GET": self.needs}}

    async def overview(self, request: HttpRequest) -> None:
        """`GET /api/overview`."""
        await respond(request, self._overview(request))

    async def needs(self, request: HttpRequest) -> None:
        """`GET /api/needs`."""
        await respond(request, self._needs(request))

    async def _needs(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        return json_response({name: await read(request.caller) for name, read in self._context.needs.items()})

    async def _overview(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        window = WINDOWS.get(query_parameters(request, ("window",)).get("window", DEFAULT_WINDOW))
        if window is None:
            raise Malformed(f"window is one of {', '.join(WINDOWS)}")
        await self._context.journal.flush()
        async with self._lock:
            document = await asyncio.to_thread(self._count, window)
        events = await self._context.registration.history(None, CHANGES)
        return json_response(
            {
                **document,
                "running": self._context.dispatcher.running_calls,
                "tools": sum(each.state == "active" for each in self._context.registration.all_records),
                "changes": [event_json(each) for each in events],
            }
        )

    def _count(self, window: Window) -> JsonObject:
        """Thread: read what is new, or everything in the window if it was not read yet, and sum it up."""
        reader, now = self._context.reader, self._context.clock()
        statistics, follower, since = self._statistics, self._follower, start_of(window, now)
        if statistics is None or follower is None or statistics.since > since:
            statistics, follower = CallStatistics(since), reader.follow()
            before = follower.positions  # what comes behind them is read as new
            statistics.add(each.record for each in reader.scan(AuditQuery(since=since), before))
            self._statistics, self._follower = statistics, follower
        while new := follower.read():
            statistics.add(each.record for each in new)
        statistics.drop_old(now)
        processes = self._context.running_processes()
        return {**statistics.to_json(window, now), "processes": {"running": processes, "seen": processes}}
