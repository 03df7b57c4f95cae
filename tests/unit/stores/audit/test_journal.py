"""The journal of a hall: no call waits for the disk unless it must, and those who must share one wait."""

import asyncio
import errno
import logging
import threading
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.unit.builders import Clock
from tests.unit.stores.audit.audit_logs import NOON, calls, record, verified
from toolhall.model.call_records import AuditRecord
from toolhall.model.errors import Unavailable
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.filters import AuditQuery
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER, LEGACY_FILE
from toolhall.stores.audit.journal import FLUSH_SECONDS, AuditJournal
from toolhall.stores.audit.writer import Retention


class SlowDisk(Disk):
    """Counts syncs, and waits in one until it is let go."""

    def __init__(self) -> None:
        self.syncs = 0
        self.syncing = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def sync(self, file: int) -> None:
        self.syncs += 1
        self.syncing.set()
        assert self.go.wait(patience())
        super().sync(file)


class FullDisk(Disk):
    """Takes some bytes of a write, and then no more; or fails to sync."""

    def __init__(self) -> None:
        self.full = False
        self.dead = False

    def write(self, file: int, at: int, data: bytes | bytearray | memoryview) -> None:
        if self.full:
            super().write(file, at, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no space left on device")
        super().write(file, at, data)

    def sync(self, file: int) -> None:
        if self.dead:
            raise OSError(errno.EIO, "input/output error")
        super().sync(file)


def journal(data: Path, disk: Disk | None = None, keeping: Retention | None = None) -> AuditJournal:
    return AuditJournal(data, keeping, disk=disk, clock=Clock(NOON))


async def test_journal_close_writes_and_signs_all_appended_records(tmp_path: Path) -> None:
    made = journal(tmp_path)
    for number in range(10):
        made.append(record(number))
    made.close()
    assert calls(tmp_path / AUDIT_FOLDER) == [f"call-{number}" for number in range(10)]
    report = verified(tmp_path / AUDIT_FOLDER)
    assert (report.good, report.notes) == (True, []), "it is signed to its end"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("toolhall-audit")]


async def test_journal_commit_writes_the_record_and_all_before_it(tmp_path: Path) -> None:
    made = journal(tmp_path)
    try:
        made.append(record(1))
        await made.commit(record(2))
        assert calls(tmp_path / AUDIT_FOLDER) == ["call-1", "call-2"]
    finally:
        made.close()


async def test_journal_commits_of_one_event_loop_turn_share_one_sync(tmp_path: Path) -> None:
    made = journal(tmp_path, disk := SlowDisk())
    try:
        await made.commit(record(0))
        before = disk.syncs
        await asyncio.gather(*[made.commit(record(number)) for number in range(1, 500)])
        assert disk.syncs == before + 1
    finally:
        made.close()


async def test_journal_commits_during_a_sync_share_the_next_sync(tmp_path: Path) -> None:
    disk = SlowDisk()
    made = journal(tmp_path, disk)
    try:
        await made.commit(record(0))
        disk.go.clear()
        disk.syncing.clear()
        first = made.commit(record(1))
        await asyncio.to_thread(disk.syncing.wait, 10)
        before = disk.syncs
        crowd = [made.commit(record(number)) for number in range(2, 52)]
        assert not first.done()
        disk.go.set()
        await asyncio.gather(first, *crowd)
        assert disk.syncs == before + 1
        assert len(calls(tmp_path / AUDIT_FOLDER)) == 52
    finally:
        disk.go.set()
        made.close()


async def test_journal_cancelled_commit_is_written_and_does_not_affect_other_commits(tmp_path: Path) -> None:
    disk = SlowDisk()
    made = journal(tmp_path, disk)
    try:
        await made.commit(record(0))
        disk.go.clear()
        one, other = made.commit(record(1)), made.commit(record(2))
        one.cancel()
        disk.go.set()
        await other
        assert calls(tmp_path / AUDIT_FOLDER) == ["call-0", "call-1", "call-2"]
    finally:
        disk.go.set()
        made.close()


