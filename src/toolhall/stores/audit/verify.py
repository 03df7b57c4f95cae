"""Verifies an audit: verify_audit checks every log against its public key, its witness and the store's anchor.

LogVerifier follows one log from its first line to its last and stops at the first line that is not as it was written.
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
from toolhall.stores.audit.format import (
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


class UnfinishedCall(msgspec.Struct, frozen=True):
    """A call or change whose intent is recorded, and whose end is not."""

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
    """What was looked at, what is wrong with it, and what is worth knowing though nothing is wrong."""

    logs: int = 0
    records: int = 0
    checkpoints: int = 0
    outside: bool = False  # judged by a witness that was kept elsewhere
    anchored: bool = False  # compared with what the store knows
    unfinished: list[UnfinishedCall] = []  # nothing is wrong with these records; how the calls ended is not known
    findings: list[AuditFinding] = []
    notes: list[str] = []

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


_NUMBER_PATTERN = re.compile(rb'\{"sha256":"[^"]*","number":(\d{1,18}),')


def classify_line(segment: Path, raw: bytes, chain: HashChain) -> tuple[FindingKind, str]:
    """What is wrong with the line that should be the chain's next one."""
    expected, stated = chain.number, _number_in(raw)
    if not raw.endswith(b"\n"):
        return "cut off", "the line has no end, and is not the last"
    if stated is None or stated == expected or chain.accepts_renumbered(raw[:-1]):
        return "changed", "the line, or its hash, is not what was written"
    if stated < expected:
        return "moved", f"number {stated} stands here once more"
    if contains_number(segment, expected):
        return "moved", f"number {stated} stands here, and number {expected} elsewhere"
    return "missing", f"number {stated} follows on {expected - 1}"


def classify_segment(segment: Path, raw: bytes, chain: HashChain) -> tuple[FindingKind, str]:
    """What is wrong with a segment, whose first line this is, that should be the chain's next one."""
    if HashChain(chain.number, chain.last_hash).accept(raw[:-1]):
        return "moved", "the file has another name than it had"
    return classify_line(segment, raw, chain)


