"""AuditJournal and MemoryJournal: where a hall's records go.

AuditJournal queues records for one thread, which writes them in batches. `append` returns at once; `commit` returns a
future that is done once the record survives a power loss, and one sync serves all commits of an event loop's turn.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

from toolhall.model.call_records import AuditRecord, RecordSource
from toolhall.model.errors import Unavailable
from toolhall.stores.audit.anchors import AnchorSync
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.format import AUDIT_FOLDER
from toolhall.stores.audit.query import (
    AuditQuery,
    FoundRecord,
    RecordCallback,
    is_about_tool,
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
    " make room on its disk, or mend what the server's log says of it"
)
Waiter: TypeAlias = "asyncio.Future[None]"
_SOON, _NOW = False, True  # whether somebody waits


class CommitFuture(asyncio.Future[None]):
    """Done in about the time that the disk takes."""

    brief = True  # so that nobody watches over who waits for it
    wants_checkpoint = False  # whether a checkpoint is wanted behind what is waited for


class AuditJournal:
    """Appends to a log in the folder `audit`; the thread, the folder and the log come with the first record."""

    def __init__(
        self,
        data: Path,
        retention: Retention | None = None,
        *,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.failing = False  # whether the disk did not take what it was given last
        self._data = data
        self.anchor_sync = AnchorSync(data / AUDIT_FOLDER, clock)
        self._writer = AuditWriter(
            data / AUDIT_FOLDER, disk or Disk(), clock, retention or Retention(), self.anchor_sync
        )
        self._queue: deque[AuditRecord | RecordSource | Waiter] = (
            deque()
        )  # a waiter waits for everything in front of it
        self._wakeups: SimpleQueue[bool] = SimpleQueue()
        self._idle = True  # whether the thread must be told that something has come
        self._gathering_loop: asyncio.AbstractEventLoop | None = None  # whose turn is not over
        self._thread: threading.Thread | None = None
        self._closed = False
        self._overflow = 0  # records that came while too many waited
        self._overflow_lock = threading.Lock()  # of these, from two threads
        self._sign_seconds = (retention or Retention()).sign_seconds

    @property
    def behind(self) -> tuple[str, ...]:
        """What the store knows of the audit and the folder does not hold; calls of level 4 and up wait then."""
        return self.anchor_sync.behind

    def append(self, record: AuditRecord | RecordSource) -> None:
        """Written within the next batch."""
        if self._closed:
            made = (
                record if isinstance(record, AuditRecord) else record.record()
            )  # a draft has more in it than may be told
            _log.error("a record came after the audit was closed, and is nowhere but here: %s", made)
            return
        if len(self._queue) >= MAX_QUEUED:
            with self._overflow_lock:
                self._overflow += 1
            return
        self._queue.append(record)
        if self._idle:
            self._wake(_SOON)

    def commit(self, record: AuditRecord | RecordSource, *, sign: bool = False) -> Waiter:
        """Done once the record, and all that came before, survives a power loss; raises Unavailable if it cannot.

        With `sign`, a checkpoint is behind it by then, and on its way to the store.
        """
        loop = asyncio.get_running_loop()
        done = CommitFuture(loop=loop)
        done.wants_checkpoint = sign
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
        """Wait until everything taken so far has been written, or could not be."""
        if self._thread is not None and not self._closed:
            done: Waiter = asyncio.get_running_loop().create_future()
            self._queue.append(done)
            self._wake(_NOW)
            with suppress(Unavailable):
                await done

    async def read(self, tool: str, callback: RecordCallback) -> None:
        """Hand over every record about a tool id, or about all versions of a `Toolkit.tool`, in a thread."""
        await self.flush()
        await asyncio.to_thread(read_tool_records, self._data, tool, callback)

    async def search(self, query: AuditQuery, limit: int) -> list[FoundRecord]:
        """The newest records that fit, of all processes, the newest first."""
        await self.flush()
        return await asyncio.to_thread(search, self._data, query, limit)

    def close(self) -> None:
        """Write what is left, and sign it."""
        self._closed = True
        if self._thread is not None:
            self._wakeups.put(_NOW)
            self._thread.join()

    def _end_turn(self) -> None:
        """All that one turn of the loop wants to be safe has come: the disk is asked once for all of it."""
        self._gathering_loop = None
        self._wake(_NOW)

    def _wake(self, urgent: bool) -> None:
        self._idle = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolhall-audit", daemon=True)
            self._thread.start()
        self._wakeups.put(urgent)

    def _run(self) -> None:
        """Until it is closed: rest, then write what has come meanwhile, and now and then sign it."""
        due: float | None = None  # when it must be signed, or tried again
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
        """Until something has come, or it is time; then a moment longer, so that more can come, unless one waits."""
        word: bool | None = None
        if not self._queue:
            self._idle = True
            if not self._queue:  # nothing came in between either
                word = self._next_wakeup(timeout)
            self._idle = False
        if word is not _NOW and self._queue:
            self._next_wakeup(FLUSH_SECONDS)

    def _next_wakeup(self, timeout: float | None) -> bool | None:
        """The next words of the bell, as one; None if it was silent all the time."""
        try:
            word = self._wakeups.get(timeout=timeout)
            while not self._wakeups.empty():
                word |= self._wakeups.get()
        except Empty:
            return None
        return word

    def _write(self, *, sign: bool) -> bool:
        """Write what has come; whether it was signed. Then the store hears of it, before those who wait do.

        Checkpoints that come with the number of records are told to the store later: there may be many in a second.
        """
        taken: list[AuditRecord | RecordSource] = []
        waiters: list[Waiter] = []
        for _ in range(len(self._queue)):
            item = self._queue.popleft()
            if isinstance(item, asyncio.Future):
                waiters.append(item)
                sign |= isinstance(item, CommitFuture) and item.wants_checkpoint
            else:
                taken.append(item)
        self.failing = not self._try_write(taken, sync=bool(waiters), sign=sign)
        signed = sign and not self.failing
        if signed:
            self.anchor_sync.flush()
        for loop, waiting in _by_loop(waiters).items():
            with suppress(RuntimeError):  # its loop is closed, so that nobody waits any more
                loop.call_soon_threadsafe(_resolve, waiting, self.failing)
        return signed

    def _try_write(self, records: list[AuditRecord | RecordSource], *, sync: bool, sign: bool) -> bool:
        with self._overflow_lock:
            lost, self._overflow = self._overflow, 0
        try:
            self._writer.write(records, lost=lost, sync=sync, sign=sign)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
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
        if each.done():  # given up
            continue
        if failing:
            each.set_exception(Unavailable(UNWRITABLE_MESSAGE))
        else:
            each.set_result(None)


MAX_MEMORY_RECORDS = 1_000


class MemoryJournal:
    """Keeps the newest records; for tests and for tools served without a data folder."""

    failing = False
    behind: tuple[str, ...] = ()
    anchor_sync: AnchorSync | None = None  # there is no folder to compare with anything

    def __init__(self) -> None:
        self.records: deque[AuditRecord] = deque(maxlen=MAX_MEMORY_RECORDS)

    def append(self, record: AuditRecord | RecordSource) -> None:
        """Keep this record."""
        self.records.append(record if isinstance(record, AuditRecord) else record.record())

    async def commit(self, record: AuditRecord | RecordSource, *, sign: bool = False) -> None:  # noqa: ARG002 - no signatures
        """Keep this record; memory is as safe as it will ever be."""
        self.append(record)

    async def read(self, tool: str, callback: RecordCallback) -> None:
        """Hand over every record of a call that has ended, of a tool id or of all versions of a `Toolkit.tool`."""
        for record in tuple(self.records):
            if record.phase is None and is_about_tool(record, tool):
                callback(record)

    async def search(self, query: AuditQuery, limit: int) -> list[FoundRecord]:
        """The newest records that fit, the newest first."""
        numbered = reversed(list(enumerate(self.records)))
        return list(islice((FoundRecord("", number, each) for number, each in numbered if query.matches(each)), limit))

    def close(self) -> None:
        """Nothing to write."""


def open_journal(folder: Path | None, days: int) -> AuditJournal | MemoryJournal:
    """The journal of a hall with this data folder; 0 days keep everything."""
    return MemoryJournal() if folder is None else AuditJournal(folder, Retention(days=days))
