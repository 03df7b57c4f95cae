"""`/api/audit/state` and `/api/audit/verify`: the ends of the audit's logs, and verification of the whole chain.

One verification runs at a time in each process, in a thread; its progress is also in the events of the topic `audit`.
What it found is kept in this process only, until it ends: a stored verdict could be changed as the records could.
"""

import asyncio

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.http.api.base import (
    EmptyBody,
    ManagementContext,
    StateConflict,
    iso_time,
    json_response,
    optional_time,
    parse_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import WireResponse
from toolhall.stores.audit.hash_chain import BadKey
from toolhall.stores.common import StoreFailed


class VerificationResult(msgspec.Struct, frozen=True):
    """The result of the last whole verification."""

    at: float
    records: int
    problem: str | None


class AuditVerification:
    """Verifies the audit in the background, once at a time; `done` and `total` are bytes."""

    def __init__(self, context: ManagementContext) -> None:
        self._context = context
        self._tasks = BackgroundTasks()
        self.is_running = False
        self.done = 0
        self.total = 0
        self.last: VerificationResult | None = None
        self.changes = 0  # counts starts and ends, so that a reader can tell a new one

    def start(self) -> None:
        """Start in the running loop; raises StateConflict while one runs."""
        if self.is_running:
            raise StateConflict("the audit is being verified already; wait for its end")
        self.is_running, self.done, self.total = True, 0, 0
        self.changes += 1
        self._tasks.start(self._run())

    def progress(self) -> JsonObject:
        """Return the progress as the data of an event."""
        problem = None if self.is_running or self.last is None else self.last.problem
        return {
            "topic": "audit",
            "verified": self.done,
            "total": self.total,
            "done": not self.is_running,
            "problem": problem,
        }

    async def _run(self) -> None:
        reader, records = self._context.reader, 0
        await self._context.journal.flush()
        try:
            self.total = await asyncio.to_thread(reader.total_bytes)
            report = await asyncio.to_thread(reader.verify, self._step)
            records = report.records
            problem = str(report.findings[0]) if report.findings else None
        except (OSError, BadKey, StoreFailed) as failed:
            problem = f"the audit could not be read: {failed}"
        except asyncio.CancelledError:
            problem = "the hall stopped before the audit was verified"
        self.last = VerificationResult(self._context.clock(), records, problem)
        self.total = max(self.total, self.done)
        self.is_running = False
        self.changes += 1

    def _step(self, count: int) -> None:
        self.done += count


class AuditStateApi:
    """`/api/audit/state` for observers, `/api/audit/verify` for administrators."""

    def __init__(
        self, context: ManagementContext, validator: RequestValidator, verification: AuditVerification
    ) -> None:
        self._context = context
        self._validator = validator
        self._verification = verification

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of the audit's state."""
        return {"/api/audit/state": {"GET": self.state}, "/api/audit/verify": {"POST": self.verify}}

    async def state(self, request: HttpRequest) -> None:
        """`GET /api/audit/state`."""
        await respond(request, self._state(request))

    async def verify(self, request: HttpRequest) -> None:
        """`POST /api/audit/verify`."""
        await respond(request, self._verify(request))

    async def _state(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        return json_response(await self._document())

    async def needs(self, caller: Caller) -> JsonObject:
        """Return what is wrong with the audit, as far as this process knows; nothing for who may not see it."""
        if not self._context.dispatcher.admin.may_observe(caller):
            return {"failing": False, "problem": None, "verifiedAt": None}
        last = self._verification.last
        return {
            "failing": self._context.journal.failing,
            "problem": None if last is None else last.problem,
            "verifiedAt": None if last is None else iso_time(last.at),
        }

    async def _verify(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)

        async def apply() -> None:
            self._verification.start()

        await self._context.change("verify audit", body, request.caller, apply)
        return json_response(await self._document(), 202)

    async def _document(self) -> JsonObject:
        journal, reader, verification = self._context.journal, self._context.reader, self._verification
        await journal.flush()
        heads, signed_at = await asyncio.to_thread(lambda: (reader.heads(), reader.last_checkpoint_time()))
        last = verification.last
        logs: list[Json] = [{"log": each.log, "records": each.lines, "head": each.sha256} for each in heads]
        return {
            "logs": logs,
            "lastCheckpointAt": optional_time(signed_at),
            "verified": None if last is None else {**msgspec.structs.asdict(last), "at": iso_time(last.at)},
            "verifying": (
                {"verified": verification.done, "total": verification.total} if verification.is_running else None
            ),
            "failing": journal.failing,
            "behind": bool(journal.behind),
        }
