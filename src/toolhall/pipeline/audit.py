"""Audit: writes one record for every call, and a durable intent record before side effects from level 4 up."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import Allow, Caller, Deny, RequireVerification, Verdict
from toolhall.model.errors import Denied, NeedsVerification, NotFound, Unauthenticated, Unavailable
from toolhall.model.json import encode
from toolhall.model.messages import Call
from toolhall.pipeline.find import NotVisible
from toolhall.pipeline.states import Allowed, Equipped, Found
from toolhall.redaction.secret_patterns import redact_patterns
from toolhall.registry.snapshot import Entry
from toolhall.stores.audit.anchors import BEHIND_MESSAGE

SIGNED_FROM_LEVEL = 7  # the level from which an intent gets a checkpoint of its own, which the store hears of at once
MAX_TOOL_NAME = 128  # of a tool that was not found
MAX_TEXT = 256
MAX_SECRET = 1_024  # of a secret that begins where a name is cut
MAX_CACHED_NAMES = 1_024  # names; most callers come again
MAX_KEPT_BYTES = (
    1_024  # bytes of arguments that wait for their digest; more would fill the memory, where a disk is slow
)
_REPLACEMENT = "\ufffd"
StageReached: TypeAlias = Found | Allowed | Equipped | str | None  # how far a call came, or the id of what is no more


class RecordDraft(msgspec.Struct, frozen=True, gc=False):
    """All that a record says of a call, taken down quickly; the record itself is made by whoever writes it."""

    time: float
    call: str
    caller: Caller
    dialect: str
    tool: Entry | str  # what was found, or what it was called
    outcome: str
    verdict: Verdict | None
    arguments: bytes | str  # as they were given, or their digest
    duration_us: int
    bytes_in: int
    bytes_out: int = 0
    approval: str | None = None
    redactions: int = 0
    phase: Literal["intent"] | None = None

    def record(self) -> AuditRecord:
        """The record; no text from outside can fill or forge one."""
        verdict, caller, given = self.verdict, self.caller, self.arguments
        entry = None if isinstance(self.tool, str) else self.tool
        return AuditRecord(
            self.time,
            self.call,
            clean_name(caller.id),
            self.dialect,
            clean_name(self.tool, MAX_TOOL_NAME) if isinstance(self.tool, str) else self.tool.id,
            self.outcome,
            None if verdict is None else verdict.by,
            given if isinstance(given, str) else sha256(given).hexdigest(),
            self.duration_us,
            self.bytes_in,
            self.bytes_out,
            None if entry is None else entry.definition_sha256,
            None if verdict is None else verdict.level,
            None if verdict is None else _VERDICT_NAMES[type(verdict)],
            printable(verdict.reason) if isinstance(verdict, Deny) else None,
            self.approval,
            None if caller.person is None or caller.person == caller.id else clean_name(caller.person),
            None if caller.acting_for is None else clean_name(caller.acting_for),
            self.redactions,
            self.phase,
        )


class Journal(Protocol):
    """Where records are kept."""

    @property
    def behind(self) -> Sequence[str]:
        """What the store knows of the audit that is not there; as long as there is anything, level 4 and up wait."""
        ...

    def append(self, record: RecordDraft) -> None:
        """Keep this record."""
        ...

    def commit(self, record: RecordDraft, *, sign: bool = False) -> Awaitable[None]:
        """Keep this record; done once it survives whatever happens next, Unavailable if it cannot.

        With `sign`, nobody can cut it off unnoticed from then on.
        """
        ...


class Audit:
    """Knows what there is to say of a call."""

    def __init__(self, journal: Journal, clock: Callable[[], float], timer: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self.timer = timer
        self._arguments: dict[str, bytes | str] = {}  # what was given to calls that run

    def keep_arguments(self, call: Call) -> None:
        """Remember a call's arguments as they are now, until it ends: a tool may change them."""
        self._arguments[call.id] = _encoded_arguments(call)

    def check_complete(self) -> None:
        """Raise Unavailable while the audit is not what the store knows of it; an operator has to look at it."""
        if self._journal.behind:
            raise Unavailable(BEHIND_MESSAGE)

    def intent(self, call: Call, reached: Equipped | None = None) -> Awaitable[None]:
        """What is about to happen; wait for this before it does. Raises Unavailable if it cannot be recorded."""
        if reached is not None:
            self.check_complete()
        given = self._arguments[call.id] = _encoded_arguments(call)
        return self._journal.commit(
            RecordDraft(
                time=self._clock(),
                call=call.id,
                caller=call.caller,
                dialect=call.dialect,
                tool=call.tool if reached is None else reached.entry,
                outcome="intent",
                verdict=None if reached is None else reached.verdict,
                arguments=given,
                duration_us=int((self.timer() - call.started) * 1e6),
                bytes_in=call.size,
                approval=None if reached is None else reached.approval,
                phase="intent",
            ),
            sign=reached is not None and reached.verdict.level >= SIGNED_FROM_LEVEL,
        )

    def write(
        self,
        call: Call,
        reached: StageReached,
        outcome: str,
        bytes_out: int = 0,
        ended: BaseException | None = None,
        redactions: int = 0,
    ) -> None:
        """One record of a call that is over; `ended` is what ended it, if it did not end well."""
        tool: Entry | str
        verdict: Verdict | None
        approval = ended.id if isinstance(ended, NeedsVerification) else None
        if type(reached) is Equipped:
            tool, verdict, approval = reached.entry, reached.verdict, reached.approval
        elif isinstance(reached, Found | Allowed):
            tool = reached.entry
            verdict = _denial(ended) or (reached.verdict if isinstance(reached, Allowed) else None)
        elif isinstance(ended, NotFound) and isinstance(ended.hidden, NotVisible):
            tool, verdict = ended.hidden.entry, ended.hidden.verdict
        else:
            tool, verdict = reached if isinstance(reached, str) else call.tool, _denial(ended)
        self._journal.append(
            RecordDraft(
                self._clock(),
                call.id,
                call.caller,
                call.dialect,
                tool,
                outcome,
                verdict,
                self._arguments.pop(call.id, b"") or _encoded_arguments(call),
                int((self.timer() - call.started) * 1e6),
                call.size,
                bytes_out,
                approval,
                redactions,
            )
        )


@lru_cache(MAX_CACHED_NAMES)
def clean_name(name: str, limit: int = MAX_TEXT) -> str:
    """A name from outside as a record has it: plain, and without what has the shape of a secret."""
    return printable(redact_patterns(name[: limit + MAX_SECRET], _ignore), limit)


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """Text from outside that can neither fill nor forge a record: cut, and without what does not print."""
    if len(text) > limit:
        text = text[:limit]
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _REPLACEMENT for letter in text)


def _ignore(_: str) -> None:
    """Which secret it was does not matter."""


def _encoded_arguments(call: Call) -> bytes | str:
    given = encode(call.arguments)
    return given if len(given) <= MAX_KEPT_BYTES else sha256(given).hexdigest()


def _denial(ended: BaseException | None) -> Deny | None:
    """The verdict behind a refusal."""
    if isinstance(ended, Denied):
        return Deny(ended.message, ended.by, ended.level or 0)
    return Deny(ended.message) if isinstance(ended, Unauthenticated) else None


_VERDICT_NAMES: dict[type[Verdict], Literal["allow", "deny", "verify"]] = {
    Allow: "allow",
    Deny: "deny",
    RequireVerification: "verify",
}