def contains_number(segment: Path, number: int) -> bool:
    """Whether a line of a segment says that it has this number."""
    with segment.open("rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            if _number_in(raw) == number:
                return True
    return False


def _number_in(raw: bytes) -> int | None:
    found = _NUMBER_PATTERN.match(raw)
    return None if found is None else int(found[1])


_NO_CHECKPOINTS: Mapping[str, Checkpoint] = {}


class VerificationFailed(Exception):
    """The first thing that is wrong with a log."""

    def __init__(self, finding: AuditFinding) -> None:
        self.finding = finding
        super().__init__(str(finding))


class LogVerifier:
    """One log, on the way through it."""

    def __init__(
        self,
        report: VerificationReport,
        key: AuditPublicKey,
        witness: Witness,
        anchored: Mapping[str, Checkpoint] = _NO_CHECKPOINTS,
    ) -> None:
        self.report = report
        self.log = ""  # its id, once that is known
        self.checkpoints: list[int] = []  # the numbers of those in it
        self.stored = False  # whether one says that the store knew of the audit
        self._key = key
        self._witness = witness
        self._anchored = anchored  # by log: the checkpoint that the store knows
        self._anchor: Checkpoint | None = None  # that of this log
        self._open_intents: dict[str, UnfinishedCall] = {}  # by call: intents whose outcome has not come yet
        self._folder = ""
        self._witnessed: Mapping[int, Checkpoint] = {}  # what the witness saw of it
        self._chain = HashChain()
        self._signed = 0  # the number behind the last checkpoint
        self._dropped: Checkpoint | None = None
        self._file, self._line = "", 0

    def verify(self, folder: Path, step: Callable[[int], None]) -> None:
        """Raises Wrong."""
        segments = segments_of(folder)
        self._folder = folder.name
        oldest, newest = segments[0], segments[-1]
        self._file, self._line = f"{folder.name}/{oldest.name}", 1
        if oldest == newest and not _first_line(oldest).endswith(b"\n"):
            self._note("has no end: the log is being begun, or a crash cut it off")
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
        """The first line of a segment says of which log it is, and that of the oldest where its chain begins."""
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
        """What is in a line that fits."""
        if line.number in self._witnessed and self._witnessed[line.number].before != before:
            self._fail_by_witness(
                self._witnessed[line.number], "the witness saw another line here: an older copy was gone on with"
            )
        if self._anchor is not None and line.number == self._anchor.number and self._anchor.before != before:
            self._fail("rollback", "the store saw another line here: the log was made anew", back=1)
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
            self._note(f"{line.lost.records} records could not be written while the disk took none")

    def _track_intent(self, number: int, record: AuditRecord) -> None:
        """An intent is answered by the next record of its call."""
        if record.phase is None:
            self._open_intents.pop(record.call, None)
        else:
            self._open_intents[record.call] = UnfinishedCall(
                self._folder, number, record.time, record.call, record.caller, record.tool
            )

    def _check_signature(self, purpose: SignaturePurpose, checkpoint: Checkpoint, place: tuple[int, str]) -> None:
        fitting = (checkpoint.log, checkpoint.number, checkpoint.before) == (self.log, *place)
        if not fitting or not self._key.verify(purpose, checkpoint):
            self._fail("bad signature", f"this {purpose} was not signed here with this key", back=1)

    def _check_start(self, first: Checkpoint, oldest: Path) -> None:
        """What is not there any more was dropped, and somebody who had the key said so."""
        if first.number == 0:
            return
        dropped = self._dropped
        self._file, self._line = f"{oldest.parent.name}/{oldest.name}", 1
        if dropped is None or first.number > dropped.number:
            self._fail("missing", f"the log begins with number {first.number}, and nothing says why", number=0)
        if first.number == dropped.number and first.before != dropped.before:
            self._fail("changed", "the log was dropped up to here, but with another end", number=first.number)
        self.report.notes.append(f"{oldest.parent.name}: dropped on purpose up to number {first.number - 1}")

    def _check_end(self) -> None:
        end = self._chain.number
        beyond = max((number for number in self._witnessed if number >= end), default=None)
        if beyond is not None:
            self._fail_by_witness(
                self._witnessed[beyond],
                f"the log ends with number {end - 1}, but checkpoint {beyond} was signed: an older copy was put back,"
                " or its end was cut off",
            )
        if self._anchor is not None and self._anchor.number >= end:
            self._fail(
                "rollback",
                f"the log ends with number {end - 1}, but the store saw checkpoint {self._anchor.number}: an older copy"
                " was put back, or its end was cut off, together with the witness",
                number=end,
            )
        if end > self._signed:
            self.report.notes.append(
                f"{self._file}: {end - self._signed} lines are not signed yet, from number {self._signed} on;"
                " whether more followed cannot be told from a crash"
            )

    def _fail_by_witness(self, checkpoint: Checkpoint, says: str) -> NoReturn:
        """The witness says otherwise; so it had better be one."""
        if not self._key.verify("checkpoint", checkpoint):
            self._file, self._line = WITNESS_FILE, 0
            self._fail("bad signature", "this checkpoint was not signed with this key", number=checkpoint.number)
        self._fail("rollback", says, number=min(checkpoint.number, self._chain.number))

    def _fail(self, what: FindingKind, says: str, number: int | None = None, back: int = 0) -> NoReturn:
        """By default it is the next line of the chain; one that has been followed is `back` again."""
        place = self._chain.number - back if number is None else number
        raise VerificationFailed(AuditFinding(what, self._file, self._line, place, says))

    def _note(self, says: str) -> None:
        self.report.notes.append(f"{self._file}, line {self._line}: {says}")


def _first_line(segment: Path) -> bytes:
    with segment.open("rb") as file:
        return file.readline(MAX_LINE_BYTES)


_NO_ANCHOR = Anchor()


class ExternalEvidence(msgspec.Struct, frozen=True):
    """What an audit is compared with that is not beside it: copies of two of its files, and what the store knows."""

    key: Path | None = None
    witness: Path | None = None
    anchor: Anchor = _NO_ANCHOR  # read before the logs are, because a hall may go on
    moved: bool = False  # the folder is no hall's, so there need not be a store


def verify_audit(folder: Path, evidence: ExternalEvidence, step: Callable[[int], None]) -> VerificationReport:
    """Read every line once; raises BadKey, and OSError for a file that cannot be read. `step` hears of bytes."""
    key, witness, anchor = evidence.key, evidence.witness, evidence.anchor
    report = VerificationReport(outside=witness is not None, anchored=bool(anchor.public) and anchor.sound)
    for each in anchor.accepted:
        report.notes.append(
            f"{DATABASE_FILE}: {each.by} accepted the audit as it was, though {'; '.join(each.findings)}"
        )
    if not anchor.sound:
        report.findings.append(anchor_tampered())
    seen = _read_witness(
        folder, witness, report
    )  # before the logs: a witness knows nothing that they do not hold by then
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
    there = {each.log for each in checked}
    report.findings += [log_missing(mark) for mark in anchor.marks.values() if mark.log not in there]
    for lost in sorted(seen.seen.keys() - there - anchor.marks.keys()):
        report.findings.append(_witnessed_log_missing(seen, lost, public))
    if witness is not None or report.findings:
        return report  # a copy need not have seen everything
    if (folder / WITNESS_FILE).exists():
        _report_missing_witness_lines(
            report, checked, read_witness(folder / WITNESS_FILE)
        )  # again: a hall may have gone on
    else:
        _report_missing_witness(report)
    return report


def _verify_log(log: Path, verifier: LogVerifier, step: Callable[[int], None]) -> LogVerifier:
    """A log that was followed; what is wrong with it is in the report."""
    verifier.report.logs += 1
    try:
        verifier.verify(log, step)
    except VerificationFailed as wrong:
        verifier.report.findings.append(wrong.finding)
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
    """The key is made with the first log; where there is one, there was the other."""
    if founded:
        says = "there is a key, so there was a log, and no log is here: all of them were removed"
        report.findings.append(AuditFinding("missing", f"{AUDIT_FOLDER}/", 0, 0, says))
    else:
        report.notes.append("nothing is recorded yet")


def _report_missing_witness_lines(report: VerificationReport, verifiers: list[LogVerifier], seen: Witness) -> None:
    """The witness hears of each checkpoint before the next is signed; only the newest may be on its way."""
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
    """What was signed was seen: a witness of it that is gone was removed. Before that, there need not be any."""
    if report.checkpoints:
        says = (
            f"{report.checkpoints} checkpoints were signed, and the file that saw them is gone: whether logs were cut"
            " off or put back cannot be told; give a copy of it with --checkpoints"
        )
        report.findings.append(AuditFinding("missing", WITNESS_FILE, 0, 0, says))
    else:
        report.notes.append(f"there is no {WITNESS_FILE}: an older copy of a log cannot be told from the newest")


def _report_missing_anchor(report: VerificationReport, *, moved: bool) -> None:
    """A checkpoint says that the store knew of it."""
    if moved:
        report.notes.append(f"there is no {DATABASE_FILE} and no {ROOT_KEY_FILE} here, as where an audit was moved to")
    else:
        report.findings.append(anchor_missing())


def _witnessed_log_missing(seen: Witness, log: str, public: AuditPublicKey) -> AuditFinding:
    last = max(seen.seen[log].values(), key=lambda mark: mark.number)
    if not public.verify("checkpoint", last):
        return AuditFinding(
            "bad signature", WITNESS_FILE, 0, last.number, "this checkpoint was not signed with this key"
        )
    says = f"the log {log} is gone, or its first line; the witness saw it at number {last.number}"
    return AuditFinding("missing", WITNESS_FILE, 0, last.number, says)
