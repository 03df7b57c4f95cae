"""`OwnCalls`: which audit records are of a caller's own calls, and what it may know of them (`shown_to_caller`).

Every proven caller may read the records of its own calls, and they tell it nothing that the answers to these calls did
not. A tool that is hidden from its caller is recorded with its id and with the rule that hides it: such a record is
shown like that of a name that nobody knows. Filters look at what is shown, so that they cannot tell the two apart.
"""

from typing import Self

import msgspec

from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import Caller
from toolhall.model.errors import NotFound
from toolhall.pipeline.audit import clean_name
from toolhall.stores.audit.filters import AuditQuery, json_fragment
from toolhall.stores.audit.query import FoundRecord

_NO_CALLERS = frozenset({"none", "shared"})  # proofs that do not say which program called
_HIDDEN = NotFound.__name__


class OwnCalls(AuditQuery, frozen=True, kw_only=True):
    """A search in the calls of one caller: those with its name, for which its person is responsible."""

    owner: str
    person: str | None

    @classmethod
    def of(cls, query: AuditQuery, caller: Caller) -> Self:
        """Return the search that finds what the query does, among this caller's own calls."""
        person = None if caller.person in (None, caller.id) else clean_name(caller.person)
        return cls(**msgspec.structs.asdict(query), owner=clean_name(caller.id), person=person)

    def matches(self, record: AuditRecord) -> bool:
        """True if it is an own call, and what its caller may know of it passes all filters."""
        is_own = (record.caller, record.person, record.is_management) == (self.owner, self.person, False)
        return is_own and super().matches(_visible(record))

    def fragments(self) -> tuple[tuple[bytes, ...], ...]:
        """Return what every line of the caller contains; other filters are of what is shown, which is in no line."""
        call = () if self.call is None else ((json_fragment(self.call),),)
        return ((json_fragment(self.owner),), *call)


def has_own_calls(caller: Caller) -> bool:
    """Whether the caller's records can be told from those of others."""
    return caller.proof not in _NO_CALLERS


def shown_to_caller(found: FoundRecord) -> FoundRecord:
    """Return the record as the caller itself may see it."""
    return FoundRecord(found.log, found.number, _visible(found.record))


def _visible(record: AuditRecord) -> AuditRecord:
    if record.outcome != _HIDDEN:
        return msgspec.structs.replace(record, grant=None, server=None)
    return AuditRecord(
        time=record.time,
        call=record.call,
        caller=record.caller,
        dialect=record.dialect,
        tool="",
        outcome=record.outcome,
        duration_us=record.duration_us,
        bytes_in=record.bytes_in,
        bytes_out=record.bytes_out,
        person=record.person,
        acting_for=record.acting_for,
        stage="find",
    )
