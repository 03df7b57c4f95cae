"""Where a hall's records go: to a thread that writes them in batches, and tells those who wait for one."""

import asyncio
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

from toolhall.model.errors import Unavailable
from toolhall.model.record import Record, Unwritten
from toolhall.stores.audit.anchors import Anchoring
from toolhall.stores.audit.books import Books
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.log import Keeping
from toolhall.stores.audit.reading import Found, Wanted, read_about, search
from toolhall.stores.audit.segments import FOLDER
from toolhall.stores.reading import Take

_log = logging.getLogger("toolhall.audit")

FLUSH_SECONDS = 0.05
AGAIN_SECONDS = 1.0
MOST_QUEUED = 20_000
REFUSAL = (
    "the audit cannot be written, so calls of level 4 and up and changes to the hall are refused;"
    " make room on its disk, or mend what the server's log says of it"
)
Waiter: TypeAlias = "asyncio.Future[None]"
_SOON, _NOW = False, True  # whether somebody waits


class Moment(asyncio.Future[None]):
    """Done in about the time that the disk takes."""

    brief = True  # so that nobody watches over who waits for it
    signs = False  # whether a checkpoint is wanted behind what is waited for


class AuditJournal:
    """Appends to a log in the folder `audit`; the thread, the folder and the log come with the first record."""

    def __init__(
        self,
        data: Path,
        keeping: Keeping | None = None,
        *,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.failing = False  # whether the disk did not take what it was given last
        self._data = data
        self.anchoring = Anchoring(data / FOLDER, clock)
        self._books = Books(data / FOLDER, disk or Disk(), clock, keeping or Keeping(), self.anchoring)
        self._queue: deque[Record | Unwritten | Waiter] = deque()  # a waiter waits for everything in front of it
        self._bell: SimpleQueue[bool] = SimpleQueue()
        self._asleep = True  # whether the thread must be told that something has come
        self._gathering: asyncio.AbstractEventLoop | None = None  # whose turn is not over
        self._thread: threading.Thread | None = None
        self._closed = False
        self._overflow = 0  # records that came while too many waited
        self._counting = threading.Lock()  # of these, from two threads
        self._sign_seconds = (keeping or Keeping()).sign_seconds

    @property
    def behind(self) -> tuple[str, ...]:
        """What the store knows of the audit and the folder does not hold; calls of level 4 and up wait then."""
        return self.anchoring.behind

    def append(self, record: Record | Unwritten) -> None:
        """Written within the next batch."""
        if self._closed:
            made = record if isinstance(record, Record) else record.record()  # a draft has more in it than may be told
            _log.error("a record came after the audit was closed, and is nowhere but here: %s", made)
            return
        if len(self._queue) >= MOST_QUEUED:
            with self._counting:
                self._overflow += 1
            return
        self._queue.append(record)
        if self._asleep:
            self._ring(_SOON)

    def commit(self, record: Record | Unwritten, *, sign: bool = False) -> Waiter:
        """Done once the record, and all that came before, survives a power loss; raises Unavailable if it cannot.

        With `sign`, a checkpoint is behind it by then, and on its way to the store.
        """
        loop = asyncio.get_running_loop()
        done = Moment(loop=loop)
        done.signs = sign
        if self._closed:
            done.set_exception(Unavailable(REFUSAL))
            return done
        self._queue.append(record)
        self._queue.append(done)
        if self._gathering is None:
            self._gathering = loop
            loop.call_soon(self._gathered)
        elif self._gathering is not loop:
            self._ring(_NOW)
        return done

    async def flush(self) -> None:
        """Wait until everything taken so far has been written, or could not be."""
        if self._thread is not None and not self._closed:
            done: Waiter = asyncio.get_running_loop().create_future()
            self._queue.append(done)
            self._ring(_NOW)
            with suppress(Unavailable):
                await done

    async def read(self, tool: str, take: Take) -> None:
        """Hand over every record about a tool id, or about all versions of a `Toolkit.tool`, in a thread."""
        await self.flush()
        await asyncio.to_thread(read_about, self._data, tool, take)

    async def search(self, wanted: Wanted, limit: int) -> list[Found]:
        """The newest records that fit, of all processes, the newest first."""
        await self.flush()
        return await asyncio.to_thread(search, self._data, wanted, limit)

    def close(self) -> None:
        """Write what is left, and sign it."""
        self._closed = True
        if self._thread is not None:
            self._bell.put(_NOW)
            self._thread.join()

    def _gathered(self) -> None:
        """All that one turn of the loop wants to be safe has come: the disk is asked once for all of it."""
        self._gathering = None
        self._ring(_NOW)

    def _ring(self, word: bool) -> None:
        self._asleep = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolhall-audit", daemon=True)
            self._thread.start()
        self._bell.put(word)

    def _run(self) -> None:
        """Until it is closed: rest, then write what has come meanwhile, and now and then sign it."""
        due: float | None = None  # when it must be signed, or tried again
        while not self._closed:
            self._rest(None if due is None else max(0.0, due - time.monotonic()))
            signed = self._write(sign=due is not None and time.monotonic() >= due)
            if self.failing:
                due = time.monotonic() + AGAIN_SECONDS
            elif signed:
                due = None
            elif due is None:
                due = time.monotonic() + self._sign_seconds
        self._write(sign=False)
        try:
            self._books.close()
        except OSError:
            _log.exception("the last records of the audit could not be written")
        self.anchoring.flush()

    def _rest(self, most: float | None) -> None:
        """Until something has come, or it is time; then a moment longer, so that more can come, unless one waits."""
        word: bool | None = None
        if not self._queue:
            self._asleep = True
            if not self._queue:  # nothing came in between either
                word = self._heard(most)
            self._asleep = False
        if word is not _NOW and self._queue:
            self._heard(FLUSH_SECONDS)

    def _heard(self, most: float | None) -> bool | None:
        """The next words of the bell, as one; None if it was silent all the time."""
        try:
            word = self._bell.get(timeout=most)
            while not self._bell.empty():
                word |= self._bell.get()
        except Empty:
            return None
        return word

    def _write(self, *, sign: bool) -> bool:
        """Write what has come; whether it was signed. Then the store hears of it, before those who wait do.

        Checkpoints that come with the number of records are told to the store later: there may be many in a second.
        """
        taken: list[Record | Unwritten] = []
        waiters: list[Waiter] = []
        for _ in range(len(self._queue)):
            item = self._queue.popleft()
            if isinstance(item, asyncio.Future):
                waiters.append(item)
                sign |= isinstance(item, Moment) and item.signs
            else:
                taken.append(item)
        self.failing = not self._written(taken, safe=bool(waiters), sign=sign)
        signed = sign and not self.failing
        if signed:
            self.anchoring.flush()
        for loop, waiting in _by_loop(waiters).items():
            with suppress(RuntimeError):  # its loop is closed, so that nobody waits any more
                loop.call_soon_threadsafe(_settle, waiting, self.failing)
        return signed

    def _written(self, taken: list[Record | Unwritten], *, safe: bool, sign: bool) -> bool:
        with self._counting:
            lost, self._overflow = self._overflow, 0
        try:
            self._books.write(taken, lost=lost, safe=safe, sign=sign)
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


def _settle(waiters: list[Waiter], failing: bool) -> None:
    for each in waiters:
        if each.done():  # given up
            continue
        if failing:
            each.set_exception(Unavailable(REFUSAL))
        else:
            each.set_result(None)
