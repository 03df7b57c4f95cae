"""Which journal a hall gets, and what it keeps in memory."""

from pathlib import Path

from toolhall.model.call_records import AuditRecord
from toolhall.stores.audit.filters import MATCH_ALL, AuditQuery
from toolhall.stores.audit.journal import MAX_MEMORY_RECORDS, AuditJournal, MemoryJournal, open_journal


def record(number: int) -> AuditRecord:
    return AuditRecord(1.5, f"call-{number}", "local", "mcp", "Kit.pick@1.0.0", "ok", level=number % 11)


def test_memory_journal_keeps_the_newest_records_up_to_its_maximum() -> None:
    journal = MemoryJournal()
    for number in range(MAX_MEMORY_RECORDS + 5):
        journal.append(record(number))
    journal.close()
    assert len(journal.records) == MAX_MEMORY_RECORDS
    assert (journal.records[0].call, journal.records[-1].call) == ("call-5", f"call-{MAX_MEMORY_RECORDS + 4}")


async def test_memory_journal_search_returns_the_newest_records_first() -> None:
    journal = MemoryJournal()
    for number in range(30):
        journal.append(record(number))
    found = await journal.search(AuditQuery(level=10), 2)
    assert [each.record.call for each in found.records] == ["call-21", "call-10"]


def test_open_journal_is_on_disk_with_a_data_folder_and_in_memory_without(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, 30)
    assert isinstance(journal, AuditJournal)
    journal.close()
    assert list(tmp_path.iterdir()) == [], "nothing is made before there is anything to record"
    assert isinstance(open_journal(None, 30), MemoryJournal)


async def test_pages_of_a_memory_journal_are_stable_while_it_drops_its_oldest_records() -> None:
    journal = MemoryJournal()
    for number in range(MAX_MEMORY_RECORDS):
        journal.append(record(number))
    first = await journal.search(MATCH_ALL, 2)
    for number in range(10):
        journal.append(record(MAX_MEMORY_RECORDS + number))
    second = await journal.search(MATCH_ALL, 2, first.next)
    found = [each.record.call for each in (*first.records, *second.records)]
    assert found == [f"call-{MAX_MEMORY_RECORDS - number}" for number in range(1, 5)]
