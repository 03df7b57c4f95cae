"""Verifies an audit: verify_audit checks every log against its public key, its witness and the store's anchor.

Theory of operation (see format for the four layers). LogVerifier reads one log from its first line to its last: each
line must continue the hash chain, each checkpoint must be signed for its position, and each witnessed or anchored
checkpoint must be where it was. It stops at the first fault and classifies it. Then verify_audit compares across logs:
logs that witness or anchor know and that are missing, checkpoints that the witness lacks, a database that is missing.

Witness and anchor are read before the logs, because a running hall appends meanwhile: they never know more than the
logs have by then. Notes are facts that are no fault, such as an unfinished last line of a running hall.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import msgspec

from toolhall.model.call_records import AuditRecord
from toolhall.stores.audit.anchors import (
    Anchor,
    AuditFinding,
    FindingKind,
    anchor_missing,
    anchor_tampered,
    key_mismatch,
    log_missing,
)
from toolhall.stores.audit.hash_chain import (
    AUDIT_FOLDER,
    GENESIS_HASH,
    KEY_FILE,
    MAX_LINE_BYTES,
    PUBLIC_FILE,
    WITNESS_FILE,
    AuditLine,
    AuditPublicKey,
    Checkpoint,
    HashChain,
    SignaturePurpose,
    Witness,
    first_number,
    logs_of,
    read_line,
    read_public_key,
    read_witness,
    segments_of,
)
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.crypto import ROOT_KEY_FILE

_NUMBER_PATTERN = re.compile(rb'\{"sha256":"[^"]*","number":(\d{1,18}),')
_NO_CHECKPOINTS: Mapping[str, Checkpoint] = {}
_NO_ANCHOR = Anchor()


class UnfinishedCall(msgspec.Struct, frozen=True):
    """A call or change whose intent is recorded but whose outcome is not."""

    log: str  # the name of its folder
    number: int
    time: float
    call: str
    caller: str
    tool: str

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"log {self.log}, number {self.number}: {self.tool}, called by {self.caller} at {at} ({self.call})"


class VerificationReport(msgspec.Struct, kw_only=True):
    """The result of a verification: counts, findings, unfinished calls, and notes that are no findings."""

    logs: int = 0
    records: int = 0
    checkpoints: int = 0
    outside: bool = False  # compared with a copy of the witness from elsewhere
    anchored: bool = False  # compared with the store's anchor
    unfinished: list[UnfinishedCall] = []  # the records are valid, but how the calls ended is unknown
    findings: list[AuditFinding] = []
    notes: list[str] = []

    @property
    def good(self) -> bool:
        """True if there are no findings."""
        return not self.findings


def classify_line(segment: Path, raw: bytes, chain: HashChain) -> tuple[FindingKind, str]:
    """Return what is wrong with a line that is not the chain's next one."""
    expected, stated = chain.number, _number_in(raw)
    if not raw.endswith(b"\n"):
        return "cut off", "the line has no end, and is not the last"
    if stated is None or stated == expected or chain.accepts_renumbered(raw[:-1]):
        return "changed", "the line, or its hash, is not what was written"
    if stated < expected:
        return "moved", f"number {stated} is here a second time"
    if contains_number(segment, expected):
        return "moved", f"number {stated} is here, and number {expected} is elsewhere"
    return "missing", f"number {stated} follows on {expected - 1}"


def classify_segment(segment: Path, raw: bytes, chain: HashChain) -> tuple[FindingKind, str]:
    """Return what is wrong with a segment, with this first line, that does not continue the chain."""
    if HashChain(chain.number, chain.last_hash).accept(raw[:-1]):
        return "moved", "the file was renamed"
    return classify_line(segment, raw, chain)


