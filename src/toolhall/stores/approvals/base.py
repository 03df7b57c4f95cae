"""What must be remembered of the yes and no that people say to calls, and the protocol that every engine keeps.

Time is the store's own and never goes back: nobody who asks it says what time it is, and a clock that is wrong or set
back extends nothing.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.verdict import How

PENDING_SECONDS = 300.0  # from the question to the last moment that the call may run
STEP_UP_SECONDS = 900.0  # a person who has just verified is not asked again for that long
COOL_DOWN_SECONDS = 60.0  # after a no, the same caller does not ask for the same tool again
MOST_PENDING = 3  # of one caller
MOST_PENDING_OF_ALL = 1_000
KEPT_SECONDS = 30 * 86_400.0  # what ended longer ago is forgotten
MOST_KEPT = 10_000

State: TypeAlias = Literal["pending", "approved", "denied", "consumed", "expired"]
Method: TypeAlias = Literal["totp", "passkey", "terminal", "cli"]
Clock: TypeAlias = Callable[[], float]
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]
_WHO = ("how", "caller", "person", "acting_for")
_EXACT_CALL = ("tool", "definition_sha256", "code_sha256", "arguments_sha256")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One exact call that waits for a person; `shown` is what the person reads, byte for byte."""

    how: How
    caller: _Text
    person: _Text  # who answers for the caller
    acting_for: _Text | None = None  # the user it calls for
    tool: _Text  # with its version
    definition_sha256: _Text
    arguments_sha256: _Text
    code_sha256: _Text = ""  # of the code that would run, as far as that is known
    shown: bytes
    level: Annotated[int, msgspec.Meta(ge=0, le=10)]
    effect: _Text | None = None
    dialect: _Text

    @property
    def shown_sha256(self) -> str:
        """What stands for the text that the person sees."""
        return hashlib.sha256(self.shown).hexdigest()

    @property
    def tool_key(self) -> str:
        """The tool in all its versions."""
        return self.tool.rpartition("@")[0]


class Approval(Wanted, frozen=True, kw_only=True):
    """The question and, once there is one, its answer."""

    id: _Text
    created: float
    expires: float
    state: State = "pending"
    approver: _Text | None = None
    method: Method | None = None
    decided_at: float | None = None


class Decision(msgspec.Struct, frozen=True):
    """What a person said, and how it is known who that was."""

    state: Literal["approved", "denied"]
    approver: str
    method: Method | None = None


class NotNow(Exception):
    """Nobody is asked now: too much waits for an answer, or the person has just said no."""

    def __init__(self, why: Literal["pending", "denied"], seconds: float) -> None:
        self.why = why
        self.seconds = seconds
        super().__init__(f"{why}: ask again in {seconds:.0f} seconds")


class ApprovalReader(Protocol):
    """What may be read, also while another process writes."""

    async def find(self, approval_id: str) -> Approval | None:
        """As it stands now: what is too old is `expired`."""
        ...

    async def pending(self) -> tuple[Approval, ...]:
        """Everything that waits for an answer, the oldest first."""
        ...

    async def before(self, approval: Approval) -> Approval | None:
        """The last one that was approved of the same caller and tool, whatever its version."""
        ...


class ApprovalStore(ApprovalReader, Protocol):
    """A yes is used once, however many ask for it at the same moment."""

    async def claim(self, wanted: Wanted, new_id: str) -> Approval:
        """Use up the yes to this exact call (`consumed`), or ask for one (`pending`); raises NotNow.

        The same question is asked once. A step-up is good for a while, whatever is called, and is not used up.
        """
        ...

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Answer what is pending; None if it no longer is."""
        ...


def is_same(wanted: Wanted, other: Wanted) -> bool:
    """Whether one answer would do for both."""
    return all(getattr(wanted, name) == getattr(other, name) for name in binding(wanted))


def binding(wanted: Wanted) -> tuple[str, ...]:
    """The members that an answer is bound to: who asks for whom, and unless it is a step-up, the exact call."""
    return _WHO if wanted.how == "step_up" else _WHO + _EXACT_CALL


def asked(wanted: Wanted, new_id: str, now: float) -> Approval:
    """The question, as it is first kept."""
    return Approval(**msgspec.structs.asdict(wanted), id=new_id, created=now, expires=now + PENDING_SECONDS)


def decided(approval: Approval, decision: Decision, now: float) -> Approval:
    """The question with its answer; only a step-up is good for longer than the question was."""
    verified = decision.state == "approved" and approval.how == "step_up"
    return msgspec.structs.replace(
        approval,
        state=decision.state,
        approver=decision.approver,
        method=decision.method,
        decided_at=now,
        expires=now + STEP_UP_SECONDS if verified else approval.expires,
    )


def as_of(approval: Approval, now: float) -> Approval:
    """A question or an unused yes that is too old is expired."""
    if approval.state in ("pending", "approved") and approval.expires <= now:
        return msgspec.structs.replace(approval, state="expired")
    return approval


def refuse_crowd(wanted: Wanted, waiting: Iterable[Approval], denied: Iterable[Approval], now: float) -> None:
    """Raise NotNow if the person has just said no, or if too many questions wait already."""
    for each in denied:
        until = (each.decided_at or 0.0) + COOL_DOWN_SECONDS
        if each.caller == wanted.caller and each.tool_key == wanted.tool_key and until > now:
            raise NotNow("denied", until - now)
    expiring = [(each.caller == wanted.caller, each.expires) for each in waiting]
    own = sorted(expires for mine, expires in expiring if mine)
    if len(own) >= MOST_PENDING:
        raise NotNow("pending", own[0] - now)
    if len(expiring) >= MOST_PENDING_OF_ALL:
        raise NotNow("pending", min(expires for _, expires in expiring) - now)
