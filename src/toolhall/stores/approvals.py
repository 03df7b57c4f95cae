"""Approvals: ApprovalRequest and Approval, the ApprovalStore protocol and its in-memory implementation.

An approval is bound to one exact call and consumed once, however many callers claim it concurrently. Time is the
store's own and never runs backwards, so a caller cannot extend an approval by stating or resetting a clock.
"""

import hashlib
import time
from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import VerificationMethod
from toolhall.stores.common import Clock, MonotonicClock

PENDING_SECONDS = 300.0  # from the question to the last moment that the call may run
STEP_UP_SECONDS = 900.0  # a person who has just verified is not asked again for that long
COOL_DOWN_SECONDS = 60.0  # after a no, the same caller does not ask for the same tool again
MAX_PENDING_PER_CALLER = 3  # of one caller
MAX_PENDING_TOTAL = 1_000
RETENTION_SECONDS = 30 * 86_400.0  # what ended longer ago is forgotten
MAX_STORED = 10_000
ApprovalState: TypeAlias = Literal["pending", "approved", "denied", "consumed", "expired"]
ApprovalMethod: TypeAlias = Literal["totp", "passkey", "terminal", "cli"]
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]
_CALLER_FIELDS = ("how", "caller", "person", "acting_for")
_CALL_FIELDS = ("tool", "definition_sha256", "code_sha256", "arguments_sha256")


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One exact call that waits for a person; `shown` is what the person reads, byte for byte."""

    how: VerificationMethod
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


class Approval(ApprovalRequest, frozen=True, kw_only=True):
    """The question and, once there is one, its answer."""

    id: _Text
    created: float
    expires: float
    state: ApprovalState = "pending"
    approver: _Text | None = None
    method: ApprovalMethod | None = None
    decided_at: float | None = None


class Decision(msgspec.Struct, frozen=True):
    """What a person said, and how it is known who that was."""

    state: Literal["approved", "denied"]
    approver: str
    method: ApprovalMethod | None = None


class CoolingDown(Exception):
    """Nobody is asked now: too much waits for an answer, or the person has just said no."""

    def __init__(self, reason: Literal["pending", "denied"], seconds: float) -> None:
        self.reason = reason
        self.seconds = seconds
        super().__init__(f"{reason}: ask again in {seconds:.0f} seconds")


class ApprovalReader(Protocol):
    """What may be read, also while another process writes."""

    async def find(self, approval_id: str) -> Approval | None:
        """As it stands now: what is too old is `expired`."""
        ...

    async def pending(self) -> tuple[Approval, ...]:
        """Everything that waits for an answer, the oldest first."""
        ...

    async def last_approved(self, approval: Approval) -> Approval | None:
        """The last one that was approved of the same caller and tool, whatever its version."""
        ...


class ApprovalStore(ApprovalReader, Protocol):
    """A yes is used once, however many ask for it at the same moment."""

    async def claim(self, request: ApprovalRequest, new_id: str) -> Approval:
        """Use up the yes to this exact call (`consumed`), or ask for one (`pending`); raises NotNow.

        The same question is asked once. A step-up is good for a while, whatever is called, and is not used up.
        """
        ...

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Answer what is pending; None if it no longer is."""
        ...


def is_same_request(request: ApprovalRequest, other: ApprovalRequest) -> bool:
    """Whether one answer would do for both."""
    return all(getattr(request, name) == getattr(other, name) for name in binding_fields(request))


def binding_fields(request: ApprovalRequest) -> tuple[str, ...]:
    """The members that an answer is bound to: who asks for whom, and unless it is a step-up, the exact call."""
    return _CALLER_FIELDS if request.how == "step_up" else _CALLER_FIELDS + _CALL_FIELDS


def new_approval(request: ApprovalRequest, new_id: str, now: float) -> Approval:
    """The question, as it is first kept."""
    return Approval(**msgspec.structs.asdict(request), id=new_id, created=now, expires=now + PENDING_SECONDS)


def with_decision(approval: Approval, decision: Decision, now: float) -> Approval:
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


