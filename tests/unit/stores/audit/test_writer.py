"""A log goes on after a crash, begins segments, and drops old ones with a signed word about it."""

import logging
import shutil
import time
from pathlib import Path

import pytest

from tests.unit.builders import Clock
from tests.unit.stores.audit.audit_logs import (
    DAY,
    NOON,
    SMALL,
    calls,
    finding,
    lines,
    open_writer,
    record,
    verified,
    write_records,
)
from toolhall.stores.audit import writer
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.hash_chain import GENESIS_HASH, WITNESS_FILE, AuditSigner, logs_of, segments_of
from toolhall.stores.audit.writer import AuditWriter, Retention

LARGE = Retention()


def only_segment(folder: Path) -> Path:
    (segment,) = segments_of(folder / "1")
    return segment


def test_audit_log_begins_with_a_unique_head_line(tmp_path: Path) -> None:
    write_records(tmp_path / "a", 1)
    write_records(tmp_path / "b", 1)
    (one, *_), (other, *_) = lines(tmp_path / "a"), lines(tmp_path / "b")
    assert one.head is not None
    assert other.head is not None
    assert (one.number, one.head.before) == (0, GENESIS_HASH.decode())
    assert one.head.log != other.head.log


def test_audit_writer_continues_the_same_log_after_a_restart(tmp_path: Path) -> None:
    for start in range(3):
        write_records(tmp_path, 2, start=2 * start)
    assert calls(tmp_path) == [f"call-{number}" for number in range(6)]
    assert [line.number for line in lines(tmp_path)] == list(range(len(lines(tmp_path))))
    assert verified(tmp_path).good


@pytest.mark.parametrize("sync", [False, True])
def test_audit_writer_rests_between_slices_unless_somebody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    made = open_writer(tmp_path, LARGE)
    made.write([record(number) for number in range(10 * writer.SLICE)], sync=sync)
    made.close()
    # Nine between ten slices that are made, and nine between ten that are encoded.
    assert rests == [writer.REST_SECONDS] * (0 if sync else 18)
    assert calls(tmp_path) == [f"call-{number}" for number in range(10 * writer.SLICE)]


def test_audit_writers_of_concurrent_processes_use_separate_logs(tmp_path: Path) -> None:
    several = [open_writer(tmp_path) for _ in range(3)]
    for number, made in enumerate(several):
        made.write([record(number)], sync=True)
    assert [log.name for log in logs_of(tmp_path)] == ["1", "2", "3"]
    assert verified(tmp_path).records == 3
    several[1].close()
    write_records(tmp_path, 1, start=3)
    for made in (several[0], several[2]):
        made.close()
    assert len(logs_of(tmp_path)) == 3, "a log that is free is taken again"
    report = verified(tmp_path)
    assert (report.good, report.logs, report.records) == (True, 3, 4)


