"""The audit's anchor: its public key and newest checkpoints, kept a second time in the database under the store's MAC.

The log and its witness are files in one folder: whoever cuts both at the same place, or puts another folder there,
leaves an audit that is whole. The anchor is a row of the database with a MAC that only the hall can make. The log is
always synced before the store is told of a checkpoint, so a store that is behind the log is the trace of a crash; a log
that is behind the store was cut off or replaced.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.stores.audit.format import (
    AUDIT_FOLDER,
    KEY_FILE,
    MAX_LINE_BYTES,
    WITNESS_FILE,
    AuditPublicKey,
    Checkpoint,
    HashChain,
    first_number,
    logs_of,
    parse_public_key,
    public_key_of,
    read_line,
    read_witness_line,
    segments_of,
)
from toolhall.stores.audit.query import iter_lines_backwards
from toolhall.stores.common import DATABASE_FILE, StoreFailed

FindingKind: TypeAlias = Literal["changed", "missing", "moved", "cut off", "bad signature", "rollback"]


class AuditFinding(msgspec.Struct, frozen=True):
    """The first thing that is wrong with a log: where, and what."""

    what: FindingKind
    file: str
    line: int  # counted from 1; 0: the file as a whole
    number: int  # of the line, as it should be
    says: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{place}, number {self.number}: {self.what}: {self.says}"


_log = logging.getLogger("toolhall.audit")
MAX_ACCEPTANCES = 20  # acceptances that are remembered
BEHIND_MESSAGE = (
    "the audit is not what the store knows of it, so calls of level 4 and up are refused; whoever runs this hall looks"
    " at 'toolhall audit verify', and then lets calls run again with 'toolhall audit accept'"
)
_CHECKPOINT_MEMBER = b'"checkpoint":{'
_DROPPED_MEMBER = b'"dropped":{'


class Acceptance(msgspec.Struct, frozen=True):
    """An operator took the audit as it is, although the store knew more of it."""

    time: float
    by: str
    findings: tuple[str, ...]


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of the audit; with no key it knows nothing yet."""

    public: str = ""  # PEM
    marks: dict[str, Checkpoint] = {}  # by log: its newest checkpoint
    accepted: tuple[Acceptance, ...] = ()
    sound: bool = True  # False: another program changed the row, or removed it


class AnchorStore(Protocol):
    """Keeps the anchor; called from threads, not from the loop."""

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""
        ...

    def read(self) -> Anchor:
        """Wait for the anchor; raises StoreFailed."""
        ...

    def advance(self, public: str, checkpoints: Collection[Checkpoint]) -> None:
        """Keep what is newer, without waiting for it; what fails is logged, and leaves the anchor as it was."""
        ...

    def accept(self, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance) -> None:
        """Replace the anchor, whatever it was, and wait until that is safe; raises StoreFailed."""
        ...


class MemoryAnchorStore:
    """The anchor of a hall without a database; it ends with the process."""

    durable = False

    def __init__(self) -> None:
        self._anchor = Anchor()

    def read(self) -> Anchor:
        """The anchor."""
        return self._anchor

    def advance(self, public: str, checkpoints: Collection[Checkpoint]) -> None:
        """Keep what is newer."""
        self._anchor = with_checkpoints(self._anchor, public, checkpoints)

    def accept(self, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance) -> None:
        """Replace the anchor."""
        self._anchor = with_acceptance(self._anchor, public, checkpoints, acceptance)


def with_checkpoints(anchor: Anchor, public: str, checkpoints: Iterable[Checkpoint]) -> Anchor:
    """The anchor with those marks that are newer; one of another key changes nothing."""
    if not anchor.sound or anchor.public not in ("", public):
        return anchor
    newest = dict(anchor.marks)
    for mark in checkpoints:
        if mark.log not in newest or newest[mark.log].number < mark.number:
            newest[mark.log] = mark
    return msgspec.structs.replace(anchor, public=public, marks=newest)


def with_acceptance(anchor: Anchor, public: str, checkpoints: Iterable[Checkpoint], acceptance: Acceptance) -> Anchor:
    """A new anchor, which remembers who took the audit for what it is, and why that was needed."""
    before = (*anchor.accepted, acceptance)[-MAX_ACCEPTANCES:]
    return Anchor(public=public, marks={mark.log: mark for mark in checkpoints}, accepted=before)


