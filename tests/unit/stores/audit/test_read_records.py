"""Records are read again: only those of the tool that was asked for, past everything that is broken."""

import tracemalloc
from pathlib import Path

import msgspec
import pytest

from toolhall.model.call_records import AuditRecord
from toolhall.stores.audit import query
from toolhall.stores.audit.filters import is_about_tool
from toolhall.stores.audit.hash_chain import MAX_LINE_BYTES
from toolhall.stores.audit.journal import MemoryJournal
from toolhall.stores.audit.query import read_records

PICK = "Kit.pick@1.0.0"


def record(number: int = 1, tool: str = PICK) -> AuditRecord:
    return AuditRecord(float(number), f"call-{number}", "ada", "mcp", tool, "ok")


def line(number: int = 1, tool: str = PICK) -> bytes:
    return msgspec.json.encode(record(number, tool)) + b"\n"


def calls_in(path: Path, tool: str = "Kit.pick") -> list[str]:
    found: list[str] = []
    read_records(path, tool, lambda each: found.append(each.call))
    return found


@pytest.mark.parametrize(
    ("said", "asked", "same"),
    [
        (PICK, PICK, True),
        (PICK, "Kit.pick", True),
        (PICK, "Kit.pic", False),
        (PICK, "Kit", False),
        ("Kit.pick", "Kit.pick", True),
        ("Kit.pick@2.0.0", PICK, False),
        ("Kit.pick@1.0.0@2.0.0", "Kit.pick", False),
        ("Kit.pick@1.0.0@2.0.0", "Kit.pick@1.0.0@2.0.0", True),
    ],
)
def test_is_about_tool_matches_an_exact_id_or_every_version_of_a_name(said: str, asked: str, same: bool) -> None:
    assert is_about_tool(record(tool=said), asked) is same


def test_read_records_returns_complete_records_of_the_tool_only(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    broken = [
        b'{"tool":"Kit.pick@1.0.0","call":\n',
        b"\xff Kit.pick\n",
        b"\n",
        b'["Kit.pick"]\n',
        b'{"tool":"Kit.pick@1"}\n',
    ]
    cut = line(9)[:-2]  # is being written, or never was to its end
    path.write_bytes(line(1) + b"".join(broken) + line(2, "Kit.other@1.0.0") + line(3, "Kit.pick@2.0.0") + cut)
    assert calls_in(path) == ["call-1", "call-3"]
    assert calls_in(path, PICK) == ["call-1"]
    assert calls_in(path, "Kit.none") == []


def test_read_records_skips_a_last_line_without_newline(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(line(1) + line(2).rstrip())
    assert calls_in(path) == ["call-1"]


@pytest.mark.parametrize("piece", [1, 7, 64, 1_000_000])
def test_read_records_finds_all_records_with_every_chunk_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(query, "CHUNK_BYTES", piece)
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(line(number) for number in range(20)))
    assert calls_in(path) == [f"call-{number}" for number in range(20)]


@pytest.mark.parametrize("piece", [4_096, 1_000_000])
def test_read_records_skips_a_line_above_the_maximum_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(query, "CHUNK_BYTES", piece)
    path = tmp_path / "audit.jsonl"
    long = msgspec.json.encode(AuditRecord(1.0, "x" * (MAX_LINE_BYTES * 3), "ada", "mcp", PICK, "ok")) + b"\n"
    path.write_bytes(line(1) + long + line(2))
    assert calls_in(path) == ["call-1", "call-2"]


def test_read_records_finds_tool_names_that_json_escapes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    odd = 'K"i\\t.\x1b[2Jé\u202e'
    path.write_bytes(line(1, f"{odd}@1.0.0"))
    assert calls_in(path, odd) == ["call-1"]


def test_read_records_of_a_large_file_uses_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    block = line(1, "Kit.other@1.0.0") * 9_000
    with path.open("wb") as file:
        for _ in range(24):
            file.write(block)
        file.write(line(2))
        file.write(b"x" * (8 * query.CHUNK_BYTES))  # and one line that never ends
    assert path.stat().st_size > 24 * query.CHUNK_BYTES
    tracemalloc.start()
    try:
        assert calls_in(path) == ["call-2"]
        assert tracemalloc.get_traced_memory()[1] < 8 * query.CHUNK_BYTES
    finally:
        tracemalloc.stop()


async def test_memory_journal_read_returns_finished_calls_of_the_tool_only() -> None:
    journal, found = MemoryJournal(), list[AuditRecord]()
    journal.append(record(1))
    journal.append(record(2, "Kit.other@1.0.0"))
    await journal.commit(AuditRecord(3.0, "call-3", "ada", "mcp", PICK, "intent", phase="intent"))
    journal.append(record(4, "Kit.pick@2.0.0"))
    await journal.read("Kit.pick", found.append)
    assert found == [record(1), record(4, "Kit.pick@2.0.0")], "a call counts once it has ended"
