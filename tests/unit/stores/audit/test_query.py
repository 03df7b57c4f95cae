"""Records are found by filter and by time, over all segments and all processes, past everything that is broken."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.stores.audit.audit_logs import NOON, open_writer, record, write_records
from toolhall.stores.audit import query
from toolhall.stores.audit.filters import MATCH_ALL, AuditQuery, InvalidQuery, TextFilter, parse_query
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER, MAX_LINE_BYTES, segments_of
from toolhall.stores.audit.query import (
    FoundRecord,
    Positions,
    iter_oldest_first,
    parse_cursor,
    record_document,
    search,
    total_bytes,
    write_cursor,
)


def found(data: Path, wanted: AuditQuery = MATCH_ALL, limit: int = 1_000) -> list[str]:
    return [each.record.call for each in search(data, wanted, limit).records]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two logs whose records take turns, over several segments."""
    folder = tmp_path / AUDIT_FOLDER
    one, other = open_writer(folder), open_writer(folder)
    for number in range(60):
        who = "ada" if number % 3 else "bob"
        said = {"caller": who, "level": number % 11, "outcome": "ok" if number % 5 else "Denied"}
        said |= (
            {"stage": "authorize", "verdict": "deny", "grant": "g_1,2"}
            if number % 5 == 0
            else {"stage": "audit", "server": f"mail-{number % 2}"}
        )
        (other if number % 2 else one).write([record(number, tool=f"Kit.tool{number % 4}@1.0.0", **said)], sync=True)
    one.close()
    other.close()
    assert len(segments_of(folder / "1")) > 1
    return tmp_path


def test_search_merges_logs_in_time_order_newest_first_and_oldest_first(data: Path) -> None:
    in_order = [f"call-{number}" for number in range(60)]
    assert found(data) == in_order[::-1]
    sizes: list[int] = []
    assert [each.record.call for each in iter_oldest_first(data, sizes.append)] == in_order
    assert sum(sizes) == total_bytes(data)


NONE = range(0)


def at(number: int) -> str:
    return datetime.fromtimestamp(NOON + number, UTC).isoformat()


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"caller": "bob"}, range(0, 60, 3)),
        ({"caller": "bo"}, NONE),
        ({"caller": "b?b"}, range(0, 60, 3)),
        ({"caller": "[b]ob"}, range(0, 60, 3)),
        ({"caller": "eve, b*"}, range(0, 60, 3)),
        ({"caller": "ada,bob"}, range(60)),
        ({"caller": ""}, NONE),
        ({"tool": "Kit.tool3"}, range(3, 60, 4)),
        ({"tool": "Kit.tool3@1.0.0"}, range(3, 60, 4)),
        ({"tool": "Kit.tool3@2.0.0"}, NONE),
        ({"tool": "Kit.tool3*"}, range(3, 60, 4)),
        ({"tool": "Kit.*3"}, range(3, 60, 4)),
        ({"tool": "Other.*,Kit.tool3"}, range(3, 60, 4)),
        ({"tool": "Kit.*"}, range(60)),
        ({"tool": "Kit"}, NONE),
        ({"outcome": "Denied"}, range(0, 60, 5)),
        ({"outcome": "refused"}, range(0, 60, 5)),
        ({"outcome": "failed"}, NONE),
        ({"outcome": "failed,refused"}, range(0, 60, 5)),
        ({"server": "mail-1"}, [number for number in range(1, 60, 2) if number % 5]),
        ({"server": "mail-*"}, [number for number in range(60) if number % 5]),
        ({"server": "mail"}, NONE),
        ({"stage": "authorize"}, range(0, 60, 5)),
        ({"stage": "authorize,audit"}, range(60)),
        ({"stage": "run"}, NONE),
        ({"verdict": "deny"}, range(0, 60, 5)),
        ({"grant": "g_1,2"}, range(0, 60, 5)),
        ({"grant": "g_*"}, range(0, 60, 5)),
        ({"grant": "g_3"}, NONE),
        ({"call": "call-7"}, range(7, 8)),
        ({"call": "call-*"}, NONE),
        ({"dialect": "m*"}, range(60)),
        ({"level": "10"}, range(10, 60, 11)),
        ({"level": "0"}, range(60)),
        ({"since": at(50)}, range(50, 60)),
        ({"until": at(5)}, range(5)),
        ({"since": at(10), "until": at(20), "caller": "bob"}, range(12, 20, 3)),
    ],
)
def test_search_returns_only_records_that_match_the_query(data: Path, wanted: dict[str, str], numbers: range) -> None:
    assert found(data, parse_query(wanted)) == [f"call-{number}" for number in reversed(numbers)]


def test_search_with_limit_returns_the_newest_records(data: Path) -> None:
    assert found(data, limit=3) == ["call-59", "call-58", "call-57"]


