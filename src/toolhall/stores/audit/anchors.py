"""The audit's anchor: its public key and newest checkpoints, stored a second time in the database under a MAC.

Theory of operation. The log and its witness are files in one folder: an attacker who cuts both at the same position, or
replaces the folder, leaves an audit that verifies. The anchor is a row of the database with a MAC that takes the
folder's root key. AnchorSync compares it with the folder at every start and updates it afterwards. The log is always
synced before a checkpoint is stored here, so there are two cases:

- The store is behind the log: a crash came in between, or a hall could not write to the store. The store is updated.
- The log is behind the store (`behind` is not empty): it was cut off, replaced or signed by another key. Calls of level
  4 and up are refused, and the anchor stays as it is, as evidence, until an operator accepts the audit.

A checkpoint that says `stored` was signed after the database knew the audit's key. If the newest one says so and the
database knows nothing, the database was removed or replaced.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.stores.audit.hash_chain import (
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
_log = logging.getLogger("toolhall.audit")
MAX_ACCEPTANCES = 20  # the last ones are kept
BEHIND_MESSAGE = (
    "the audit does not match what the store knows of it, so calls of level 4 and up are refused; the operator of this"
    " hall should run 'toolhall audit verify', and then allow calls again with 'toolhall audit accept'"
)
_CHECKPOINT_MEMBER = b'"checkpoint":{'
_DROPPED_MEMBER = b'"dropped":{'


class AuditFinding(msgspec.Struct, frozen=True):
    """One fault of an audit: its kind, its position and a sentence about it."""

    what: FindingKind
    file: str
    line: int  # counted from 1; 0 means the whole file
    number: int  # the expected number of the line
    says: str

    def __str__(self) -> str:
        position = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{position}, number {self.number}: {self.what}: {self.says}"


class Acceptance(msgspec.Struct, frozen=True):
    """An operator's decision to accept an audit that is behind the store."""

    time: float
    by: str
    findings: tuple[str, ...]


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of the audit; an empty key means nothing yet."""

    public: str = ""  # PEM
    marks: dict[str, Checkpoint] = {}  # the newest checkpoint by log
    accepted: tuple[Acceptance, ...] = ()
    sound: bool = True  # False: another program changed or removed the row


class AnchorStore(Protocol):
    """Stores the anchor; its methods block, so they are called from threads, not from the event loop."""

    @property
    def durable(self) -> bool:
        """True if the anchor outlives the process."""
        ...

    def read(self) -> Anchor:
        """Return the anchor; blocks, and raises StoreFailed."""
        ...

    def advance(self, public: str, checkpoints: Collection[Checkpoint]) -> None:
        """Store newer checkpoints without blocking; a failure is logged and leaves the anchor as it was."""
        ...

    def accept(self, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance) -> None:
        """Replace the anchor and block until that is durable; raises StoreFailed."""
        ...


class MemoryAnchorStore:
    """In-memory implementation, for a hall without a database; its content ends with the process."""

    durable = False

    def __init__(self) -> None:
        self._anchor = Anchor()

    def read(self) -> Anchor:
        """Return the anchor."""
        return self._anchor

    def advance(self, public: str, checkpoints: Collection[Checkpoint]) -> None:
        """Store newer checkpoints."""
        self._anchor = with_checkpoints(self._anchor, public, checkpoints)

    def accept(self, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance) -> None:
        """Replace the anchor."""
        self._anchor = with_acceptance(self._anchor, public, checkpoints, acceptance)


def with_checkpoints(anchor: Anchor, public: str, checkpoints: Iterable[Checkpoint]) -> Anchor:
    """Return the anchor with newer checkpoints; those of another key change nothing."""
    if not anchor.sound or anchor.public not in ("", public):
        return anchor
    newest = dict(anchor.marks)
    for checkpoint in checkpoints:
        if checkpoint.log not in newest or newest[checkpoint.log].number < checkpoint.number:
            newest[checkpoint.log] = checkpoint
    return msgspec.structs.replace(anchor, public=public, marks=newest)


def with_acceptance(anchor: Anchor, public: str, checkpoints: Iterable[Checkpoint], acceptance: Acceptance) -> Anchor:
    """Return a new anchor that records who accepted the audit, and with which findings."""
    before = (*anchor.accepted, acceptance)[-MAX_ACCEPTANCES:]
    return Anchor(public=public, marks={checkpoint.log: checkpoint for checkpoint in checkpoints}, accepted=before)


class AnchorSync:
    """Compares the audit in a folder with the store at the start, and stores new checkpoints afterwards.

    While the audit is behind the store, nothing is stored: the old anchor is the evidence.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.behind: tuple[str, ...] = ()  # findings: what the store knows of the audit and the folder lacks
        self._folder = folder
        self._clock = clock
        self._store: AnchorStore | None = None
        self._writes = False
        self._lock = threading.Lock()  # the audit's thread and threads of the event loop use this
        self._public = ""
        self._pending: dict[str, Checkpoint] = {}  # checkpoints that are not stored yet
        self._stored_key = ""  # the key that the database has confirmed
        self._was_stored = False  # of an audit that is behind: its newest checkpoint says `stored`

    def open(self, store: AnchorStore, *, writes: bool) -> None:
        """Compare the audit with this store, and update the store from now on if `writes`; raises StoreFailed."""
        self._store, self._writes = store, writes
        self.compare()

    def compare(self) -> None:
        """Compare again, because another process may have accepted the audit; raises StoreFailed."""
        if self._store is None:
            return
        anchor = self._store.read()
        behind = tuple(str(finding) for finding in compare_with_anchor(self._folder, anchor))
        for finding in behind if behind != self.behind else ():
            _log.error("AUDIT BEHIND THE STORE: %s; %s", finding, BEHIND_MESSAGE)
        if self.behind and not behind:
            _log.warning("the audit matches the store again: calls of level 4 and up are allowed")
        self._was_stored = bool(behind) and was_stored(self._folder)
        self.behind = behind
        public = None if behind or not self._writes else public_key_of(self._folder / KEY_FILE)
        if public is not None:  # after a crash or a read-only hall, the store may be behind
            self.on_checkpoints(public, witnessed_checkpoints(self._folder, public))
            self.flush()

    def read(self) -> Anchor:
        """Return what the store knows of the audit; raises StoreFailed."""
        return Anchor() if self._store is None else self._store.read()

    def on_checkpoints(self, public: AuditPublicKey, checkpoints: Iterable[Checkpoint]) -> None:
        """Receive durable checkpoints; `flush` passes them to the store."""
        with self._lock:
            self._public = public.pem()
            self._pending.update({checkpoint.log: checkpoint for checkpoint in checkpoints})

    def is_stored(self, public: AuditPublicKey) -> bool:
        """True if the database durably knows this key; it is stored and read back before a checkpoint says so."""
        store, pem = self._store, public.pem()
        if self.behind:  # nothing is stored, and checkpoints go on saying what they said before
            return self._was_stored
        if store is None or not self._writes or not store.durable:
            return False
        if self._stored_key != pem:
            try:
                store.advance(pem, ())
                self._stored_key = store.read().public
            except StoreFailed as failed:
                _log.error("the audit's key could not be stored: %s", failed)
        return self._stored_key == pem

    def flush(self) -> None:
        """Pass pending checkpoints to the store without blocking."""
        if self._store is None or not self._writes or self.behind:
            return
        with self._lock:
            public, newest, self._pending = self._public, self._pending, {}
        if newest:
            self._store.advance(public, tuple(newest.values()))

    def accept(self, by: str) -> tuple[str, ...]:
        """Accept the audit as it is and return its findings; raises StoreFailed."""
        self.compare()
        behind = self.behind
        if behind and self._store is not None:
            public = public_key_of(self._folder / KEY_FILE)
            if public is None:
                raise StoreFailed(f"there is no {KEY_FILE} to sign the audit with; the next record creates it")
            marks = witnessed_checkpoints(self._folder, public)
            self._store.accept(public.pem(), marks, Acceptance(self._clock(), by, behind))
            _log.warning("%s accepted the audit as it is: %s", by, "; ".join(behind))
            self.behind = ()
        return behind