@pytest.mark.parametrize("left", [b"x", b'{"sha256":"00', b"\x00" * 700, b"half\nand more\n"], ids=repr)
def test_audit_writer_moves_a_torn_tail_to_a_torn_file_and_notes_it(
    tmp_path: Path, left: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    write_records(tmp_path, 3)
    segment = only_segment(tmp_path)
    with segment.open("ab") as file:
        file.write(left)
    with caplog.at_level(logging.WARNING):
        write_records(tmp_path, 2, start=3)
    assert f"{len(left)} bytes behind the last whole line" in caplog.text
    (torn,) = segment.parent.glob("*.torn")
    assert torn.read_bytes() == left
    assert torn.stat().st_mode & 0o777 == 0o600
    assert calls(tmp_path) == [f"call-{number}" for number in range(5)]
    report = verified(tmp_path)
    assert report.good
    assert any(torn.name in said for said in report.notes), "the log itself tells of it"


def test_audit_writer_sets_a_segment_without_a_complete_line_aside(tmp_path: Path) -> None:
    write_records(tmp_path, 3)
    numbers = len(lines(tmp_path))
    (tmp_path / "1" / f"audit-{numbers:012d}.jsonl").write_bytes(b'{"sha256":"0')
    write_records(tmp_path, 2, start=3)
    assert calls(tmp_path) == [f"call-{number}" for number in range(5)]
    assert verified(tmp_path).good


def test_audit_writer_restarts_a_log_whose_first_line_is_torn(tmp_path: Path) -> None:
    AuditSigner(tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "audit-000000000000.jsonl").write_bytes(b'{"sha')
    assert verified(tmp_path).good, "a crash may have left this"
    write_records(tmp_path, 2)
    assert verified(tmp_path).records == 2


def test_audit_writer_leaves_a_modified_line_for_verification_to_find(tmp_path: Path) -> None:
    write_records(tmp_path, 10)
    segment = segments_of(tmp_path / "1")[-1]
    changed = segment.read_bytes().replace(b"call-5", b"call-6", 1)
    segment.write_bytes(changed)
    write_records(tmp_path, 1, start=10)
    assert segment.read_bytes().startswith(changed)
    assert finding(tmp_path).what == "changed"


def test_audit_writer_starts_a_new_segment_at_the_size_limit(tmp_path: Path) -> None:
    write_records(tmp_path, 60)
    segments = segments_of(tmp_path / "1")
    assert len(segments) > 3
    for segment in segments[:-1]:
        assert 4_000 <= segment.stat().st_size < 5_500
    assert calls(tmp_path) == [f"call-{number}" for number in range(60)]


def test_audit_writer_starts_a_new_segment_at_midnight_utc(tmp_path: Path) -> None:
    clock = Clock(NOON)
    made = open_writer(tmp_path, LARGE, clock=clock)
    for hours in (0, 11, 12, 20):
        clock.now = NOON + hours * 3_600
        made.write([record(hours)])
    made.close()
    assert len(segments_of(tmp_path / "1")) == 2
    assert verified(tmp_path).good


def days_of(folder: Path, clock: Clock, days: int) -> AuditWriter:
    """One record each day, in segments of a day; kept for three days."""
    made = open_writer(folder, Retention(days=3), clock=clock)
    for day in range(days):
        clock.now = NOON + day * DAY
        made.write([record(day)])
    return made


def test_audit_retention_drops_old_segments_with_a_signed_note(tmp_path: Path) -> None:
    made = days_of(tmp_path, Clock(NOON), 8)
    made.close()
    assert calls(tmp_path) == ["call-3", "call-4", "call-5", "call-6", "call-7"]
    report = verified(tmp_path)
    assert report.good
    (said,) = report.notes
    first = lines(tmp_path)[0].number
    assert said == f"1: dropped on purpose up to number {first - 1}"


def test_audit_verify_finds_a_segment_missing_beyond_the_signed_drop(tmp_path: Path) -> None:
    days_of(tmp_path, Clock(NOON), 8).close()
    segments_of(tmp_path / "1")[0].unlink()
    found = finding(tmp_path)
    assert (found.what, found.number) == ("missing", 0)


def test_audit_verify_rejects_a_drop_note_signed_by_another_key(tmp_path: Path) -> None:
    days_of(tmp_path, Clock(NOON), 8).close()
    other = tmp_path.with_name("other")
    write_records(other, 1)
    found = finding(tmp_path, key=other / "audit.pub")
    assert found.what == "bad signature"


class NoRemoving(Disk):
    """A process that is killed before it removes what it said it would."""

    def remove(self, path: Path) -> None:
        pass


def test_audit_verify_accepts_segments_that_a_crash_left_after_the_signed_drop(tmp_path: Path) -> None:
    clock = Clock(NOON)
    made = open_writer(tmp_path, Retention(days=3), clock=clock, disk=NoRemoving())
    for day in range(8):
        clock.now = NOON + day * DAY
        made.write([record(day)])
    made.close()
    assert verified(tmp_path).good
    segments_of(tmp_path / "1")[0].unlink()
    assert verified(tmp_path).good, "it was said of this one too"


def test_audit_retention_drops_segments_of_logs_without_a_writer(tmp_path: Path) -> None:
    clock = Clock(NOON)
    first, second = (open_writer(tmp_path, Retention(days=3), clock=clock) for _ in range(2))
    for number, made in enumerate((first, second)):
        made.write([record(number)], sync=True)
    second.close()
    for day in range(10):
        clock.now = NOON + day * DAY
        first.write([record(10 + day)], sync=True)
    first.close()
    assert "call-1" not in calls(tmp_path)
    assert calls(tmp_path)[-1] == "call-19"
    assert verified(tmp_path).good


def test_audit_without_retention_days_drops_nothing(tmp_path: Path) -> None:
    clock = Clock(NOON)
    made = open_writer(tmp_path, SMALL, clock=clock)
    for day in range(8):
        clock.now = NOON + day * 1_000 * DAY
        made.write([record(day)])
    made.close()
    assert len(calls(tmp_path)) == 8


def test_audit_verify_finds_a_rollback_also_after_the_log_was_continued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, yesterday = tmp_path / "audit", tmp_path / "yesterday"
    write_records(folder, 20, LARGE)
    shutil.copytree(folder / "1", yesterday)
    write_records(folder, 20, LARGE, start=20)
    shutil.rmtree(folder / "1")
    shutil.copytree(yesterday, folder / "1")
    assert finding(folder).what == "rollback"
    with caplog.at_level(logging.ERROR):
        write_records(folder, 30, LARGE, start=40)
    assert "ROLLBACK" in caplog.text
    assert finding(folder).what == "rollback", "for ever, however long it goes on"


def test_audit_verify_finds_a_deleted_log_by_the_checkpoints_file(tmp_path: Path) -> None:
    write_records(tmp_path, 3)
    shutil.rmtree(tmp_path / "1")
    found = finding(tmp_path)
    assert (found.what, found.file) == ("missing", WITNESS_FILE)


def test_audit_verify_finds_a_modified_checkpoints_file(tmp_path: Path) -> None:
    write_records(tmp_path, 3)
    witness = tmp_path / WITNESS_FILE
    witness.write_text(witness.read_text().replace('"number":4', '"number":9'))
    found = finding(tmp_path)
    assert (found.what, found.file) == ("bad signature", WITNESS_FILE)


def test_audit_verify_accepts_a_checkpoints_file_with_a_torn_line(tmp_path: Path) -> None:
    write_records(tmp_path, 3)
    with (tmp_path / WITNESS_FILE).open("ab") as file:
        file.write(b'{"log":"ab')
    write_records(tmp_path, 3, start=3)
    report = verified(tmp_path)
    assert report.good
    assert len((tmp_path / WITNESS_FILE).read_bytes().splitlines()) == 3
    assert any("cannot be read" in said for said in report.notes)


def test_audit_verify_without_checkpoints_file_notes_what_it_cannot_detect(tmp_path: Path) -> None:
    write_records(tmp_path, 3)
    (tmp_path / WITNESS_FILE).unlink()
    segment = only_segment(tmp_path)
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:-2]))
    report = verified(tmp_path)
    assert report.good
    assert any("there is no audit.checkpoints" in said for said in report.notes)
    assert any("cannot be told from a crash" in said for said in report.notes)


def test_audit_verify_of_a_signed_log_without_checkpoints_file_reports_it_missing(tmp_path: Path) -> None:
    write_records(tmp_path, 3)
    (tmp_path / WITNESS_FILE).unlink()
    (finding,) = verified(tmp_path).findings
    assert (finding.what, finding.file) == ("missing", WITNESS_FILE)
    assert "--checkpoints" in finding.says


def test_audit_verify_with_another_public_key_reports_a_bad_signature(tmp_path: Path) -> None:
    write_records(tmp_path / "one", 3)
    write_records(tmp_path / "other", 3)
    assert verified(tmp_path / "one", key=tmp_path / "one" / "audit.pub").good
    assert finding(tmp_path / "one", key=tmp_path / "other" / "audit.pub").what == "bad signature"


def test_audit_verify_of_an_empty_folder_has_no_findings(tmp_path: Path) -> None:
    report = verified(tmp_path)
    assert (report.good, report.logs) == (True, 0)
