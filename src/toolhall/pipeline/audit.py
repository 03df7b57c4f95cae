"""Audit: writes one record for every call, and a durable intent record before side effects from level 4 up."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.call_records import AuditRecord, CallStage
from toolhall.model.caller import Allow, Caller, Deny, RequireVerification, Verdict
from toolhall.model.errors import Denied, NeedsVerification, NotFound, Unauthenticated, Unavailable
from toolhall.model.json import encode
from toolhall.model.messages import Call
from toolhall.model.uri_expansion import MAX_URI_LENGTH
from toolhall.pipeline.call_recorder import RedactionInput, redact_parts
from toolhall.pipeline.find import NotVisible
from toolhall.pipeline.stage_times import StageTimes
from toolhall.pipeline.states import Allowed, Equipped, Found, Verified
from toolhall.redaction.secret_patterns import redact_patterns
from toolhall.registry.snapshot import Entry
from toolhall.schema.annotations import NO_SECRET_FIELDS, secret_fields_of
from toolhall.stores.audit.anchors import BEHIND_MESSAGE

SIGNED_FROM_LEVEL = 7  # from this level an intent gets its own signed checkpoint, which goes to the store at once
MAX_TOOL_NAME = 128  # of a tool that was not found
MAX_TEXT = 256
MAX_URI = 1_024  # characters of a URI in a record
MAX_NAMES = 32  # of arguments in a record
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
    Found | Allowed | Verified | Equipped | str | None
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
    stage: CallStage | None = None
    stages_us: tuple[int, ...] | None = None
    server: str | None = None
    request: Call | None = None  # of a read or a prompt

    def record(self) -> AuditRecord:
        """Return the record; text from outside is cut and cleaned, so that it can neither fill nor forge one."""
        verdict, caller, arguments, request = self.verdict, self.caller, self.arguments, self.request
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
            self.stage,
            self.stages_us,
            None if self.server is None else clean_name(self.server),
            None if request is None or request.kind == "tool" else request.kind,
            None if request is None or request.kind != "resource" else recorded_uri(request, entry),
            _argument_names(request) if request is not None and request.kind == "prompt" else None,
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


class CallEnding(msgspec.Struct, eq=False):
    """How a call ended, for its record."""

    reached: StageReached = None
    outcome: str = "Broken"
    bytes_out: int = 0
    error: BaseException | None = None  # that ended the call, if any
    stage: CallStage | None = None  # None for an administrative operation
    times: StageTimes | None = None  # None: nobody takes them

    @classmethod
    def of(
        cls,
        outcome: str,
        reached: StageReached = None,
        error: BaseException | None = None,
        stage: CallStage | None = None,
    ) -> "CallEnding":
        """Return the ending of a call without a result."""
        return cls(outcome=outcome, reached=reached, error=error, stage=stage)


class Audit:
    """Writes the audit records of calls and administrative operations."""

    def __init__(self, journal: Journal, clock: Callable[[], float], timer: Callable[[], float]) -> None:
        self._journal = journal
        self._append = journal.append
        self._clock = clock
        self.timer = timer
        self._arguments: dict[str, bytes | str] = {}  # of running calls, by call id
        self._servers: dict[str, str] = {}  # that running calls went to, by call id

    def keep_arguments(self, call: Call) -> None:
        """Keep a call's arguments as they are now until it ends, because a tool may change them."""
        self._arguments[call.id] = _encoded_arguments(call)

    def note_server(self, call_id: str, server: str) -> None:
        """Note the tool server that a running call goes to."""
        self._servers[call_id] = server

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
                request=None if call.kind == "tool" else call,
            ),
            sign=reached is not None and reached.verdict.level >= SIGNED_FROM_LEVEL,
        )

    def write(self, call: Call, ending: CallEnding) -> float:
        """Write the one record of a call that has ended, and return the seconds that it took."""
        reached, ended, times = ending.reached, ending.error, ending.times
        redactions, approval = 0, None
        if type(reached) is Equipped:
            tool: Entry | str = reached.entry
            verdict: Verdict | None = reached.verdict
            approval, redactor = reached.approval, reached.redactor
            if redactor is not None:
                redactions = redactor.count
        else:
            tool, verdict = _tool_and_verdict(call, reached, ended)
            if isinstance(ended, NeedsVerification):
                approval = ended.id
            elif isinstance(reached, Verified):
                approval = reached.approval
        arguments = self._arguments.pop(call.id, None) if self._arguments else None
        if arguments is None:
            arguments = call.encoded_arguments
            if arguments is None or len(arguments) > MAX_KEPT_BYTES:
                arguments = _encoded_arguments(call)
        now = self.timer()
        seconds = now - call.started
        duration_us = int(seconds * 1e6)
        self._append(
            RecordDraft(
                self._clock(),
                call.id,
                call.caller,
                call.dialect,
                tool,
                ending.outcome,
                verdict,
                arguments,
                duration_us,
                call.size,
                ending.bytes_out,
                approval,
                redactions,
                None,
                ending.stage,
                None if times is None else times.finish(now, duration_us),
                self._servers.pop(call.id, None) if self._servers else None,
                None if call.kind == "tool" else call,
            )
        )
        return seconds


def recorded_uri(read: Call, entry: Entry | None) -> str:
    """Return the URI of a read, cut, and without the values of secret variables and what has the shape of a secret."""
    uri = read.tool if read.requested_name is None else read.requested_name
    template = None if entry is None else entry.uri_template
    if len(uri) <= MAX_URI_LENGTH and template is not None and template.is_template:
        found = template.match(uri)
        secrecy = secret_fields_of(entry.tool.input) if entry is not None else NO_SECRET_FIELDS
        shown = redact_parts(RedactionInput("", found, "", secrecy)).values[0]
        if shown != found:
            uri = template.expand(shown) if isinstance(shown, dict) else template.text
    return clean_name(uri, MAX_URI)


def _argument_names(prompt: Call) -> tuple[str, ...] | None:
    names = [clean_name(name, MAX_TOOL_NAME) for name in list(prompt.arguments)[:MAX_NAMES]]
    return tuple(names) or None


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
    if isinstance(reached, Found | Allowed | Verified):
        return reached.entry, _denial(ended) or (None if isinstance(reached, Found) else reached.verdict)
    if isinstance(ended, NotFound) and isinstance(ended.hidden, NotVisible):
        return ended.hidden.entry, ended.hidden.verdict
    return reached if isinstance(reached, str) else call.tool, _denial(ended)


def _denial(ended: BaseException | None) -> Deny | None:
    """Return the verdict behind an error."""
    if isinstance(ended, Denied):
        return Deny(ended.message, ended.by, ended.level or 0)
    return Deny(ended.message) if isinstance(ended, Unauthenticated) else None