def compare_with_anchor(folder: Path, anchor: Anchor) -> list[AuditFinding]:
    """Return what the store knows and the folder lacks; reads the ends of the logs only, which is fast."""
    if not anchor.sound:
        return [anchor_tampered()]
    for _ in range(2):
        try:
            return _compare_once(folder, anchor)
        except FileNotFoundError:  # an old segment was dropped concurrently
            continue
    return _compare_once(folder, anchor)


def was_stored(folder: Path) -> bool:
    """True if the newest checkpoint of a log or of the witness says that a database knew this audit.

    Signatures are not checked: `verify` does that, and a false claim gains an attacker nothing.
    """
    witness = folder / WITNESS_FILE
    seen = (
        next(filter(None, map(read_witness_line, iter_lines_backwards(witness))), None) if witness.is_file() else None
    )
    return (seen is not None and seen.stored) or any(map(_newest_says_stored, logs_of(folder)))


def anchor_tampered() -> AuditFinding:
    """Finding: another program changed the anchor's row."""
    says = "what the store knows of the audit was changed or removed by another program; restore a backup of it"
    return AuditFinding("changed", DATABASE_FILE, 0, 0, says)


def anchor_missing() -> AuditFinding:
    """Finding: the database that knew this audit is missing or was replaced."""
    says = "the store that knew this audit was removed or made anew, so it cannot tell whether the audit is whole"
    return AuditFinding("missing", DATABASE_FILE, 0, 0, f"{says}; restore a backup of it")


