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

SIGNED_FROM_LEVEL = 7  # from this level an intent gets its own signed checkpoint, which goes to the store at once
MAX_TOOL_NAME = 128  # of a tool that was not found
MAX_TEXT = 256
MAX_SECRET = 1_024  # characters looked at beyond the limit, so that a secret that crosses it is found whole
MAX_CACHED_NAMES = 1_024
MAX_KEPT_BYTES = 1_024  # larger arguments are hashed at once: waiting ones would fill the memory if a disk is slow
_REPLACEMENT = "\ufffd"
_VERDICT_NAMES: dict[type[Verdict], Literal["allow", "deny", "verify"]] = {
    Allow: "allow",
    Deny: "deny",
    RequireVerification: "verify",
}
StageReached: TypeAlias = (
    Found | Allowed | Equipped | str | None
)  # the last state of a call, or the id of a retired tool


class RecordDraft(msgspec.Struct, frozen=True, gc=False):
    """The facts of an audit record, collected quickly in the loop; the journal makes the record from them."""

    time: float
    call: str
    caller: Caller
    dialect: str
    tool: Entry | str  # the tool that was found, or the name that was sent
    outcome: str
    verdict: Verdict | None
    arguments: bytes | str  # as JSON, or their digest
    duration_us: int
    bytes_in: int
    bytes_out: int = 0
    approval: str | None = None
    redactions: int = 0
    phase: Literal["intent"] | None = None

    def record(self) -> AuditRecord:
        """Return the record; text from outside is cut and cleaned, so that it can neither fill nor forge one."""
        verdict, caller, arguments = self.verdict, self.caller, self.arguments
        entry = None if isinstance(self.tool, str) else self.tool
        return AuditRecord(
            self.time,
            self.call,
            clean_name(caller.id),
            self.dialect,
            clean_name(self.tool, MAX_TOOL_NAME) if isinstance(self.tool, str) else self.tool.id,
            self.outcome,
            None if verdict is None else verdict.by,
            arguments if isinstance(arguments, str) else sha256(arguments).hexdigest(),
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
    """Stores audit records."""

    @property
    def behind(self) -> Sequence[str]:
        """What the audit lacks of what the store knows of it; while there is any, calls from level 4 up are refused."""
        ...

    def append(self, record: RecordDraft) -> None:
        """Write this record later, in order."""
        ...

    def commit(self, record: RecordDraft, *, sign: bool = False) -> Awaitable[None]:
        """Write this record; done once it is durable. Raises Unavailable.

        With `sign`, a checkpoint is signed and stored too: from then on, removing the record is noticed.
        """
        ...


class Audit:
    """Writes the audit records of calls and administrative operations."""

    def __init__(self, journal: Journal, clock: Callable[[], float], timer: Callable[[], float]) -> None:
        self._journal = journal
        self._append = journal.append
        self._clock = clock
        self.timer = timer
        self._arguments: dict[str, bytes | str] = {}  # of running calls, by call id

    def keep_arguments(self, call: Call) -> None:
        """Keep a call's arguments as they are now until it ends, because a tool may change them."""
        self._arguments[call.id] = _encoded_arguments(call)

    def check_complete(self) -> None:
        """Raise Unavailable while the audit lacks records that the store knows of; an operator has to look into it."""
        if self._journal.behind:
            raise Unavailable(BEHIND_MESSAGE)

    def intent(self, call: Call, reached: Equipped | None = None) -> Awaitable[None]:
        """Record what is about to happen; await it before any side effect. Raises Unavailable."""
        if reached is not None:
            self.check_complete()
        arguments = self._arguments[call.id] = _encoded_arguments(call)
        return self._journal.commit(
            RecordDraft(
                time=self._clock(),
                call=call.id,
                caller=call.caller,
                dialect=call.dialect,
                tool=call.tool if reached is None else reached.entry,
                outcome="intent",
                verdict=None if reached is None else reached.verdict,
                arguments=arguments,
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
    ) -> float:
        """Write the one record of a call that has ended, and return the seconds that it took.

        `ended` is the exception that ended it, if any.
        """
        redactions, approval = 0, None
        if type(reached) is Equipped:
            tool: Entry | str = reached.entry
            verdict: Verdict | None = reached.verdict
            approval, redactor = reached.approval, reached.redactor
            if redactor is not None:
                redactions = redactor.count
        else:
            tool, verdict = _tool_and_verdict(call, reached, ended)
            approval = ended.id if isinstance(ended, NeedsVerification) else None
        arguments = self._arguments.pop(call.id, None) if self._arguments else None
        if arguments is None:
            arguments = call.encoded_arguments
            if arguments is None or len(arguments) > MAX_KEPT_BYTES:
                arguments = _encoded_arguments(call)
        seconds = self.timer() - call.started
        self._append(
            RecordDraft(
                self._clock(),
                call.id,
                call.caller,
                call.dialect,
                tool,
                outcome,
                verdict,
                arguments,
                int(seconds * 1e6),
                call.size,
                bytes_out,
                approval,
                redactions,
            )
        )
        return seconds


@lru_cache(MAX_CACHED_NAMES)
def clean_name(name: str, limit: int = MAX_TEXT) -> str:
    """Return a name from outside, printable and without anything that has the shape of a secret."""
    return printable(redact_patterns(name[: limit + MAX_SECRET], _ignore), limit)


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """Return text from outside cut to a limit, with every unprintable character replaced."""
    if len(text) > limit:
        text = text[:limit]
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _REPLACEMENT for letter in text)


def _ignore(_: str) -> None:
    """Ignore the secret that was found."""


def _encoded_arguments(call: Call) -> bytes | str:
    encoded = call.encoded_arguments or encode(call.arguments)
    return encoded if len(encoded) <= MAX_KEPT_BYTES else sha256(encoded).hexdigest()


def _tool_and_verdict(
    call: Call, reached: StageReached, ended: BaseException | None
) -> tuple[Entry | str, Verdict | None]:
    """Return what a record says of a call that did not reach its tool."""
    if isinstance(reached, Found | Allowed):
        return reached.entry, _denial(ended) or (reached.verdict if isinstance(reached, Allowed) else None)
    if isinstance(ended, NotFound) and isinstance(ended.hidden, NotVisible):
        return ended.hidden.entry, ended.hidden.verdict
    return reached if isinstance(reached, str) else call.tool, _denial(ended)


def _denial(ended: BaseException | None) -> Deny | None:
    """Return the verdict behind an error."""
    if isinstance(ended, Denied):
        return Deny(ended.message, ended.by, ended.level or 0)
    return Deny(ended.message) if isinstance(ended, Unauthenticated) else None
