"""AuditJournal and MemoryJournal: where a hall's records go.

AuditJournal queues records for one thread, which writes them in batches. `append` returns at once; `commit` returns a
future that is done once the record survives a power loss, and one sync serves all commits of an event loop's turn.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

from toolhall.model.call_records import AuditRecord, RecordSource
from toolhall.model.errors import Unavailable
from toolhall.stores.audit.anchors import AnchorSync
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.filters import AuditQuery, is_about_tool
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER
from toolhall.stores.audit.query import (
    FoundRecord,
    Positions,
    RecordCallback,
    RecordPage,
    read_tool_records,
    search,
)
from toolhall.stores.audit.writer import AuditWriter, Retention

_log = logging.getLogger("toolhall.audit")
FLUSH_SECONDS = 0.05
RETRY_SECONDS = 1.0
MAX_QUEUED = 20_000
UNWRITABLE_MESSAGE = (
    "the audit cannot be written, so calls of level 4 and up and changes to the hall are refused;"
    " make room on its disk, or fix what the server's log says about it"
)
Waiter: TypeAlias = "asyncio.Future[None]"
_SOON, _NOW = False, True  # wake-ups: collect a batch first, or write at once because a commit waits
MAX_MEMORY_RECORDS = 1_000


class CommitFuture(asyncio.Future[None]):
    """Resolves once a record is durable, which takes as long as a sync of the disk."""

    brief = True  # the deadline watchdog does not watch waits for it
    wants_checkpoint = False  # True: append a checkpoint behind the record


class AuditJournal:
    """Journal on disk, in the folder `audit`; the first record starts its thread and creates folder and log."""

    def __init__(
        self,
        data: Path,
        retention: Retention | None = None,
        *,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.failing = False  # True while the last write failed
        self.data = data
        self.anchor_sync = AnchorSync(data / AUDIT_FOLDER, clock)
        self._writer = AuditWriter(
            data / AUDIT_FOLDER, disk or Disk(), clock, retention or Retention(), self.anchor_sync
        )
        self._queue: deque[AuditRecord | RecordSource | Waiter] = deque()  # a waiter waits for all before it
        self._wakeups: SimpleQueue[bool] = SimpleQueue()
        self._idle = True  # True: the thread sleeps and must be woken for a record
        self._lingers = False  # the thread has just written, so that more is likely to come soon
        self._gathering_loop: asyncio.AbstractEventLoop | None = None  # the loop whose current turn collects commits
        self._thread: threading.Thread | None = None
        self._closed = False
        self._overflow = 0  # records that arrived while the queue was full
        self._overflow_lock = threading.Lock()  # guards _overflow, which two threads change
        self._sign_seconds = (retention or Retention()).sign_seconds

    @property
    def behind(self) -> tuple[str, ...]:
        """Findings that the audit is behind the store; while there are any, calls of level 4 and up are refused."""
        return self.anchor_sync.behind

    def append(self, record: AuditRecord | RecordSource) -> None:
        """Queue the record for the next batch."""
        if self._closed:
            # A RecordSource holds more than may be logged.
            built = record if isinstance(record, AuditRecord) else record.record()
            _log.error("a record arrived after the audit was closed and is logged here only: %s", built)
            return
        if len(self._queue) >= MAX_QUEUED:
            with self._overflow_lock:
                self._overflow += 1
            return
        self._queue.append(record)
        if self._idle:
            self._wake(_SOON)

    def commit(self, record: AuditRecord | RecordSource, *, sign: bool = False) -> Waiter:
        """Return a future that resolves once the record and all before it are durable; raises Unavailable on failure.

        With `sign`, a checkpoint behind the record is durable by then, and on its way to the store.
        """
        loop = asyncio.get_running_loop()
        done = CommitFuture(loop=loop)
        if sign:
            done.wants_checkpoint = True
        if self._closed:
            done.set_exception(Unavailable(UNWRITABLE_MESSAGE))
            return done
        self._queue.append(record)
        self._queue.append(done)
        if self._gathering_loop is None:
            self._gathering_loop = loop
            loop.call_soon(self._end_turn)
        elif self._gathering_loop is not loop:
            self._wake(_NOW)
        return done

    async def flush(self) -> None:
        """Wait until every record queued so far is written, or writing it failed."""
        if self._thread is not None and not self._closed:
            done: Waiter = asyncio.get_running_loop().create_future()
            self._queue.append(done)
            self._wake(_NOW)
            with suppress(Unavailable):
                await done

    async def read(self, tool: str, callback: RecordCallback) -> None:
        """Pass every record of a tool id, or of all versions of a `Toolkit.tool`, to the callback, in a thread."""
        await self.flush()
        await asyncio.to_thread(read_tool_records, self.data, tool, callback)

    async def search(self, query: AuditQuery, limit: int, before: Positions | None = None) -> RecordPage:
        """Return a page of the matching records of all processes, newest first."""
        await self.flush()
        return await asyncio.to_thread(search, self.data, query, limit, before)

    def close(self) -> None:
        """Write and sign what is left."""
        self._closed = True
        if self._thread is not None:
            self._wakeups.put(_NOW)
            self._thread.join()

    def _end_turn(self) -> None:
        """Wake the thread at the end of a turn of the event loop, so that one sync serves all its commits."""
        self._gathering_loop = None
        self._wake(_NOW)

    def _wake(self, urgent: bool) -> None:
        self._idle = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolhall-audit", daemon=True)
            self._thread.start()
        self._wakeups.put(urgent)

    def _run(self) -> None:
        """Thread: wait, write queued records, and sign when due, until closed."""
        due: float | None = None  # when to sign, or to retry
        while not self._closed:
            self._wait_for_work(None if due is None else max(0.0, due - time.monotonic()))
            signed = self._write(sign=due is not None and time.monotonic() >= due)
            if self.failing:
                due = time.monotonic() + RETRY_SECONDS
            elif signed:
                due = None
            elif due is None:
                due = time.monotonic() + self._sign_seconds
        self._write(sign=False)
        try:
            self._writer.close()
        except OSError:
            _log.exception("the last records of the audit could not be written")
        self.anchor_sync.flush()

    def _wait_for_work(self, timeout: float | None) -> None:
        """Wait for a record or the timeout, then FLUSH_SECONDS longer to collect more, unless a commit is waiting.

        Right after a batch it waits those FLUSH_SECONDS at once: the next record comes soon, and if it had to wake this
        thread only to make it wait again, two switches of threads would be for nothing.
        """
        wakeup: bool | None = None
        if self._lingers and not self._queue and (timeout is None or timeout > FLUSH_SECONDS):
            wakeup = self._next_wakeup(FLUSH_SECONDS)
            if wakeup is _NOW or self._queue:
                return
        if not self._queue:
            self._idle = True
            if not self._queue:  # nothing was queued in between
                wakeup = self._next_wakeup(timeout)
            self._idle = False
        if wakeup is not _NOW and self._queue:
            self._next_wakeup(FLUSH_SECONDS)

    def _next_wakeup(self, timeout: float | None) -> bool | None:
        """Drain the wake-ups: True if one was urgent, None after the timeout."""
        try:
            urgent = self._wakeups.get(timeout=timeout)
            while not self._wakeups.empty():
                urgent |= self._wakeups.get()
        except Empty:
            return None
        return urgent

    def _write(self, *, sign: bool) -> bool:
        """Write queued records, and return True if they were signed; the store is notified before waiters are resolved.

        Checkpoints that are due by the number of records reach the store later: there may be many in a second.
        """
        records: list[AuditRecord | RecordSource] = []
        waiters: list[Waiter] = []
        for _ in range(len(self._queue)):
            item = self._queue.popleft()
            if isinstance(item, asyncio.Future):
                waiters.append(item)
                sign |= isinstance(item, CommitFuture) and item.wants_checkpoint
            else:
                records.append(item)
        self._lingers = bool(records)
        self.failing = not self._try_write(records, sync=bool(waiters), sign=sign)
        signed = sign and not self.failing
        if signed:
            self.anchor_sync.flush()
        for loop, waiting in _by_loop(waiters).items():
            with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
                loop.call_soon_threadsafe(_resolve, waiting, self.failing)
        return signed

    def _try_write(self, records: list[AuditRecord | RecordSource], *, sync: bool, sign: bool) -> bool:
        with self._overflow_lock:
            lost, self._overflow = self._overflow, 0
        try:
            self._writer.write(records, lost=lost, sync=sync, sign=sign)
        except Exception as error:  # noqa: BLE001 - waiters must be resolved whatever the error
            if not self.failing:
                _log.exception("the audit cannot be written; level 4 and up and changes are refused until it can")
            else:
                _log.debug("the audit still cannot be written: %s", error)
            return False
        if self.failing:
            _log.warning("the audit is being written again")
        return True


def _by_loop(waiters: list[Waiter]) -> dict[asyncio.AbstractEventLoop, list[Waiter]]:
    found: dict[asyncio.AbstractEventLoop, list[Waiter]] = defaultdict(list)
    for each in waiters:
        found[each.get_loop()].append(each)
    return found


def _resolve(waiters: list[Waiter], failing: bool) -> None:
    for each in waiters:
        if each.done():  # cancelled
            continue
        if failing:
            each.set_exception(Unavailable(UNWRITABLE_MESSAGE))
        else:
            each.set_result(None)


class MemoryJournal:
    """Journal in memory, which keeps the newest records; for tests and halls without a data folder."""

    failing = False
    behind: tuple[str, ...] = ()
    anchor_sync: AnchorSync | None = None  # there is no folder to compare with the store

    def __init__(self) -> None:
        self.records: deque[AuditRecord] = deque(maxlen=MAX_MEMORY_RECORDS)
        self.count = 0  # of all records that ever came

    def append(self, record: AuditRecord | RecordSource) -> None:
        """Store the record."""
        self.records.append(record if isinstance(record, AuditRecord) else record.record())
        self.count += 1

    async def commit(self, record: AuditRecord | RecordSource, *, sign: bool = False) -> None:  # noqa: ARG002 - no signatures
        """Store the record; memory is as durable as it gets."""
        self.append(record)

    async def read(self, tool: str, callback: RecordCallback) -> None:
        """Pass every record of an ended call of a tool id, or of all versions of a `Toolkit.tool`, to the callback."""
        for record in tuple(self.records):
            if record.phase is None and is_about_tool(record, tool):
                callback(record)

    async def search(self, query: AuditQuery, limit: int, before: Positions | None = None) -> RecordPage:
        """Return a page of the matching records, newest first."""
        page = list(islice(self.scan(query, self.count if before is None else before.get("", 0)), limit + 1))
        return RecordPage(page[:limit], {"": page[limit].number + 1} if len(page) > limit else None)

    def scan(self, query: AuditQuery, bound: int) -> Iterator[FoundRecord]:
        """Yield the matching records whose numbers are below the bound, newest first."""
        numbered = reversed(list(enumerate(self.records, self.count - len(self.records))))
        return (FoundRecord("", number, each) for number, each in numbered if number < bound and query.matches(each))

    async def flush(self) -> None:
        """Do nothing: every record is stored at once."""

    def close(self) -> None:
        """Do nothing."""


def open_journal(folder: Path | None, days: int) -> AuditJournal | MemoryJournal:
    """Open the journal of a data folder, or one in memory; `days` is the retention, 0 keeps everything."""
    return MemoryJournal() if folder is None else AuditJournal(folder, Retention(days=days))