def key_mismatch(file: str) -> AuditFinding:
    """Finding: the folder's key is not the one that the store knows."""
    says = "the store knows another key: the audit was replaced, or its key was made anew"
    return AuditFinding("bad signature", f"{AUDIT_FOLDER}/{file}", 0, 0, says)


def log_missing(checkpoint: Checkpoint) -> AuditFinding:
    """Finding: a log that the store knows is missing."""
    says = f"the log {checkpoint.log} is gone, or its first line; the store saw it at number {checkpoint.number}"
    return AuditFinding("missing", f"{AUDIT_FOLDER}/", 0, checkpoint.number, says)


def witnessed_checkpoints(folder: Path, public: AuditPublicKey) -> list[Checkpoint]:
    """Return of each log the newest checkpoint that is in the witness, is signed and is in the log.

    A witnessed checkpoint is durable; a line of the log alone may not be yet.
    """
    logs, witness = _logs_by_id(folder), folder / WITNESS_FILE
    found: dict[str, Checkpoint] = {}
    if not witness.is_file():
        return []
    for raw in iter_lines_backwards(witness):
        if len(found) == len(logs):
            break
        checkpoint = read_witness_line(raw)
        if checkpoint is None or checkpoint.log in found or checkpoint.log not in logs:
            continue
        if public.verify("checkpoint", checkpoint) and _check_log(logs[checkpoint.log], checkpoint, public) is None:
            found[checkpoint.log] = checkpoint
    return list(found.values())


def _compare_once(folder: Path, anchor: Anchor) -> list[AuditFinding]:
    if not anchor.public:
        return [anchor_missing()] if was_stored(folder) else []
    public, current = parse_public_key(anchor.public), public_key_of(folder / KEY_FILE)
    if public is None:
        return [anchor_tampered()]
    findings = [] if current is not None and current.pem() == anchor.public else [key_mismatch(KEY_FILE)]
    logs = _logs_by_id(folder)
    for checkpoint in anchor.marks.values():
        fault = (
            _check_log(logs[checkpoint.log], checkpoint, public) if checkpoint.log in logs else log_missing(checkpoint)
        )
        findings += [] if fault is None else [fault]
    return findings


def _newest_says_stored(log: Path) -> bool:
    """True if the newest checkpoint of a log says `stored`; the newest segments are never dropped."""
    for segment in reversed(segments_of(log)):
        for raw in iter_lines_backwards(segment):
            line = read_line(raw) if _CHECKPOINT_MEMBER in raw else None
            if line is not None and line.checkpoint is not None:
                return line.checkpoint.stored
    return False


def _logs_by_id(folder: Path) -> dict[str, Path]:
    """Return the folders of logs by log id, from their first lines."""
    found: dict[str, Path] = {}
    for log in logs_of(folder):
        for segment in segments_of(log)[:1]:
            with segment.open("rb") as file:
                line = read_line(file.readline(MAX_LINE_BYTES))
            if line is not None and line.head is not None:
                found[line.head.log] = log
    return found


def _check_log(log: Path, checkpoint: Checkpoint, public: AuditPublicKey) -> AuditFinding | None:
    """Return what is wrong with a log that should contain this checkpoint; None if it does."""
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
            "its first lines are gone, and no signed note says why",
        )
    segment = holding[-1]
    file = f"{AUDIT_FOLDER}/{log.name}/{segment.name}"
    for raw in iter_lines_backwards(segment):
        line = read_line(raw)
        if line is None or line.number > checkpoint.number:
            continue
        if line.number < checkpoint.number:
            break
        if HashChain(checkpoint.number, checkpoint.before.encode()).accept(raw):
            return None
        return AuditFinding(
            "rollback", file, 0, checkpoint.number, "the store saw another line here: the log was rewritten"
        )
    says = (
        f"the store saw checkpoint {checkpoint.number}, which is gone: the log's end was cut off, or an older copy was"
        " restored"
    )
    return AuditFinding("rollback", file, 0, checkpoint.number, says)


def _is_signed_drop(segment: Path, checkpoint: Checkpoint, public: AuditPublicKey) -> bool:
    """True if a signed note says that the log was dropped on purpose beyond this checkpoint."""
    with segment.open("rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            line = read_line(raw) if _DROPPED_MEMBER in raw else None
            dropped = None if line is None else line.dropped
            if dropped is not None and dropped.log == checkpoint.log and dropped.number > checkpoint.number:
                return public.verify("dropped", dropped)
    return False
