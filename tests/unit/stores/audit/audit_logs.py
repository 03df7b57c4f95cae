"""Logs for tests, made by the real writer: small segments, frequent checkpoints, a clock that a test moves."""

from collections.abc import Callable
from pathlib import Path

from tests.unit.builders import Clock
from toolhall.cli.commands.audit import read_anchor
from toolhall.model.call_records import AuditRecord
from toolhall.stores.audit.anchors import AuditFinding
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER, AuditLine, logs_of, read_line, segments_of
from toolhall.stores.audit.verify import ExternalEvidence, VerificationReport, verify_audit
from toolhall.stores.audit.writer import AuditWriter, CheckpointListener, Retention

DAY = 86_400.0
NOON = 20_000 * DAY + DAY / 2
SMALL = Retention(sign_records=7, segment_bytes=4_000)


def record(number: int = 1, **said: object) -> AuditRecord:
    facts: dict[str, object] = {"caller": "ada", "dialect": "mcp", "tool": "Kit.pick@1.0.0", "outcome": "ok", **said}
    return AuditRecord(time=NOON + number, call=f"call-{number}", **facts)  # type: ignore[arg-type]


def open_writer(
    folder: Path,
    keeping: Retention = SMALL,
    *,
    clock: Callable[[], float] | None = None,
    disk: Disk | None = None,
    listener: CheckpointListener | None = None,
) -> AuditWriter:
    return AuditWriter(folder, disk or Disk(), clock or Clock(NOON), keeping, listener)


def write_records(folder: Path, records: int, keeping: Retention = SMALL, start: int = 0) -> None:
    """Write records one by one, and close."""
    made = open_writer(folder, keeping)
    for number in range(start, start + records):
        made.write([record(number)])
    made.close()


def lines(folder: Path) -> list[AuditLine]:
    """Every line of every log, which must all be readable."""
    found = [
        read_line(raw)
        for log in logs_of(folder)
        for segment in segments_of(log)
        for raw in segment.read_bytes().splitlines()
    ]
    return [line for line in found if line is not None]


def calls(folder: Path) -> list[str]:
    """The calls in the records, in order."""
    return [line.record.call for line in lines(folder) if line.record is not None]


def verified(folder: Path, *, key: Path | None = None, witness: Path | None = None) -> VerificationReport:
    return verify_audit(folder, ExternalEvidence(key, witness), lambda _: None)


def verified_with_store(data: Path) -> VerificationReport:
    """The audit of a whole data folder, compared with what its store knows, as `toolhall audit verify` does."""
    return verify_audit(data / AUDIT_FOLDER, ExternalEvidence(anchor=read_anchor(data)), lambda _: None)


def finding(folder: Path, *, key: Path | None = None, witness: Path | None = None) -> AuditFinding:
    """The only thing that is wrong."""
    (found,) = verified(folder, key=key, witness=witness).findings
    return found