@pytest.mark.parametrize("how", ["full", "dead"])
async def test_journal_disk_failure_fails_commits_and_loses_no_record_after_recovery(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Threat R3: while it lasts, commits fail; afterwards nothing half-written is there, and nothing is missing."""
    disk = FullDisk()
    made = journal(tmp_path, disk)
    try:
        await made.commit(record(0))
        setattr(disk, how, True)
        with caplog.at_level(logging.ERROR):
            for number in range(1, 4):
                with pytest.raises(Unavailable, match="level 4 and up"):
                    await made.commit(record(number))
        assert made.failing
        assert caplog.text.count("the audit cannot be written") == 1, "said once, not for each call"
        setattr(disk, how, False)
        await made.commit(record(4))
        assert [made.failing] == [False]
    finally:
        made.close()
    assert calls(tmp_path / AUDIT_FOLDER) == [f"call-{number}" for number in range(5)]
    assert verified(tmp_path / AUDIT_FOLDER).good


async def test_journal_folder_that_is_a_file_raises_unavailable_until_it_is_removed(tmp_path: Path) -> None:
    (tmp_path / AUDIT_FOLDER).write_text("in the way")
    made = journal(tmp_path)
    try:
        with pytest.raises(Unavailable):
            await made.commit(record(1))
        assert made.failing
        (tmp_path / AUDIT_FOLDER).unlink()
        await made.commit(record(2))
        assert calls(tmp_path / AUDIT_FOLDER) == ["call-1", "call-2"], "what came meanwhile was kept"
    finally:
        made.close()


async def test_journal_counts_records_dropped_above_max_pending_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolhall.stores.audit.writer.MAX_PENDING_BYTES", 1_000)
    disk = FullDisk()
    made = journal(tmp_path, disk)
    try:
        await made.commit(record(0))
        disk.full = True
        for number in range(1, 31):
            made.append(record(number))
            await made.flush()
        disk.full = False
        await made.commit(record(31))
        await made.commit(record(32))
    finally:
        made.close()
    report = verified(tmp_path / AUDIT_FOLDER)
    assert report.good
    kept = len(calls(tmp_path / AUDIT_FOLDER))
    lost = 33 - kept
    assert 0 < lost < 33
    assert any(f"{lost} records could not be written" in said for said in report.notes)


async def test_journal_counts_records_dropped_above_max_queued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.stores.audit.journal.MAX_QUEUED", 10)
    disk = SlowDisk()
    made = journal(tmp_path, disk)
    try:
        await made.commit(record(0))
        disk.go.clear()
        disk.syncing.clear()
        waiting = made.commit(record(1))
        await asyncio.to_thread(disk.syncing.wait, 10)
        for number in range(2, 100):
            made.append(record(number))
        disk.go.set()
        await waiting
    finally:
        disk.go.set()
        made.close()
    assert len(calls(tmp_path / AUDIT_FOLDER)) == 12
    assert any("88 records" in said for said in verified(tmp_path / AUDIT_FOLDER).notes)


async def test_journal_builds_a_record_from_its_source_in_the_writer_thread(tmp_path: Path) -> None:
    class Draft:
        made_in = ""

        def record(self) -> AuditRecord:
            self.made_in = threading.current_thread().name
            return record(7)

    made, draft = journal(tmp_path), Draft()
    try:
        await made.commit(draft)
    finally:
        made.close()
    assert draft.made_in == "toolhall-audit"
    assert calls(tmp_path / AUDIT_FOLDER) == ["call-7"]


async def test_journal_read_finds_unflushed_records_and_records_of_the_legacy_file(tmp_path: Path) -> None:
    (tmp_path / LEGACY_FILE).write_bytes(
        b'{"time":1.0,"call":"old","caller":"ada","dialect":"mcp","tool":"Kit.pick@0.9.0","outcome":"ok"}\n'
    )
    made, found = journal(tmp_path), list[AuditRecord]()
    try:
        made.append(record(1))
        made.append(record(2, tool="Kit.other@1.0.0"))
        made.append(record(3, phase="intent", outcome="intent"))
        await made.read("Kit.pick", found.append)
        assert [each.call for each in found] == ["old", "call-1"]
        newest = await made.search(AuditQuery(), 2)
        assert [each.record.call for each in newest.records] == ["call-3", "call-2"]
    finally:
        made.close()


async def test_journal_signs_a_checkpoint_after_sign_seconds_without_new_records(tmp_path: Path) -> None:
    made = journal(tmp_path, keeping=Retention(sign_seconds=0.0))
    witness = tmp_path / AUDIT_FOLDER / "audit.checkpoints"
    try:
        await made.commit(record(1))
        for _ in range(1_000):
            if witness.exists() and witness.stat().st_size:
                break
            await made.flush()
        assert verified(tmp_path / AUDIT_FOLDER).checkpoints > 0
    finally:
        made.close()


async def test_journal_record_that_cannot_be_encoded_raises_unavailable_and_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Bad:
        def record(self) -> AuditRecord:
            raise ValueError("no such record")

    made = journal(tmp_path)
    try:
        for bad in (Bad(), record(1, outcome="\ud800")):
            with pytest.raises(Unavailable):
                await made.commit(bad)
        await made.commit(record(2))
    finally:
        made.close()
    assert calls(tmp_path / AUDIT_FOLDER) == ["call-2"]
    assert sum("1 records could not be written" in said for said in verified(tmp_path / AUDIT_FOLDER).notes) == 2


async def test_closed_journal_commit_raises_unavailable_and_append_logs_the_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = journal(tmp_path)
    await made.commit(record(1))
    made.close()
    with pytest.raises(Unavailable):
        await made.commit(record(2))
    made.append(record(3))
    await made.flush()
    made.close()
    assert calls(tmp_path / AUDIT_FOLDER) == ["call-1"]
    assert "after the audit was closed" in caplog.text
    assert "call-3" in caplog.text, "what it says is not lost"


async def test_journal_closed_before_use_starts_no_thread(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.close()
    made.append(record(1))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("toolhall-audit")]
    assert not (tmp_path / AUDIT_FOLDER).exists()


async def test_journal_writes_records_that_come_right_after_a_batch_and_long_after_one(tmp_path: Path) -> None:
    made, expected = journal(tmp_path), list[str]()
    try:
        for number, pause in enumerate((0.0, 0.0, 3 * FLUSH_SECONDS, 0.0)):
            await asyncio.sleep(pause)  # the thread waits for more at first, and sleeps after a while
            made.append(record(number))
            expected.append(f"call-{number}")
            async with asyncio.timeout(patience()):
                while calls(tmp_path / AUDIT_FOLDER) != expected:  # noqa: ASYNC110 - a file tells nobody
                    await asyncio.sleep(0.005)
        await made.commit(record(9))
        assert calls(tmp_path / AUDIT_FOLDER) == [*expected, "call-9"]
    finally:
        made.close()