def contains_number(segment: Path, number: int) -> bool:
    """True if a line of the segment states this number."""
    with segment.open("rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            if _number_in(raw) == number:
                return True
    return False


def _number_in(raw: bytes) -> int | None:
    found = _NUMBER_PATTERN.match(raw)
    return None if found is None else int(found[1])


class VerificationFailed(Exception):
    """Ends the verification of a log at its first fault."""

    def __init__(self, finding: AuditFinding) -> None:
        self.finding = finding
        super().__init__(str(finding))


class LogVerifier:
    """Verifies one log; its attributes describe the position reached so far."""

    def __init__(
        self,
        report: VerificationReport,
        key: AuditPublicKey,
        witness: Witness,
        anchored: Mapping[str, Checkpoint] = _NO_CHECKPOINTS,
    ) -> None:
        self.report = report
        self.log = ""  # the log's id, once known
        self.checkpoints: list[int] = []  # the numbers of its checkpoints
        self.stored = False  # a checkpoint says that the store knew of the audit
        self._key = key
        self._witness = witness
        self._anchored = anchored  # the checkpoint that the store knows, by log
        self._anchor: Checkpoint | None = None  # the one of this log
        self._open_intents: dict[str, UnfinishedCall] = {}  # intents without an outcome so far, by call
        self._folder = ""
        self._witnessed: Mapping[int, Checkpoint] = {}  # witnessed checkpoints of this log
        self._chain = HashChain()
        self._signed = 0  # the number after the last checkpoint
        self._dropped: Checkpoint | None = None
        self._file, self._line = "", 0

    def verify(self, folder: Path, step: Callable[[int], None]) -> None:
        """Read the log from its first line to its last; raises VerificationFailed."""
        segments = segments_of(folder)
        self._folder = folder.name
        oldest, newest = segments[0], segments[-1]
        self._file, self._line = f"{folder.name}/{oldest.name}", 1
        if oldest == newest and not _first_line(oldest).endswith(b"\n"):
            self._note("has no end: it is being written, or a crash cut it off")
            return
        start = self._start(oldest)
        for segment in segments:
            self._file, self._line = f"{folder.name}/{segment.name}", 1
            if self._chain.number != first_number(segment.name):
                self._fail(*classify_segment(segment, _first_line(segment), self._chain))
            self._read(segment, step, newest=segment == newest)
        self._check_end()
        self._check_start(start, oldest)
        self.report.unfinished += self._open_intents.values()

    def _start(self, oldest: Path) -> Checkpoint:
        """Start the chain from the header of the oldest segment, and return that position."""
        number, raw = first_number(oldest.name), _first_line(oldest)
        line = read_line(raw)
        if line is None:
            self._fail("changed", "the first line, which says of which log it is, is not what was written", number)
        if line.head is None:
            says = "the first line, which says of which log it is"
            if line.number == number:
                self._fail("changed", f"{says}, is not what was written", number)
            self._fail("moved" if contains_number(oldest, number) else "missing", says, number)
        self.log = line.head.log
        self._witnessed = self._witness.seen.get(self.log, {})
        self._anchor = self._anchored.get(self.log)
        self._chain = HashChain(number, GENESIS_HASH if number == 0 else line.head.before.encode())
        return Checkpoint(self.log, number, line.head.before, line.head.time)

    def _read(self, segment: Path, step: Callable[[int], None], *, newest: bool) -> None:
        chain = self._chain
        with segment.open("rb") as file:
            for count, raw in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                step(len(raw))
                self._line, before = count, chain.last_hash
                if newest and not raw.endswith(b"\n") and len(raw) < MAX_LINE_BYTES:
                    self._note("has no end: it is being written, or a crash cut it off")
                    break
                if not chain.accept(raw[:-1]):
                    self._fail(*classify_line(segment, raw, chain))
                line = read_line(raw)
                if line is None:
                    self._fail("changed", "no line of an audit", back=1)
                self._check(line, before.decode())

    def _check(self, line: AuditLine, before: str) -> None:
        """Check the content of a line that continues the chain."""
        if line.number in self._witnessed and self._witnessed[line.number].before != before:
            self._fail_by_witness(
                self._witnessed[line.number],
                "the witness saw another line here: an older copy was restored and continued",
            )
        if self._anchor is not None and line.number == self._anchor.number and self._anchor.before != before:
            self._fail("rollback", "the store saw another line here: the log was rewritten", back=1)
        if line.record is not None:
            self.report.records += 1
            self._track_intent(line.number, line.record)
        elif line.checkpoint is not None:
            self._check_signature("checkpoint", line.checkpoint, (line.number, before))
            self.report.checkpoints += 1
            self.checkpoints.append(line.number)
            self.stored |= line.checkpoint.stored
            self._signed = line.number + 1
        elif line.dropped is not None:
            self._check_signature("dropped", line.dropped, (line.dropped.number, line.dropped.before))
            self._dropped = line.dropped
        elif line.torn is not None:
            self._note(f"a crash left {line.torn.bytes} bytes, set aside in {line.torn.file}")
        elif line.lost is not None:
            self._note(f"{line.lost.records} records could not be written while the disk accepted none")

    def _track_intent(self, number: int, record: AuditRecord) -> None:
        """Remember an intent until the next record of its call."""
        if record.phase is None:
            self._open_intents.pop(record.call, None)
        else:
            self._open_intents[record.call] = UnfinishedCall(
                self._folder, number, record.time, record.call, record.caller, record.tool
            )

    def _check_signature(self, purpose: SignaturePurpose, checkpoint: Checkpoint, position: tuple[int, str]) -> None:
        fitting = (checkpoint.log, checkpoint.number, checkpoint.before) == (self.log, *position)
        if not fitting or not self._key.verify(purpose, checkpoint):
            self._fail("bad signature", f"this {purpose} was not signed here with this key", back=1)

    def _check_start(self, first: Checkpoint, oldest: Path) -> None:
        """Check that a signed note explains missing first segments."""
        if first.number == 0:
            return
        dropped = self._dropped
        self._file, self._line = f"{oldest.parent.name}/{oldest.name}", 1
        if dropped is None or first.number > dropped.number:
            self._fail("missing", f"the log begins with number {first.number}, and no signed note says why", number=0)
        if first.number == dropped.number and first.before != dropped.before:
            self._fail("changed", "the log was dropped up to here, but with another end", number=first.number)
        self.report.notes.append(f"{oldest.parent.name}: dropped on purpose up to number {first.number - 1}")

    def _check_end(self) -> None:
        end = self._chain.number
        beyond = max((number for number in self._witnessed if number >= end), default=None)
        if beyond is not None:
            self._fail_by_witness(
                self._witnessed[beyond],
                f"the log ends with number {end - 1}, but checkpoint {beyond} was signed: an older copy was restored,"
                " or its end was cut off",
            )
        if self._anchor is not None and self._anchor.number >= end:
            self._fail(
                "rollback",
                f"the log ends with number {end - 1}, but the store saw checkpoint {self._anchor.number}: an older copy"
                " was restored, or its end was cut off, together with the witness",
                number=end,
            )
        if end > self._signed:
            self.report.notes.append(
                f"{self._file}: {end - self._signed} lines are not signed yet, from number {self._signed} on;"
                " whether more followed cannot be told from a crash"
            )

    def _fail_by_witness(self, checkpoint: Checkpoint, says: str) -> NoReturn:
        """Fail with a rollback if the witness's checkpoint is signed, else with a bad signature of the witness."""
        if not self._key.verify("checkpoint", checkpoint):
            self._file, self._line = WITNESS_FILE, 0
            self._fail("bad signature", "this checkpoint was not signed with this key", number=checkpoint.number)
        self._fail("rollback", says, number=min(checkpoint.number, self._chain.number))

    def _fail(self, what: FindingKind, says: str, number: int | None = None, back: int = 0) -> NoReturn:
        """Raise a finding at the chain's next line, `back` lines before it, or at `number`."""
        position = self._chain.number - back if number is None else number
        raise VerificationFailed(AuditFinding(what, self._file, self._line, position, says))

    def _note(self, says: str) -> None:
        self.report.notes.append(f"{self._file}, line {self._line}: {says}")


def _first_line(segment: Path) -> bytes:
    with segment.open("rb") as file:
        return file.readline(MAX_LINE_BYTES)


class ExternalEvidence(msgspec.Struct, frozen=True):
    """Evidence from outside the audit's folder: copies of its public key and witness, and the store's anchor."""

    key: Path | None = None
    witness: Path | None = None
    anchor: Anchor = _NO_ANCHOR  # read before the logs, because a running hall appends
    moved: bool = False  # the folder is no data folder, so there need not be a store


def verify_audit(folder: Path, evidence: ExternalEvidence, step: Callable[[int], None]) -> VerificationReport:
    """Verify all logs of a folder; raises BadKey, or OSError for an unreadable file. `step` receives the bytes read."""
    key, witness, anchor = evidence.key, evidence.witness, evidence.anchor
    report = VerificationReport(outside=witness is not None, anchored=bool(anchor.public) and anchor.sound)
    for each in anchor.accepted:
        report.notes.append(
            f"{DATABASE_FILE}: {each.by} accepted the audit as it was, although {'; '.join(each.findings)}"
        )
    if not anchor.sound:
        report.findings.append(anchor_tampered())
    seen = _read_witness(folder, witness, report)  # before the logs, which then have all that it knows
    logs = [log for log in logs_of(folder) if segments_of(log)]
    if not logs and anchor.marks:
        report.findings += map(log_missing, anchor.marks.values())
        return report
    if not logs and not seen.seen:
        _report_missing_logs(
            report, founded=key is not None or any((folder / name).exists() for name in (KEY_FILE, PUBLIC_FILE))
        )
        return report
    public = read_public_key(key or folder / PUBLIC_FILE)
    if anchor.public not in ("", public.pem()):
        report.findings.append(key_mismatch(PUBLIC_FILE))
    checked = [_verify_log(log, LogVerifier(report, public, seen, anchor.marks), step) for log in logs]
    if anchor.sound and not anchor.public and any(each.stored for each in checked):
        _report_missing_anchor(report, moved=evidence.moved)
    present = {each.log for each in checked}
    report.findings += [
        log_missing(checkpoint) for checkpoint in anchor.marks.values() if checkpoint.log not in present
    ]
    for lost in sorted(seen.seen.keys() - present - anchor.marks.keys()):
        report.findings.append(_witnessed_log_missing(seen, lost, public))
    if witness is not None or report.findings:
        return report  # a copy of the witness may be older
    if (folder / WITNESS_FILE).exists():
        # Read again: a running hall may have appended to it.
        _report_missing_witness_lines(report, checked, read_witness(folder / WITNESS_FILE))
    else:
        _report_missing_witness(report)
    return report


def _verify_log(log: Path, verifier: LogVerifier, step: Callable[[int], None]) -> LogVerifier:
    """Verify one log and add its finding to the report."""
    verifier.report.logs += 1
    try:
        verifier.verify(log, step)
    except VerificationFailed as failed:
        verifier.report.findings.append(failed.finding)
    return verifier


def _read_witness(folder: Path, witness: Path | None, report: VerificationReport) -> Witness:
    path = witness or folder / WITNESS_FILE
    if witness is None and not path.exists():
        return Witness({})
    seen = read_witness(path)
    if seen.unreadable:
        report.notes.append(f"{path.name}: lines that cannot be read, as after a crash: {seen.unreadable}")
    return seen


def _report_missing_logs(report: VerificationReport, *, founded: bool) -> None:
    """Report missing logs: the key is created with the first log, so a key without a log is a finding."""
    if founded:
        says = "there is a key, so there was a log, and no log is here: all of them were removed"
        report.findings.append(AuditFinding("missing", f"{AUDIT_FOLDER}/", 0, 0, says))
    else:
        report.notes.append("nothing is recorded yet")


def _report_missing_witness_lines(report: VerificationReport, verifiers: list[LogVerifier], seen: Witness) -> None:
    """Report checkpoints that the witness lacks; only the newest may not have reached it yet."""
    for log in verifiers:
        unseen = [number for number in log.checkpoints[:-1] if number not in seen.seen.get(log.log, {})]
        if unseen:
            says = (
                f"{len(unseen)} checkpoints of the log {log.log} were signed, and are not in the file that saw them,"
                f" from number {unseen[0]} on: its lines were removed, so whether logs were cut off cannot be told;"
                " give a copy of it with --checkpoints"
            )
            report.findings.append(AuditFinding("missing", WITNESS_FILE, 0, unseen[0], says))


def _report_missing_witness(report: VerificationReport) -> None:
    """Report a missing witness, which is a finding once a checkpoint was signed."""
    if report.checkpoints:
        says = (
            f"{report.checkpoints} checkpoints were signed, and the file that saw them is gone: whether logs were cut"
            " off or rolled back cannot be told; give a copy of it with --checkpoints"
        )
        report.findings.append(AuditFinding("missing", WITNESS_FILE, 0, 0, says))
    else:
        report.notes.append(
            f"there is no {WITNESS_FILE}: an older copy of a log cannot be distinguished from the newest"
        )


def _report_missing_anchor(report: VerificationReport, *, moved: bool) -> None:
    """Report that a checkpoint says `stored` but the store knows nothing."""
    if moved:
        report.notes.append(
            f"there is no {DATABASE_FILE} and no {ROOT_KEY_FILE} here, as in a folder that an audit was moved to"
        )
    else:
        report.findings.append(anchor_missing())


def _witnessed_log_missing(seen: Witness, log: str, public: AuditPublicKey) -> AuditFinding:
    last = max(seen.seen[log].values(), key=lambda checkpoint: checkpoint.number)
    if not public.verify("checkpoint", last):
        return AuditFinding(
            "bad signature", WITNESS_FILE, 0, last.number, "this checkpoint was not signed with this key"
        )
    says = f"the log {log} is gone, or its first line; the witness saw it at number {last.number}"
    return AuditFinding("missing", WITNESS_FILE, 0, last.number, says)