def pages(data: Path, wanted: AuditQuery, limit: int) -> Iterator[list[str]]:
    """Every page, each with the cursor of the one before as a client would send it."""
    before: Positions | None = None
    while True:
        page = search(data, wanted, limit, before)
        yield [each.record.call for each in page.records]
        if page.next is None:
            return
        before = parse_cursor(write_cursor(page.next))


@pytest.mark.parametrize("limit", [1, 7, 59, 60])
@pytest.mark.parametrize("wanted", [{}, {"caller": "bob"}, {"tool": "Kit.tool0"}])
def test_pages_are_together_what_one_search_finds(data: Path, wanted: dict[str, str], limit: int) -> None:
    asked = parse_query(wanted)
    found_in_pages = list(pages(data, asked, limit))
    assert [call for page in found_in_pages for call in page] == found(data, asked)
    assert all(len(page) == limit for page in found_in_pages[:-1])


def test_cursor_is_stable_while_records_are_written_to_old_and_new_logs(data: Path) -> None:
    in_order = found(data)
    writers = []
    seen: list[str] = []
    for number, page in enumerate(pages(data, MATCH_ALL, 7)):
        seen += page
        writers.append(open_writer(data / AUDIT_FOLDER))
        for at_once in (0, 1_000):  # one record that is newer than all, and one of a clock that was set back
            writers[-1].write([record(1_000 * number - at_once)], sync=True)
    for each in writers:
        each.close()
    assert seen == in_order
    assert len(found(data)) == len(in_order) + 2 * len(writers)


@pytest.mark.parametrize("cursor", ["", "!", "e30x", "W10", "eyIxIjoieCJ9", "e" * 20_000])
def test_parse_cursor_with_anything_else_raises_invalid_query(cursor: str) -> None:
    with pytest.raises(InvalidQuery, match="cursor"):
        parse_cursor(cursor)


@pytest.mark.parametrize("piece", [100, 333, 5_000])
def test_search_finds_all_records_with_every_chunk_size(
    data: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(query, "CHUNK_BYTES", piece)
    assert len(found(data)) == 60


def test_search_skips_lines_that_cannot_be_parsed(tmp_path: Path) -> None:
    write_records(tmp_path / AUDIT_FOLDER, 4)
    (segment,) = segments_of(tmp_path / AUDIT_FOLDER / "1")
    lines = segment.read_bytes().splitlines(keepends=True)
    lines.insert(2, b'{"sha256":"' + b"x" * (2 * MAX_LINE_BYTES) + b"\n")
    lines.insert(2, b"\xff\x00 no line\n\n")
    segment.write_bytes(b"".join(lines) + b'{"sha256":"half')
    assert found(tmp_path) == ["call-3", "call-2", "call-1", "call-0"]
    assert [each.record.call for each in iter_oldest_first(tmp_path, lambda _: None)] == [
        "call-0",
        "call-1",
        "call-2",
        "call-3",
    ]


def test_search_since_a_time_does_not_open_older_segments(data: Path) -> None:
    """A search of the last minutes costs the last minutes, not the last years."""
    for log in ("1", "2"):
        oldest = segments_of(data / AUDIT_FOLDER / log)[0]
        oldest.unlink()
        oldest.mkdir()
    assert found(data, parse_query({"since": at(10_000)})) == []
    with pytest.raises(IsADirectoryError):
        found(data)


def test_search_without_audit_folder_returns_nothing(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    assert list(iter_oldest_first(tmp_path, lambda _: None)) == []


def test_parse_query_reads_levels_dates_and_rfc_3339_times() -> None:
    asked = {"caller": "ada", "level": "4", "since": "2027-01-31", "until": "2027-01-31t08:30:00+02:00"}
    assert parse_query(asked) == AuditQuery(
        caller=TextFilter.of("ada"), level=4, since=1801353600.0, until=1801377000.0
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"level": "11"},
        {"level": "x"},
        {"level": "²"},
        {"since": "soon"},
        {"until": "2027-13-01"},
        {"stage": "lunch"},
        {"stage": "run,"},
        {"verdict": "maybe"},
        {"caller": "a" * 1_025},
        {"tool": "a,b," * 11},
    ],
)
def test_parse_query_with_an_invalid_filter_raises_invalid_query_naming_it(asked: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery, match=next(iter(asked))):
        parse_query(asked)


def test_record_document_omits_absent_members() -> None:
    told = record_document(FoundRecord("2", 17, record(1, arguments_sha256="ab", level=0)))
    assert told == {
        "log": "2",
        "number": 17,
        "at": "2024-10-04T12:00:01.000Z",
        "call": "call-1",
        "caller": "ada",
        "dialect": "mcp",
        "tool": "Kit.pick@1.0.0",
        "outcome": "ok",
        "argumentsSha256": "ab",
        "level": 0,
        "durationUs": 0,
        "bytesIn": 0,
        "bytesOut": 0,
        "redactions": 0,
    }