class AnchorSync:
    """Compares the audit in a folder with the store when it is opened, and tells the store of checkpoints later.

    While the audit is behind the store, the store is told nothing: what it knows is the evidence.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.behind: tuple[str, ...] = ()  # what the store knows of the audit and the folder does not hold
        self._folder = folder
        self._clock = clock
        self._store: AnchorStore | None = None
        self._writes = False
        self._lock = threading.Lock()  # the audit's thread and those of the loop
        self._public = ""
        self._pending: dict[str, Checkpoint] = {}  # what the store has not heard of
        self._stored_key = ""  # the key that the database is known to know
        self._was_stored = False  # of an audit that is behind: whether its newest checkpoint says so

    def open(self, store: AnchorStore, *, writes: bool) -> None:
        """Compare, and keep on telling the store if this process may write to it; raises StoreFailed."""
        self._store, self._writes = store, writes
        self.compare()

    def compare(self) -> None:
        """Compare once more: another process may have accepted the audit meanwhile. Raises StoreFailed."""
        if self._store is None:
            return
        anchor = self._store.read()
        behind = tuple(str(finding) for finding in compare_with_anchor(self._folder, anchor))
        for finding in behind if behind != self.behind else ():
            _log.error("AUDIT BEHIND THE STORE: %s; %s", finding, BEHIND_MESSAGE)
        if self.behind and not behind:
            _log.warning("the audit is again what the store knows of it: calls of level 4 and up run")
        self._was_stored = bool(behind) and was_stored(self._folder)
        self.behind = behind
        public = None if behind or not self._writes else public_key_of(self._folder / KEY_FILE)
        if public is not None:  # a crash, or a hall that could not write, may have left the store behind
            self.on_checkpoints(public, witnessed_checkpoints(self._folder, public))
            self.flush()

    def on_checkpoints(self, public: AuditPublicKey, checkpoints: Iterable[Checkpoint]) -> None:
        """Checkpoints that are on the disk, as is everything before them; the store hears of them with `flush`."""
        with self._lock:
            self._public = public.pem()
            self._pending.update({mark.log: mark for mark in checkpoints})

    def is_stored(self, public: AuditPublicKey) -> bool:
        """Whether the database knows this key, and is safe; it is told once, and waited for, before a mark says so."""
        store, pem = self._store, public.pem()
        if self.behind:  # the store is told nothing, and what the audit said before stays said
            return self._was_stored
        if store is None or not self._writes or not store.durable:
            return False
        if self._stored_key != pem:
            try:
                store.advance(pem, ())
                self._stored_key = store.read().public
            except StoreFailed as failed:
                _log.error("the store was not told of the audit's key: %s", failed)
        return self._stored_key == pem

    def flush(self) -> None:
        """Tell the store, without waiting for it."""
        if self._store is None or not self._writes or self.behind:
            return
        with self._lock:
            public, newest, self._pending = self._public, self._pending, {}
        if newest:
            self._store.advance(public, tuple(newest.values()))

    def accept(self, by: str) -> tuple[str, ...]:
        """Take the audit as it is from now on; what was wrong with it. Raises StoreFailed."""
        self.compare()
        behind = self.behind
        if behind and self._store is not None:
            public = public_key_of(self._folder / KEY_FILE)
            if public is None:
                raise StoreFailed(f"there is no {KEY_FILE} to sign the audit with; it is made with the next record")
            marks = witnessed_checkpoints(self._folder, public)
            self._store.accept(public.pem(), marks, Acceptance(self._clock(), by, behind))
            _log.warning("%s accepted the audit as it is: %s", by, "; ".join(behind))
            self.behind = ()
        return behind


def compare_with_anchor(folder: Path, anchor: Anchor) -> list[AuditFinding]:
    """What the store knows and the folder does not hold; a look at the ends, which takes no time to speak of."""
    if not anchor.sound:
        return [anchor_tampered()]
    for _ in range(2):
        try:
            return _compare_once(folder, anchor)
        except FileNotFoundError:  # an old segment was dropped meanwhile
            continue
    return _compare_once(folder, anchor)


def was_stored(folder: Path) -> bool:
    """Whether the newest checkpoint of a log or of the witness says that a database knew of this audit.

    Signatures are not checked: `verify` does that, and nobody gains by a claim that is false.
    """
    witness = folder / WITNESS_FILE
    seen = (
        next(filter(None, map(read_witness_line, iter_lines_backwards(witness))), None) if witness.is_file() else None
    )
    return (seen is not None and seen.stored) or any(map(_newest_says_stored, logs_of(folder)))


def anchor_tampered() -> AuditFinding:
    """Another program wrote to the row."""
    says = "what the store knows of the audit was changed or removed by another program; restore a backup of it"
    return AuditFinding("changed", DATABASE_FILE, 0, 0, says)


def anchor_missing() -> AuditFinding:
    """There is no database, or one that knows nothing, where there was another."""
    says = "the store that knew this audit was removed or made anew, so it cannot tell whether the audit is whole"
    return AuditFinding("missing", DATABASE_FILE, 0, 0, f"{says}; restore a backup of it")


def key_mismatch(file: str) -> AuditFinding:
    """The folder's key is not the one that the store knows."""
    says = "the store knows another key: the audit was replaced, or its key was made anew"
    return AuditFinding("bad signature", f"{AUDIT_FOLDER}/{file}", 0, 0, says)


