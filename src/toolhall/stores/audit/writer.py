"""AuditWriter owns this process's AuditLog: appends records, signs checkpoints, rolls segments and expires old logs.

Two processes cannot continue one hash chain, so each claims a log of its own by a lock. Whatever raises OSError can be
retried, and has lost nothing that was promised; records that found no room are counted in the log itself.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Protocol

import msgspec

from toolhall.model.call_records import AuditRecord, RecordSource
from toolhall.stores.audit.disk import Disk, SegmentTail
from toolhall.stores.audit.format import (
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
MAX_PENDING_BYTES = 1024 * 1024  # bytes for a disk that takes nothing; records beyond them are only counted
_DAY_SECONDS = 86_400


class CheckpointListener(Protocol):
    """Who keeps checkpoints outside the log."""

    def on_checkpoints(self, public: AuditPublicKey, checkpoints: Sequence[Checkpoint]) -> None:
        """Hear of checkpoints that are on the disk."""
        ...

    def is_stored(self, public: AuditPublicKey) -> bool:
        """Whether the hall's database knows of the audit with this key; then every checkpoint says so."""
        ...


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """When there is a checkpoint, and a new segment, and an end to old ones; 0 days keep everything."""

    days: int = 0
    sign_records: int = 1_000
    sign_seconds: float = 60.0
    segment_bytes: int = 64 * 1024 * 1024


class AuditLog:
    """Whatever raises OSError can be tried again, and has lost nothing that was promised."""

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
        self._lost = 0  # records that found no place
        self._unwitnessed = opened.unwitnessed  # checkpoints that the witness has not heard of
        for torn in opened.torn:
            self._add("torn", torn)

    def write(self, records: Sequence[AuditRecord]) -> None:
        """Add records, in order, without waiting until they are safe; none of them is left out if this raises."""
        self._roll_if_due()
        trouble: OSError | None = None
        start = 0
        while start < len(records):
            room = len(records) if trouble else max(1, self._retention.sign_records - self._unsigned)
            self._append(records[start : start + room])
            start += room
            if trouble is None and self._unsigned >= self._retention.sign_records:
                try:
                    self.sign()
                except OSError as error:
                    trouble = error
        if trouble is not None:
            raise trouble
        self._tail.flush()

    def sync(self) -> None:
        """Everything that was added is there after a power loss; then the witness hears of checkpoints."""
        self._tail.sync()
        if self._unwitnessed:
            append_to_witness(self._disk, self._folder.parent, self._unwitnessed)
            if self._listener is not None:
                self._listener.on_checkpoints(self._signer.public, self._unwitnessed)
            self._unwitnessed.clear()

    def sign(self) -> None:
        """A checkpoint, if anything came since the last one; what is before it is safe first."""
        if self._unsigned:
            self._tail.sync()
            mark = self._signed_checkpoint("checkpoint", self._chain.number, self._chain.last_hash)
            self._add("checkpoint", mark)
            self._unwitnessed.append(mark)
            self._unsigned = 0
        self.sync()

    def count_lost(self, records: int) -> None:
        """Records that came while there was no place for them."""
        self._lost += records

    def expire(self) -> None:
        """Of a log that nobody writes to any more: drop what is old, all of it if it comes to that."""
        if (
            self._clock() - self._segment_started >= (self._retention.days + 1) * _DAY_SECONDS
        ):  # a segment holds one day at most
            self._roll()
            *old, last = segment_names(self._disk.names(self._folder))
            begun = read_header(self._disk, self._folder / last)
            if old and begun is not None:
                self._drop(old, *begun)
        else:
            self._drop_old()

    def close(self) -> None:
        """Sign what is left; whatever fails, the files are let go."""
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
        """Say in the log itself that records are missing from it."""
        if self._lost and not self._tail.failed:
            _log.error("%d audit records were lost while the disk took none", self._lost)
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
                _log.exception("%s goes on in an old segment, because there cannot be a new one", self._folder)

    def _roll(self) -> None:
        """Go on in a new file, whose first line carries the hash of the last line here."""
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
        """Remove segments that are old as a whole, once a signed note says so."""
        if not self._retention.days:
            return
        earliest = self._clock() - self._retention.days * _DAY_SECONDS
        names = segment_names(self._disk.names(self._folder))
        old: list[str] = []
        kept: tuple[int, SegmentHeader] | None = None
        for name, following in pairwise(names):
            begun = read_header(self._disk, self._folder / following)
            if begun is None or begun[1].time >= earliest:
                break
            old.append(name)
            kept = begun
        if kept is not None:
            self._drop(old, *kept)

    def _drop(self, old: list[str], number: int, kept: SegmentHeader) -> None:
        self._add("dropped", self._signed_checkpoint("dropped", number, kept.before.encode()))
        self.sync()
        for name in old:
            self._disk.remove(self._folder / name)
        self._disk.sync_folder(self._folder)
        _log.info("dropped %d segments of the audit, up to number %d", len(old), number - 1)


