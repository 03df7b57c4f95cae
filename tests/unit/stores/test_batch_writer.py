"""Lines appended to a file in batches, by a thread."""

import asyncio
import json
import logging
import os
import threading
from pathlib import Path

import pytest

from toolhall.stores.batch_writer import FLUSH_SECONDS, BatchWriter


def record(number: int) -> bytes:
    return b'{"call":"call-%d"}\n' % number


def batches(path: Path) -> BatchWriter[bytes]:
    return BatchWriter(path, "records", b"".join)


def wait_until_written(path: Path) -> None:
    pause = threading.Event()
    for _ in range(1_000):
        if path.stat().st_size:
            return
        pause.wait(FLUSH_SECONDS / 5)


def written(path: Path) -> list[str]:
    return [json.loads(line)["call"] for line in path.read_text().splitlines()]


async def test_batch_writer_creates_its_file_with_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    before = os.umask(0)
    try:
        batches(path).close()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_batch_writer_writes_records_in_the_background_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    journal = batches(path)
    try:
        for number in range(10):
            journal.append(record(number))
        assert path.read_text() == "", "appending must not wait for the disk"
        await asyncio.wait_for(asyncio.to_thread(wait_until_written, path), 10)
        assert written(path) == [f"call-{number}" for number in range(10)], "one batch holds them all"
    finally:
        journal.close()


async def test_batch_writer_close_writes_pending_records(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    journal = batches(path)
    for number in range(3):
        journal.append(record(number))
    journal.close()
    assert written(path) == ["call-0", "call-1", "call-2"]


async def test_batch_writer_close_waits_for_the_batch_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for _ in range(5):
        journal = batches(path)
        for number in range(50):
            journal.append(record(number))
        await asyncio.sleep(FLUSH_SECONDS)  # a batch may now be in the thread, or not yet: both must end well
        journal.append(record(50))
        journal.close()
        assert written(path) == [f"call-{number}" for number in range(51)]
        path.unlink()


async def test_batch_writer_reopened_appends_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for number in range(2):
        journal = batches(path)
        journal.append(record(number))
        journal.close()
    assert written(path) == ["call-0", "call-1"]


@pytest.mark.parametrize(
    ("left", "lines"),
    [("", 1), ('{"call":"call-0"}\n', 2), ('{"call":"ca', 2), ("\n", 2)],
    ids=["nothing", "a whole record", "half a record", "an empty line"],
)
async def test_batch_writer_starts_a_new_line_after_a_torn_record(tmp_path: Path, left: str, lines: int) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(left)
    journal = batches(path)
    journal.append(record(1))
    journal.close()
    found = path.read_text().splitlines()
    assert len(found) == lines
    assert json.loads(found[-1])["call"] == "call-1"


async def test_batch_writer_writes_a_batch_with_one_system_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    write = os.write

    def counting(file: int, data: bytes) -> int:
        writes.append(len(data))
        return write(file, data)

    journal = batches(tmp_path / "lines.jsonl")
    monkeypatch.setattr("toolhall.stores.batch_writer.os.write", counting)
    for number in range(20):
        journal.append(record(number))
    journal.close()
    assert writes == [(tmp_path / "lines.jsonl").stat().st_size]


async def test_batch_writer_continues_after_a_short_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def reluctant(file: int, data: bytes) -> int:
        return write(file, data[:7])

    journal = batches(tmp_path / "lines.jsonl")
    monkeypatch.setattr("toolhall.stores.batch_writer.os.write", reluctant)
    journal.append(record(1))
    journal.close()
    assert written(tmp_path / "lines.jsonl") == ["call-1"]


async def test_batch_writer_close_ends_its_thread(tmp_path: Path) -> None:
    journal = batches(tmp_path / "lines.jsonl")
    journal.append(record(1))
    journal.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("toolhall-journal")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_batch_writer_full_disk_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    journal = batches(Path("/dev/full"))
    journal.append(record(1))
    with caplog.at_level(logging.ERROR):
        journal.close()
    assert "1 records could not be written" in caplog.text
