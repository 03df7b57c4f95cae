"""Where a hall's records go: to the audit in its data folder, or for a hall without one, to memory."""

from collections import deque
from itertools import islice
from pathlib import Path

from toolhall.model.record import Record, Unwritten
from toolhall.stores.audit.anchors import Anchoring
from toolhall.stores.audit.journal import AuditJournal
from toolhall.stores.audit.log import Keeping
from toolhall.stores.audit.reading import Found, Wanted
from toolhall.stores.reading import Take, is_about

KEPT_IN_MEMORY = 1_000


class MemoryJournal:
    """Keeps the newest records; for tests and for tools served without a data folder."""

    failing = False
    behind: tuple[str, ...] = ()
    anchoring: Anchoring | None = None  # there is no folder to compare with anything

    def __init__(self) -> None:
        self.records: deque[Record] = deque(maxlen=KEPT_IN_MEMORY)

    def append(self, record: Record | Unwritten) -> None:
        """Keep this record."""
        self.records.append(record if isinstance(record, Record) else record.record())

    async def commit(self, record: Record | Unwritten, *, sign: bool = False) -> None:  # noqa: ARG002 - no signatures
        """Keep this record; memory is as safe as it will ever be."""
        self.append(record)

    async def read(self, tool: str, take: Take) -> None:
        """Hand over every record of a call that has ended, of a tool id or of all versions of a `Toolkit.tool`."""
        for record in tuple(self.records):
            if record.phase is None and is_about(record, tool):
                take(record)

    async def search(self, wanted: Wanted, limit: int) -> list[Found]:
        """The newest records that fit, the newest first."""
        numbered = reversed(list(enumerate(self.records)))
        return list(islice((Found("", number, each) for number, each in numbered if wanted.fits(each)), limit))

    def close(self) -> None:
        """Nothing to write."""


def journal_in(folder: Path | None, days: int) -> AuditJournal | MemoryJournal:
    """The journal of a hall with this data folder; 0 days keep everything."""
    return MemoryJournal() if folder is None else AuditJournal(folder, Keeping(days=days))