def _day(moment: float) -> float:
    """By UTC, whose days are all equally long."""
    return moment // _DAY_SECONDS


def claim_log(disk: Disk, folder: Path) -> tuple[Path, FileLock]:
    """A log of this process alone, with the lock on it.

    Two processes cannot go on with one chain. A hall that runs alone goes on with its own log whenever it is started;
    several take one each, so that there are as many as ever ran at the same time.
    """
    for number in count(1):
        log = folder / str(number)
        lock = _try_lock(disk, log)
        if lock is not None:
            return log, lock
    raise AssertionError  # count never ends


def claim_idle_logs(disk: Disk, folder: Path) -> list[tuple[Path, FileLock]]:
    """The logs that nobody writes to now, each with a lock on it."""
    locked = [(log, _try_lock(disk, log)) for log in logs_of(folder)]
    return [(log, lock) for log, lock in locked if lock is not None]


def _try_lock(disk: Disk, log: Path) -> FileLock | None:
    disk.make_folder(log)
    try:
        return FileLock(log / LOCK_FILE)
    except InUse:
        return None


MAX_BUFFERED = 2_000  # records for a log that cannot be opened


class AuditWriter:
    """For one thread; whatever raises OSError can be tried again."""

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
        self._last_expiry_day = -1.0  # the day on which old logs were looked after last

    def write(
        self, records: Sequence[AuditRecord | RecordSource], *, lost: int = 0, sync: bool = False, sign: bool = False
    ) -> None:
        """Add records, and say how many were lost before them.

        `safe` waits until everything so far survives a power loss, `sign` adds a checkpoint too.
        """
        self._lost += lost
        self._buffer(records)
        log = self._log or self._open_bounded()
        self._expire_idle_logs()
        self._drain(log)
        if sign:
            log.sign()
        elif sync:
            log.sync()

    def close(self) -> None:
        """Sign what is left, if there is anything."""
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

    def _buffer(self, records: Sequence[AuditRecord | RecordSource]) -> None:
        """Make records of them; if one cannot be made, all count as lost, which the log will say."""
        self._lost += len(records)
        self._buffered += [each if isinstance(each, AuditRecord) else each.record() for each in records]
        self._lost -= len(records)

    def _drain(self, log: AuditLog) -> None:
        held, self._buffered = self._buffered, []
        lost, self._lost = self._lost, len(held)
        log.count_lost(lost)
        try:
            log.write(held)
        except OSError:  # it has them, and will write them when it can
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
        """A key that a power loss took would leave signatures that nobody can check."""
        for name in names:
            file = self._disk.open(self._folder / name)
            try:
                self._disk.sync(file)
            finally:
                self._disk.close(file)
        self._disk.sync_folder(self._folder)

    def _expire_idle_logs(self) -> None:
        """Once a day: what is old in logs whose process is gone has nobody else to drop it."""
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
                _log.exception("what is old in %s could not be dropped; it is tried again tomorrow", folder)
            finally:
                lock.release()
