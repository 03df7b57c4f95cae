"""Which journal a hall gets, and what it keeps in memory."""

from pathlib import Path

from toolhall.model.record import Record
from toolhall.stores.audit.journal import AuditJournal
from toolhall.stores.audit.reading import Wanted
from toolhall.stores.journal import KEPT_IN_MEMORY, MemoryJournal, journal_in


def record(number: int) -> Record:
    return Record(1.5, f"call-{number}", "local", "mcp", "Kit.pick@1.0.0", "ok", level=number % 11)


def test_memory_keeps_the_newest() -> None:
    journal = MemoryJournal()
    for number in range(KEPT_IN_MEMORY + 5):
        journal.append(record(number))
    journal.close()
    assert len(journal.records) == KEPT_IN_MEMORY
    assert (journal.records[0].call, journal.records[-1].call) == ("call-5", f"call-{KEPT_IN_MEMORY + 4}")


async def test_memory_finds_the_newest_first() -> None:
    journal = MemoryJournal()
    for number in range(30):
        journal.append(record(number))
    found = await journal.search(Wanted(level=10), 2)
    assert [each.record.call for each in found] == ["call-21", "call-10"]


def test_a_hall_with_a_folder_has_an_audit_there_and_one_without_has_memory(tmp_path: Path) -> None:
    journal = journal_in(tmp_path, 30)
    assert isinstance(journal, AuditJournal)
    journal.close()
    assert list(tmp_path.iterdir()) == [], "nothing is made before there is anything to record"
    assert isinstance(journal_in(None, 30), MemoryJournal)