def with_expiry(approval: Approval, now: float) -> Approval:
    """A question or an unused yes that is too old is expired."""
    if approval.state in ("pending", "approved") and approval.expires <= now:
        return msgspec.structs.replace(approval, state="expired")
    return approval


def check_limits(request: ApprovalRequest, pending: Iterable[Approval], denied: Iterable[Approval], now: float) -> None:
    """Raise NotNow if the person has just said no, or if too many questions wait already."""
    for each in denied:
        until = (each.decided_at or 0.0) + COOL_DOWN_SECONDS
        if each.caller == request.caller and each.tool_key == request.tool_key and until > now:
            raise CoolingDown("denied", until - now)
    expiring = [(each.caller == request.caller, each.expires) for each in pending]
    own = sorted(expires for mine, expires in expiring if mine)
    if len(own) >= MAX_PENDING_PER_CALLER:
        raise CoolingDown("pending", own[0] - now)
    if len(expiring) >= MAX_PENDING_TOTAL:
        raise CoolingDown("pending", min(expires for _, expires in expiring) - now)


class MemoryApprovalStore:
    """Keeps them until the process ends; nothing here waits, so nothing comes in between."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = MonotonicClock(clock)
        self._approvals: dict[str, Approval] = {}
        self._live: dict[str, Approval] = {}  # those that a call may still meet: few, where many are kept

    async def find(self, approval_id: str) -> Approval | None:
        """As it stands now: what is too old is `expired`."""
        found = self._approvals.get(approval_id)
        return None if found is None else with_expiry(found, self._clock())

    async def pending(self) -> tuple[Approval, ...]:
        """Everything that waits for an answer, the oldest first."""
        now = self._clock()
        waiting = [each for each in self._with_state("pending") if _is_live(each, now)]
        return tuple(sorted(waiting, key=lambda each: (each.created, each.id)))

    async def last_approved(self, approval: Approval) -> Approval | None:
        """The last one that was approved of the same caller and tool, whatever its version."""
        about = (approval.caller, approval.tool_key)
        said_yes = [
            each
            for each in self._approvals.values()
            if each.state in ("approved", "consumed")
            and (each.caller, each.tool_key) == about
            and each.id != approval.id
        ]
        last = max(said_yes, key=lambda each: (each.decided_at or 0.0, each.id), default=None)
        return None if last is None else with_expiry(last, self._clock())

    async def claim(self, request: ApprovalRequest, new_id: str) -> Approval:
        """Use up the yes to this exact call (`consumed`), or ask for one (`pending`); raises NotNow."""
        now = self._clock()
        self._live = {each.id: each for each in self._live.values() if _is_live(each, now)}
        for each in self._with_state("approved"):
            if is_same_request(request, each):
                return each if each.how == "step_up" else self._put(msgspec.structs.replace(each, state="consumed"))
        waiting = self._with_state("pending")
        for each in waiting:
            if is_same_request(request, each):
                return each
        check_limits(request, waiting, self._with_state("denied"), now)
        self._prune(now)
        return self._put(new_approval(request, new_id, now))

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Answer what is pending; None if it no longer is."""
        now = self._clock()
        found = self._approvals.get(approval_id)
        if found is None or with_expiry(found, now).state != "pending":
            return None
        return self._put(with_decision(found, decision, now))

    def _with_state(self, state: str) -> list[Approval]:
        return [each for each in self._live.values() if each.state == state]

    def _put(self, approval: Approval) -> Approval:
        self._approvals[approval.id] = self._live[approval.id] = approval
        return approval

    def _prune(self, now: float) -> None:
        """What ended long ago goes, and of too many those that ended first."""
        kept = {each.id: each for each in self._approvals.values() if each.expires > now - RETENTION_SECONDS}
        surplus = max(len(kept) + 1 - MAX_STORED, 0)
        for each in sorted(kept.values(), key=lambda each: (each.expires, each.id))[:surplus]:
            if each.expires <= now:
                del kept[each.id]
        self._approvals = kept


def _is_live(approval: Approval, now: float) -> bool:
    """Whether a call may still be let in, wait or be refused by it."""
    if approval.state == "denied":
        return (approval.decided_at or 0.0) + COOL_DOWN_SECONDS > now
    return with_expiry(approval, now).state in ("pending", "approved")
