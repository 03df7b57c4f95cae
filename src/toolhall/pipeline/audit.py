"""Writes one record for every call, however it ends; and one before a side effect, which is there before it can be."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.call import Call
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, NeedsVerification, NotFound, Unauthenticated, Unavailable
from toolhall.model.json import encode
from toolhall.model.record import Record
from toolhall.model.secret_shapes import hide
from toolhall.model.verdict import Allow, Deny, Verdict, Verify
from toolhall.pipeline.find import Hidden
from toolhall.pipeline.states import Allowed, Equipped, Found
from toolhall.registry.entry import Entry
from toolhall.stores.audit.anchors import BEHIND

SIGNED_FROM = 7  # the level from which an intent gets a checkpoint of its own, which the store hears of at once
MOST_NAME = 128  # of a tool that was not found
MOST_TEXT = 256
MOST_SECRET = 1_024  # of a secret that begins where a name is cut
MOST_REMEMBERED = 1_024  # names; most callers come again
MOST_KEPT = 1_024  # bytes of arguments that wait for their digest; more would fill the memory, where a disk is slow
_UNSEEN = "\ufffd"

Reached: TypeAlias = Found | Allowed | Equipped | str | None  # how far a call came, or the id of what is no more


class Draft(msgspec.Struct, frozen=True, gc=False):
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

    def record(self) -> Record:
        """The record; no text from outside can fill or forge one."""
        verdict, caller, given = self.verdict, self.caller, self.arguments
        entry = None if isinstance(self.tool, str) else self.tool
        return Record(
            self.time,
            self.call,
            named(caller.id),
            self.dialect,
            named(self.tool, MOST_NAME) if isinstance(self.tool, str) else self.tool.id,
            self.outcome,
            None if verdict is None else verdict.by,
            given if isinstance(given, str) else sha256(given).hexdigest(),
            self.duration_us,
            self.bytes_in,
            self.bytes_out,
            None if entry is None else entry.definition_sha256,
            None if verdict is None else verdict.level,
            None if verdict is None else _SAID[type(verdict)],
            plain(verdict.reason) if isinstance(verdict, Deny) else None,
            self.approval,
            None if caller.person is None or caller.person == caller.id else named(caller.person),
            None if caller.acting_for is None else named(caller.acting_for),
            self.redactions,
            self.phase,
        )


class Journal(Protocol):
    """Where records are kept."""

    @property
    def behind(self) -> Sequence[str]:
        """What the store knows of the audit that is not there; as long as there is anything, level 4 and up wait."""
        ...

    def append(self, record: Draft) -> None:
        """Keep this record."""
        ...

    def commit(self, record: Draft, *, sign: bool = False) -> Awaitable[None]:
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
        self._kept: dict[str, bytes | str] = {}  # what was given to calls that run

    def keep(self, call: Call) -> None:
        """Remember a call's arguments as they are now, until it ends: a tool may change them."""
        self._kept[call.id] = _given(call)

    def refuse_behind(self) -> None:
        """Raise Unavailable while the audit is not what the store knows of it; an operator has to look at it."""
        if self._journal.behind:
            raise Unavailable(BEHIND)

    def intent(self, call: Call, reached: Equipped | None = None) -> Awaitable[None]:
        """What is about to happen; wait for this before it does. Raises Unavailable if it cannot be recorded."""
        if reached is not None:
            self.refuse_behind()
        given = self._kept[call.id] = _given(call)
        return self._journal.commit(
            Draft(
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
            sign=reached is not None and reached.verdict.level >= SIGNED_FROM,
        )

    def write(
        self,
        call: Call,
        reached: Reached,
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
        elif isinstance(ended, NotFound) and isinstance(ended.hidden, Hidden):
            tool, verdict = ended.hidden.entry, ended.hidden.verdict
        else:
            tool, verdict = reached if isinstance(reached, str) else call.tool, _denial(ended)
        self._journal.append(
            Draft(
                self._clock(),
                call.id,
                call.caller,
                call.dialect,
                tool,
                outcome,
                verdict,
                self._kept.pop(call.id, b"") or _given(call),
                int((self.timer() - call.started) * 1e6),
                call.size,
                bytes_out,
                approval,
                redactions,
            )
        )


@lru_cache(MOST_REMEMBERED)
def named(name: str, most: int = MOST_TEXT) -> str:
    """A name from outside as a record has it: plain, and without what has the shape of a secret."""
    return plain(hide(name[: most + MOST_SECRET], _forget), most)


def plain(text: str, most: int = MOST_TEXT) -> str:
    """Text from outside that can neither fill nor forge a record: cut, and without what does not print."""
    if len(text) > most:
        text = text[:most]
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _UNSEEN for letter in text)


def _forget(_: str) -> None:
    """Which secret it was does not matter."""


def _given(call: Call) -> bytes | str:
    given = encode(call.arguments)
    return given if len(given) <= MOST_KEPT else sha256(given).hexdigest()


def _denial(ended: BaseException | None) -> Deny | None:
    """The verdict behind a refusal."""
    if isinstance(ended, Denied):
        return Deny(ended.message, ended.by, ended.level or 0)
    return Deny(ended.message) if isinstance(ended, Unauthenticated) else None


_SAID: dict[type[Verdict], Literal["allow", "deny", "verify"]] = {Allow: "allow", Deny: "deny", Verify: "verify"}
