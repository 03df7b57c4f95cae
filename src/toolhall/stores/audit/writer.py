"""AuditWriter owns this process's AuditLog: appends records, signs checkpoints, rolls segments and expires old logs.

Two processes cannot continue one hash chain, so each claims a log of its own by a lock. An operation that raises
OSError can be retried and has lost no acknowledged record; records that found no room are counted in the log itself.

The writer runs in a thread beside the event loop, and holds the interpreter's lock while it makes records and lines. So
it rests after every SLICE of them, unless somebody waits for the write: calls would be late by what a batch takes.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Protocol

import msgspec

from toolhall.model.call_records import AuditRecord, RecordSource
from toolhall.stores.audit.disk import Disk, SegmentTail
from toolhall.stores.audit.hash_chain import (
    KEY_FILE,
    LOCK_FILE,
    PUBLIC_FILE,
    AuditPublicKey,
    AuditSigner,
    Checkpoint,
    HashChain,
    LineKind,
    LostRecords,
    SegmentHeader,
    SignaturePurpose,
    append_to_witness,
    logs_of,
    segment_name,
    segment_names,
)
from toolhall.stores.audit.recovery import OpenedLog, open_log, read_header
from toolhall.stores.common import InUse
from toolhall.stores.file_lock import FileLock

_log = logging.getLogger("toolhall.audit")
MAX_PENDING_BYTES = 1024 * 1024  # kept for a disk that accepts nothing; further records are only counted
_DAY_SECONDS = 86_400
MAX_BUFFERED = 2_000  # records kept while the log cannot be opened
SLICE = 64  # records that are made, or encoded, without a rest: about a fifth of a millisecond
REST_SECONDS = 0.0002


class CheckpointListener(Protocol):
    """Receives checkpoints, to keep them outside the log."""

    def on_checkpoints(self, public: AuditPublicKey, checkpoints: Sequence[Checkpoint]) -> None:
        """Receive checkpoints that are durable."""
        ...

    def is_stored(self, public: AuditPublicKey) -> bool:
        """True if the hall's database knows this audit's key; every checkpoint then says so."""
        ...


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """When to sign, when to begin a segment, and after how many days to drop old ones; 0 keeps everything."""

    days: int = 0
    sign_records: int = 1_000
    sign_seconds: float = 60.0
    segment_bytes: int = 64 * 1024 * 1024


class AuditLog:
    """One log, opened for appending; an operation that raises OSError can be retried and has lost no durable record."""

    def __init__(
        self,
        opened: OpenedLog,
        signer: AuditSigner,
        disk: Disk,
        clock: Callable[[], float],
        retention: Retention,
        listener: CheckpointListener | None = None,
    ) -> None:
        self._listener = listener
        self._folder = opened.folder
        self._id = opened.log
        self._segment_started = opened.segment_started
        self._chain = opened.chain
        self._tail = SegmentTail(disk, opened.file, opened.at)
        self._unsigned = opened.unsigned
        self._signer = signer
        self._disk = disk
        self._clock = clock
        self._retention = retention
        self._lost = 0  # records that found no room
        self._unwitnessed = opened.unwitnessed  # checkpoints that are not in the witness yet
        for torn in opened.torn:
            self._add("torn", torn)

    def write(self, records: Sequence[AuditRecord], *, rest: bool = False) -> None:
        """Append records without syncing them; they are kept and written later if this raises."""
        self._roll_if_due()
        failure: OSError | None = None
        start = 0
        while start < len(records):
            if rest and start:
                time.sleep(REST_SECONDS)
            room = len(records) if failure else max(1, self._retention.sign_records - self._unsigned)
            room = min(room, SLICE)
            self._append(records[start : start + room])
            start += room
            if failure is None and self._unsigned >= self._retention.sign_records:
                try:
                    self.sign()
                except OSError as error:
                    failure = error
        if failure is not None:
            raise failure
        self._tail.flush()

    def sync(self) -> None:
        """Make everything durable, then append new checkpoints to the witness."""
        self._tail.sync()
        if self._unwitnessed:
            append_to_witness(self._disk, self._folder.parent, self._unwitnessed)
            if self._listener is not None:
                self._listener.on_checkpoints(self._signer.public, self._unwitnessed)
            self._unwitnessed.clear()

    def sign(self) -> None:
        """Sync, then append a checkpoint if anything came since the last one."""
        if self._unsigned:
            self._tail.sync()
            checkpoint = self._signed_checkpoint("checkpoint", self._chain.number, self._chain.last_hash)
            self._add("checkpoint", checkpoint)
            self._unwitnessed.append(checkpoint)
            self._unsigned = 0
        self.sync()

    def count_lost(self, records: int) -> None:
        """Count records that found no room, to note them in the log."""
        self._lost += records

    def expire(self) -> None:
        """Drop old segments of a log whose process has exited, all of them if all are old."""
        # A segment covers one day at most.
        if self._clock() - self._segment_started >= (self._retention.days + 1) * _DAY_SECONDS:
            self._roll()
            *old, last = segment_names(self._disk.names(self._folder))
            header = read_header(self._disk, self._folder / last)
            if old and header is not None:
                self._drop(old, *header)
        else:
            self._drop_old()

    def close(self) -> None:
        """Sign what is left and close the files, also on errors."""
        try:
            self._record_losses()
            self.sign()
        finally:
            self._disk.close(self._tail.file)

    def _append(self, records: Sequence[AuditRecord]) -> None:
        if self._tail.failed and self._tail.pending_bytes > MAX_PENDING_BYTES:
            self._lost += len(records)
            return
        self._record_losses()
        self._tail.add(self._chain.encode_records(records))
        self._unsigned += len(records)

    def _record_losses(self) -> None:
        """Note in the log that records are missing from it."""
        if self._lost and not self._tail.failed:
            _log.error("%d audit records were lost while the disk accepted none", self._lost)
            self._add("lost", LostRecords(self._lost, self._clock()))
            self._lost = 0

    def _add(self, kind: LineKind, value: msgspec.Struct) -> None:
        self._tail.add(self._chain.encode_line(kind, value))
        self._unsigned += 1

    def _signed_checkpoint(self, purpose: SignaturePurpose, number: int, before: bytes) -> Checkpoint:
        stored = self._listener is not None and self._listener.is_stored(self._signer.public)
        return self._signer.sign(purpose, Checkpoint(self._id, number, before.decode(), self._clock(), stored=stored))

    def _roll_if_due(self) -> None:
        full = self._tail.size >= self._retention.segment_bytes
        if (full or _day(self._segment_started) != _day(self._clock())) and not self._tail.failed:
            try:
                self._roll()
                self._drop_old()
            except OSError:
                _log.exception("%s continues in an old segment, because a new one could not be created", self._folder)

    def _roll(self) -> None:
        """Sign, and continue in a new segment whose first line repeats the hash of the last line."""
        self.sign()
        now, chain = self._clock(), HashChain(self._chain.number, self._chain.last_hash)
        path = self._folder / segment_name(chain.number)
        tail = SegmentTail(self._disk, self._disk.open(path), 0)
        tail.add(chain.encode_line("head", SegmentHeader(self._id, now, self._chain.last_hash.decode())))
        try:
            self._disk.truncate(tail.file, 0)
            tail.sync()
            self._disk.sync_folder(self._folder)
        except OSError:
            self._disk.close(tail.file)
            with suppress(OSError):
                self._disk.remove(path)
            raise
        self._disk.close(self._tail.file)
        self._segment_started, self._chain, self._tail, self._unsigned = now, chain, tail, 1

    def _drop_old(self) -> None:
        """Remove segments whose records are all old, after writing a signed note."""
        if not self._retention.days:
            return
        earliest = self._clock() - self._retention.days * _DAY_SECONDS
        names = segment_names(self._disk.names(self._folder))
        old: list[str] = []
        first_kept: tuple[int, SegmentHeader] | None = None
        for name, following in pairwise(names):
            header = read_header(self._disk, self._folder / following)
            if header is None or header[1].time >= earliest:
                break
            old.append(name)
            first_kept = header
        if first_kept is not None:
            self._drop(old, *first_kept)

    def _drop(self, old: list[str], number: int, first_kept: SegmentHeader) -> None:
        self._add("dropped", self._signed_checkpoint("dropped", number, first_kept.before.encode()))
        self.sync()
        for name in old:
            self._disk.remove(self._folder / name)
        self._disk.sync_folder(self._folder)
        _log.info("dropped %d segments of the audit, up to number %d", len(old), number - 1)


def _day(moment: float) -> float:
    """Return the number of the UTC day."""
    return moment // _DAY_SECONDS


def claim_log(disk: Disk, folder: Path) -> tuple[Path, FileLock]:
    """Claim a log for this process, with its lock.

    The first log without a holder is taken, so a hall that runs alone continues its own log at every start, and there
    are as many logs as processes ever ran concurrently.
    """
    for number in count(1):
        log = folder / str(number)
        lock = _try_lock(disk, log)
        if lock is not None:
            return log, lock
    raise AssertionError  # count never ends


def claim_idle_logs(disk: Disk, folder: Path) -> list[tuple[Path, FileLock]]:
    """Claim all logs that no process writes to, each with its lock."""
    locked = [(log, _try_lock(disk, log)) for log in logs_of(folder)]
    return [(log, lock) for log, lock in locked if lock is not None]


def count_claimed_logs(folder: Path) -> int:
    """Return how many logs have a holder, each of which is one process."""
    claimed = 0
    for log in logs_of(folder):
        try:
            FileLock(log / LOCK_FILE).release()
        except InUse:
            claimed += 1
    return claimed


def _try_lock(disk: Disk, log: Path) -> FileLock | None:
    disk.make_folder(log)
    try:
        return FileLock(log / LOCK_FILE)
    except InUse:
        return None


class AuditWriter:
    """Owns this process's log; for one thread. An operation that raises OSError can be retried."""

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        clock: Callable[[], float],
        retention: Retention,
        listener: CheckpointListener | None = None,
    ) -> None:
        self._listener = listener
        self._folder = folder
        self._disk = disk
        self._clock = clock
        self._retention = retention
        self._buffered: list[AuditRecord] = []
        self._lost = 0
        self._log: AuditLog | None = None
        self._lock: FileLock | None = None
        self._last_expiry_day = -1.0  # the day of the last check for old segments

    def write(
        self, records: Sequence[AuditRecord | RecordSource], *, lost: int = 0, sync: bool = False, sign: bool = False
    ) -> None:
        """Append records, and note how many were lost before them.

        `sync` makes everything so far durable; `sign` appends a checkpoint too.
        """
        self._lost += lost
        self._buffer(records, rest=not sync)
        log = self._log or self._open_bounded()
        self._expire_idle_logs()
        self._drain(log, rest=not sync)
        if sign:
            log.sign()
        elif sync:
            log.sync()

    def close(self) -> None:
        """Write and sign what is left, and release the log."""
        log, self._log = self._log, None
        try:
            if log is None and self._buffered:
                log = self._open()
            if log is not None:
                self._log = None
                try:
                    self._drain(log)
                finally:
                    log.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def _buffer(self, records: Sequence[AuditRecord | RecordSource], *, rest: bool) -> None:
        """Build the records; if building one raises, those that were not built count as lost, which the log notes."""
        self._lost += len(records)
        for start in range(0, len(records), SLICE):
            if rest and start:
                time.sleep(REST_SECONDS)
            part = records[start : start + SLICE]
            self._buffered += [each if isinstance(each, AuditRecord) else each.record() for each in part]
            self._lost -= len(part)

    def _drain(self, log: AuditLog, *, rest: bool = False) -> None:
        records, self._buffered = self._buffered, []
        lost, self._lost = self._lost, len(records)
        log.count_lost(lost)
        try:
            log.write(records, rest=rest)
        except OSError:  # the log keeps them and writes them later
            self._lost = 0
            raise
        self._lost = 0

    def _open_bounded(self) -> AuditLog:
        try:
            return self._open()
        except OSError:
            self._lost += len(self._buffered[MAX_BUFFERED:])
            del self._buffered[MAX_BUFFERED:]
            raise

    def _open(self) -> AuditLog:
        self._disk.make_folder(self._folder)
        signer = AuditSigner(self._folder)
        self._sync_files(KEY_FILE, PUBLIC_FILE)
        folder, lock = claim_log(self._disk, self._folder)
        try:
            log = self._recover(folder, signer)
        except BaseException:
            lock.release()
            raise
        self._log, self._lock = log, lock
        return log

    def _recover(self, folder: Path, signer: AuditSigner) -> AuditLog:
        opened = open_log(folder, signer.public, self._disk, self._clock())
        return AuditLog(opened, signer, self._disk, self._clock, self._retention, self._listener)

    def _sync_files(self, *names: str) -> None:
        """Sync the key files: signatures of a key that a power loss took could not be verified."""
        for name in names:
            file = self._disk.open(self._folder / name)
            try:
                self._disk.sync(file)
            finally:
                self._disk.close(file)
        self._disk.sync_folder(self._folder)

    def _expire_idle_logs(self) -> None:
        """Once a day, drop old segments of logs whose process has exited."""
        today = self._clock() // _DAY_SECONDS
        if not self._retention.days or today == self._last_expiry_day:
            return
        self._last_expiry_day = today
        for folder, lock in claim_idle_logs(self._disk, self._folder):
            try:
                log = self._recover(folder, AuditSigner(self._folder))
                try:
                    log.expire()
                finally:
                    log.close()
            except OSError:
                _log.exception("old segments in %s could not be dropped; the next attempt is tomorrow", folder)
            finally:
                lock.release()