def log_missing(checkpoint: Checkpoint) -> AuditFinding:
    """A log is not there."""
    says = f"the log {checkpoint.log} is gone, or its first line; the store saw it at number {checkpoint.number}"
    return AuditFinding("missing", f"{AUDIT_FOLDER}/", 0, checkpoint.number, says)


def witnessed_checkpoints(folder: Path, public: AuditPublicKey) -> list[Checkpoint]:
    """Of each log the newest checkpoint that the witness saw, the key signed and the log holds.

    What the witness saw was on the disk before; a line of the log alone may not be yet.
    """
    logs, witness = _logs_by_id(folder), folder / WITNESS_FILE
    found: dict[str, Checkpoint] = {}
    if not witness.is_file():
        return []
    for raw in iter_lines_backwards(witness):
        if len(found) == len(logs):
            break
        mark = read_witness_line(raw)
        if mark is None or mark.log in found or mark.log not in logs:
            continue
        if public.verify("checkpoint", mark) and _check_log(logs[mark.log], mark, public) is None:
            found[mark.log] = mark
    return list(found.values())


def _compare_once(folder: Path, anchor: Anchor) -> list[AuditFinding]:
    if not anchor.public:
        return [anchor_missing()] if was_stored(folder) else []
    public, here = parse_public_key(anchor.public), public_key_of(folder / KEY_FILE)
    if public is None:
        return [anchor_tampered()]
    findings = [] if here is not None and here.pem() == anchor.public else [key_mismatch(KEY_FILE)]
    logs = _logs_by_id(folder)
    for mark in anchor.marks.values():
        fault = _check_log(logs[mark.log], mark, public) if mark.log in logs else log_missing(mark)
        findings += [] if fault is None else [fault]
    return findings


def _newest_says_stored(log: Path) -> bool:
    """The newest checkpoint is in one of the newest segments, which are never dropped."""
    for segment in reversed(segments_of(log)):
        for raw in iter_lines_backwards(segment):
            line = read_line(raw) if _CHECKPOINT_MEMBER in raw else None
            if line is not None and line.checkpoint is not None:
                return line.checkpoint.stored
    return False


def _logs_by_id(folder: Path) -> dict[str, Path]:
    """The folders of logs, by what their first lines say."""
    found: dict[str, Path] = {}
    for log in logs_of(folder):
        for segment in segments_of(log)[:1]:
            with segment.open("rb") as file:
                line = read_line(file.readline(MAX_LINE_BYTES))
            if line is not None and line.head is not None:
                found[line.head.log] = log
    return found


def _check_log(log: Path, checkpoint: Checkpoint, public: AuditPublicKey) -> AuditFinding | None:
    """What is wrong with a log that should hold this checkpoint."""
    segments = segments_of(log)
    holding = [each for each in segments if first_number(each.name) <= checkpoint.number]
    if not holding:
        if any(_is_signed_drop(each, checkpoint, public) for each in segments):
            return None
        return AuditFinding(
            "missing",
            f"{AUDIT_FOLDER}/{log.name}",
            0,
            checkpoint.number,
            "its first lines are gone, and nothing says why",
        )
    segment = holding[-1]
    place = f"{AUDIT_FOLDER}/{log.name}/{segment.name}"
    for raw in iter_lines_backwards(segment):
        line = read_line(raw)
        if line is None or line.number > checkpoint.number:
            continue
        if line.number < checkpoint.number:
            break
        if HashChain(checkpoint.number, checkpoint.before.encode()).accept(raw):
            return None
        return AuditFinding(
            "rollback", place, 0, checkpoint.number, "the store saw another line here: the log was made anew"
        )
    says = f"the store saw checkpoint {checkpoint.number}, which is gone: the log's end was cut off, or an older copy put back"
    return AuditFinding("rollback", place, 0, checkpoint.number, says)


def _is_signed_drop(segment: Path, checkpoint: Checkpoint, public: AuditPublicKey) -> bool:
    """Whether a signed note says that the log was dropped on purpose beyond this place."""
    with segment.open("rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            line = read_line(raw) if _DROPPED_MEMBER in raw else None
            dropped = None if line is None else line.dropped
            if dropped is not None and dropped.log == checkpoint.log and dropped.number > checkpoint.number:
                return public.verify("dropped", dropped)
    return False
