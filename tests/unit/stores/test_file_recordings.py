"""The file of recorded calls: private, bounded, and no trouble to anybody when the disk is."""

import logging
import os
from pathlib import Path

import pytest

from toolhall.stores.batch_writer import FileRecordings


def line(number: int) -> bytes:
    return b'{"n":%03d}\n' % number  # ten bytes


async def test_file_recordings_append_lines_across_reopens_with_mode_0600(tmp_path: Path) -> None:
    file = tmp_path / "recordings.jsonl"
    for start in (0, 2):
        recordings = FileRecordings(file)
        recordings.append(line(start))
        recordings.append(line(start + 1))
        recordings.close()
    assert file.read_bytes() == b"".join(map(line, range(4)))
    assert file.stat().st_mode & 0o777 == 0o600


async def test_file_recordings_stop_at_max_bytes_and_warn_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "recordings.jsonl"
    recordings = FileRecordings(file, max_bytes=30)
    with caplog.at_level(logging.WARNING):
        for number in range(9):
            recordings.append(line(number))
        assert recordings.full
        recordings.close()
    assert file.read_bytes() == b"".join(map(line, range(3)))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no longer recorded" in caplog.text


async def test_file_recordings_count_existing_bytes_toward_max_bytes(tmp_path: Path) -> None:
    file = tmp_path / "recordings.jsonl"
    file.write_bytes(line(0) * 3)
    recordings = FileRecordings(file, max_bytes=39)
    recordings.append(line(1))
    recordings.close()
    assert recordings.full
    assert file.stat().st_size == 30


async def test_file_recordings_count_bytes_of_another_process_toward_max_bytes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "recordings.jsonl"
    one, two = (FileRecordings(file, max_bytes=39) for _ in range(2))
    for recordings in (one, two):
        recordings.append(line(1))
        recordings.append(line(2))
        recordings.close()
    assert (one.full, two.full) == (False, True)
    assert file.stat().st_size == 20
    assert len(caplog.records) == 1


async def test_file_recordings_start_a_new_line_after_a_failed_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "recordings.jsonl"
    recordings = FileRecordings(file)
    write, left = os.write, [4]

    def failing(descriptor: int, data: bytes) -> int:
        if not left:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: left.pop()])

    with monkeypatch.context() as patched:
        patched.setattr("toolhall.stores.batch_writer.os.write", failing)
        recordings.append(line(1))
        await recordings.flush()
    states = [recordings.failing]
    recordings.append(line(2))
    recordings.close()
    assert [*states, recordings.failing] == [True, False]
    assert file.read_bytes() == line(1)[:4] + b"\n" + line(2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_file_recordings_full_disk_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    recordings = FileRecordings(Path("/dev/full"))
    recordings.append(line(1))
    with caplog.at_level(logging.ERROR):
        recordings.close()
    assert "1 recorded calls could not be written" in caplog.text
