"""One log, as the process writes it that holds it: lines, checkpoints, a new segment now and then."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Protocol

import msgspec

from toolhall.model.record import Record
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.lines import Chain, Head, Kind, Lost, Mark
from toolhall.stores.audit.opening import Opened, first_of
from toolhall.stores.audit.segments import segment_name, segment_names
from toolhall.stores.audit.signing import PublicKey, Purpose, Signer
from toolhall.stores.audit.tail import Tail
from toolhall.stores.audit.witness import testify

_log = logging.getLogger("toolhall.audit")

MOST_WAITING = 1024 * 1024  # bytes for a disk that takes nothing; records beyond them are only counted
_DAY_SECONDS = 86_400


class Listener(Protocol):
    """Who keeps checkpoints outside the log."""

    def saw(self, public: PublicKey, marks: Sequence[Mark]) -> None:
        """Hear of checkpoints that are on the disk."""
        ...

    def is_stored(self, public: PublicKey) -> bool:
        """Whether the hall's database knows of the audit with this key; then every checkpoint says so."""
        ...


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """When there is a checkpoint, and a new segment, and an end to old ones; 0 days keep everything."""

    days: int = 0
    sign_records: int = 1_000
    sign_seconds: float = 60.0
    segment_bytes: int = 64 * 1024 * 1024


class Log:
    """Whatever raises OSError can be tried again, and has lost nothing that was promised."""

    def __init__(
        self,
        opened: Opened,
        signer: Signer,
        disk: Disk,
        clock: Callable[[], float],
        keeping: Keeping,
        listener: Listener | None = None,
    ) -> None:
        self._listener = listener
        self._folder = opened.folder
        self._id = opened.log
        self._begun = opened.begun
        self._chain = opened.chain
        self._tail = Tail(disk, opened.file, opened.at)
        self._unsigned = opened.unsigned
        self._signer = signer
        self._disk = disk
        self._clock = clock
        self._keeping = keeping
        self._lost = 0  # records that found no place
        self._marks = opened.unseen  # checkpoints that the witness has not heard of
        for torn in opened.torn:
            self._add("torn", torn)

    def write(self, records: Sequence[Record]) -> None:
        """Add records, in order, without waiting until they are safe; none of them is left out if this raises."""
        self._roll_if_due()
        trouble: OSError | None = None
        start = 0
        while start < len(records):
            room = len(records) if trouble else max(1, self._keeping.sign_records - self._unsigned)
            self._take(records[start : start + room])
            start += room
            if trouble is None and self._unsigned >= self._keeping.sign_records:
                try:
                    self.sign()
                except OSError as error:
                    trouble = error
        if trouble is not None:
            raise trouble
        self._tail.store()

    def sync(self) -> None:
        """Everything that was added is there after a power loss; then the witness hears of checkpoints."""
        self._tail.sync()
        if self._marks:
            testify(self._disk, self._folder.parent, self._marks)
            if self._listener is not None:
                self._listener.saw(self._signer.public, self._marks)
            self._marks.clear()

    def sign(self) -> None:
        """A checkpoint, if anything came since the last one; what is before it is safe first."""
        if self._unsigned:
            self._tail.sync()
            mark = self._mark("checkpoint", self._chain.number, self._chain.last)
            self._add("checkpoint", mark)
            self._marks.append(mark)
            self._unsigned = 0
        self.sync()

    def lose(self, records: int) -> None:
        """Records that came while there was no place for them."""
        self._lost += records

    def retire(self) -> None:
        """Of a log that nobody writes to any more: drop what is old, all of it if it comes to that."""
        if self._clock() - self._begun >= (self._keeping.days + 1) * _DAY_SECONDS:  # a segment holds one day at most
            self._roll()
            *old, last = segment_names(self._disk.names(self._folder))
            begun = first_of(self._disk, self._folder / last)
            if old and begun is not None:
                self._drop(old, *begun)
        else:
            self._drop_old()

    def close(self) -> None:
        """Sign what is left; whatever fails, the files are let go."""
        try:
            self._confess()
            self.sign()
        finally:
            self._disk.close(self._tail.file)

    def _take(self, records: Sequence[Record]) -> None:
        if self._tail.failed and self._tail.waiting > MOST_WAITING:
            self._lost += len(records)
            return
        self._confess()
        self._tail.add(self._chain.links(records))
        self._unsigned += len(records)

    def _confess(self) -> None:
        """Say in the log itself that records are missing from it."""
        if self._lost and not self._tail.failed:
            _log.error("%d audit records were lost while the disk took none", self._lost)
            self._add("lost", Lost(self._lost, self._clock()))
            self._lost = 0

    def _add(self, kind: Kind, value: msgspec.Struct) -> None:
        self._tail.add(self._chain.link(kind, value))
        self._unsigned += 1

    def _mark(self, purpose: Purpose, number: int, before: bytes) -> Mark:
        stored = self._listener is not None and self._listener.is_stored(self._signer.public)
        return self._signer.sign(purpose, Mark(self._id, number, before.decode(), self._clock(), stored=stored))

    def _roll_if_due(self) -> None:
        full = self._tail.size >= self._keeping.segment_bytes
        if (full or _day(self._begun) != _day(self._clock())) and not self._tail.failed:
            try:
                self._roll()
                self._drop_old()
            except OSError:
                _log.exception("%s goes on in an old segment, because there cannot be a new one", self._folder)

    def _roll(self) -> None:
        """Go on in a new file, whose first line carries the hash of the last line here."""
        self.sign()
        now, chain = self._clock(), Chain(self._chain.number, self._chain.last)
        path = self._folder / segment_name(chain.number)
        tail = Tail(self._disk, self._disk.open(path), 0)
        tail.add(chain.link("head", Head(self._id, now, self._chain.last.decode())))
        try:
            self._disk.cut(tail.file, 0)
            tail.sync()
            self._disk.sync_folder(self._folder)
        except OSError:
            self._disk.close(tail.file)
            with suppress(OSError):
                self._disk.remove(path)
            raise
        self._disk.close(self._tail.file)
        self._begun, self._chain, self._tail, self._unsigned = now, chain, tail, 1

    def _drop_old(self) -> None:
        """Remove segments that are old as a whole, once a signed note says so."""
        if not self._keeping.days:
            return
        earliest = self._clock() - self._keeping.days * _DAY_SECONDS
        names = segment_names(self._disk.names(self._folder))
        old: list[str] = []
        kept: tuple[int, Head] | None = None
        for name, following in pairwise(names):
            begun = first_of(self._disk, self._folder / following)
            if begun is None or begun[1].time >= earliest:
                break
            old.append(name)
            kept = begun
        if kept is not None:
            self._drop(old, *kept)

    def _drop(self, old: list[str], number: int, kept: Head) -> None:
        self._add("dropped", self._mark("dropped", number, kept.before.encode()))
        self.sync()
        for name in old:
            self._disk.remove(self._folder / name)
        self._disk.sync_folder(self._folder)
        _log.info("dropped %d segments of the audit, up to number %d", len(old), number - 1)


def _day(moment: float) -> float:
    """By UTC, whose days are all equally long."""
    return moment // _DAY_SECONDS
