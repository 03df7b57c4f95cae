"""Approvals and used request states: ApprovalStore and UsedStateStore, with their in-memory implementations.

An approval is bound to one exact call and consumed once, however many callers claim it concurrently. Time is the
store's own and never runs backwards, so a caller cannot extend an approval by stating or resetting a clock.

A request state is good once: UsedStateStore remembers which ones were consumed until they expire.
"""

import hashlib
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import VerificationMethod
from toolhall.stores.common import Clock, MonotonicClock

PENDING_SECONDS = 300.0  # from the request until the call must have begun
STEP_UP_SECONDS = 900.0  # how long a step-up verification stays valid
COOL_DOWN_SECONDS = 60.0  # after a denial, until the same caller may request the same tool again
MAX_PENDING_PER_CALLER = 3
MAX_PENDING_TOTAL = 1_000
RETENTION_SECONDS = 30 * 86_400.0  # after it expired, an approval is kept that long
MAX_STORED = 10_000
MAX_REASON_LENGTH = 500  # of a no
MAX_LISTED = 1_000  # of decided approvals
ApprovalState: TypeAlias = Literal["pending", "approved", "denied", "consumed", "expired"]
ApprovalMethod: TypeAlias = Literal["totp", "passkey", "terminal", "cli"]
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]
_CALLER_FIELDS = ("how", "caller", "person", "acting_for")
_CALL_FIELDS = ("tool", "definition_sha256", "code_sha256", "arguments_sha256")


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One exact call that needs a person's approval; `shown` is the text that the person reads, byte for byte."""

    how: VerificationMethod
    caller: _Text
    person: _Text  # responsible for the caller
    acting_for: _Text | None = None  # the user that the caller calls for
    tool: _Text  # with its version
    definition_sha256: _Text
    arguments_sha256: _Text
    code_sha256: _Text = ""  # of the code that would run, if known
    shown: bytes
    level: Annotated[int, msgspec.Meta(ge=0, le=10)]
    effect: _Text | None = None
    dialect: _Text

    @property
    def shown_sha256(self) -> str:
        """The digest of the text that the person reads."""
        return hashlib.sha256(self.shown).hexdigest()

    @property
    def tool_key(self) -> str:
        """The tool's name without its version."""
        return self.tool.rpartition("@")[0]


class Approval(ApprovalRequest, frozen=True, kw_only=True):
    """A request for approval and, once decided, its decision."""

    id: _Text
    created: float
    expires: float
    state: ApprovalState = "pending"
    approver: _Text | None = None
    method: ApprovalMethod | None = None
    decided_at: float | None = None
    reason: _Text | None = None  # why it was denied, in the words of the person


class Decision(msgspec.Struct, frozen=True):
    """A person's decision and how the person was authenticated."""

    state: Literal["approved", "denied"]
    approver: str
    method: ApprovalMethod | None = None
    reason: str | None = None


class CoolingDown(Exception):
    """No new request is accepted for `seconds`: too many are pending, or the person has just denied one, and why."""

    def __init__(self, reason: Literal["pending", "denied"], seconds: float, words: str | None = None) -> None:
        self.reason = reason
        self.words = words
        self.seconds = seconds
        super().__init__(f"{reason}: ask again in {seconds:.0f} seconds")


class ApprovalReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def find(self, approval_id: str) -> Approval | None:
        """Return the approval with its current state; None if there is none."""
        ...

    async def pending(self) -> tuple[Approval, ...]:
        """Return pending approvals, oldest first."""
        ...

    async def last_approved(self, approval: Approval) -> Approval | None:
        """Return the last approved one of the same caller and tool, in any version."""
        ...

    async def decided(self, since: float) -> tuple[Approval, ...]:
        """Return the newest approvals that people have decided since then, at most MAX_LISTED, newest first."""
        ...

    async def preview(self, request: ApprovalRequest) -> bool:
        """Return whether `claim` would let this call run; False if it would wait for a person. Raises CoolingDown."""
        ...


class ApprovalStore(ApprovalReader, Protocol):
    """An approval is consumed once, however many callers claim it concurrently."""

    async def claim(self, request: ApprovalRequest, new_id: str) -> Approval:
        """Use up the yes to this exact call (`consumed`), or ask for one (`pending`); raises NotNow.

        An identical pending request is returned instead of a second one. A step-up covers every call of the caller
        for STEP_UP_SECONDS and is not consumed.
        """
        ...

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Decide a pending approval and return it; None if it is not pending."""
        ...


def is_same_request(request: ApprovalRequest, other: ApprovalRequest) -> bool:
    """True if one decision covers both requests."""
    return all(getattr(request, name) == getattr(other, name) for name in binding_fields(request))


def binding_fields(request: ApprovalRequest) -> tuple[str, ...]:
    """Name the fields that a decision is bound to: the caller and, unless it is a step-up, the exact call."""
    return _CALLER_FIELDS if request.how == "step_up" else _CALLER_FIELDS + _CALL_FIELDS


def new_approval(request: ApprovalRequest, new_id: str, now: float) -> Approval:
    """Return a new pending approval."""
    return Approval(**msgspec.structs.asdict(request), id=new_id, created=now, expires=now + PENDING_SECONDS)


def with_decision(approval: Approval, decision: Decision, now: float) -> Approval:
    """Return the decided approval; only a step-up extends the time until it expires."""
    verified = decision.state == "approved" and approval.how == "step_up"
    return msgspec.structs.replace(
        approval,
        state=decision.state,
        approver=decision.approver,
        method=decision.method,
        reason=decision.reason,
        decided_at=now,
        expires=now + STEP_UP_SECONDS if verified else approval.expires,
    )


def with_expiry(approval: Approval, now: float) -> Approval:
    """Return the approval, as `expired` if it was pending or unused for too long."""
    if approval.state in ("pending", "approved") and approval.expires <= now:
        return msgspec.structs.replace(approval, state="expired")
    return approval


def check_limits(request: ApprovalRequest, pending: Iterable[Approval], denied: Iterable[Approval], now: float) -> None:
    """Raise CoolingDown if the person has just denied this tool, or if too many requests are pending."""
    for each in denied:
        until = (each.decided_at or 0.0) + COOL_DOWN_SECONDS
        if each.caller == request.caller and each.tool_key == request.tool_key and until > now:
            is_for_same = (each.person, each.acting_for) == (request.person, request.acting_for)
            raise CoolingDown("denied", until - now, each.reason if is_for_same else None)
    expiring = [(each.caller == request.caller, each.expires) for each in pending]
    own = sorted(expires for mine, expires in expiring if mine)
    if len(own) >= MAX_PENDING_PER_CALLER:
        raise CoolingDown("pending", own[0] - now)
    if len(expiring) >= MAX_PENDING_TOTAL:
        raise CoolingDown("pending", min(expires for _, expires in expiring) - now)


def newest_decided(approvals: Iterable[Approval], since: float) -> tuple[Approval, ...]:
    """Return those that were decided since then, as every store lists them."""
    decided = [each for each in approvals if each.decided_at is not None and each.decided_at >= since]
    return tuple(sorted(decided, key=lambda each: (each.decided_at, each.id), reverse=True)[:MAX_LISTED])


def is_approved(
    request: ApprovalRequest,
    approved: Iterable[Approval],
    pending: Sequence[Approval],
    denied: Iterable[Approval],
    now: float,
) -> bool:
    """Return whether one of the approved covers the request, False if it may be pending; raises CoolingDown if not."""
    if any(is_same_request(request, each) for each in approved):
        return True
    if not any(is_same_request(request, each) for each in pending):
        check_limits(request, pending, denied, now)
    return False


class MemoryApprovalStore:
    """In-memory implementation; no method awaits anything, so each one is atomic."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = MonotonicClock(clock)
        self._approvals: dict[str, Approval] = {}
        self._live: dict[str, Approval] = {}  # those that can still affect a call: few, where many are stored

    async def find(self, approval_id: str) -> Approval | None:
        """Return the approval with its current state; None if there is none."""
        found = self._approvals.get(approval_id)
        return None if found is None else with_expiry(found, self._clock())

    async def pending(self) -> tuple[Approval, ...]:
        """Return pending approvals, oldest first."""
        now = self._clock()
        waiting = [each for each in self._with_state("pending") if _is_live(each, now)]
        return tuple(sorted(waiting, key=lambda each: (each.created, each.id)))

    async def last_approved(self, approval: Approval) -> Approval | None:
        """Return the last approved one of the same caller and tool, in any version."""
        about = (approval.caller, approval.tool_key)
        granted = [
            each
            for each in self._approvals.values()
            if each.state in ("approved", "consumed")
            and (each.caller, each.tool_key) == about
            and each.id != approval.id
        ]
        last = max(granted, key=lambda each: (each.decided_at or 0.0, each.id), default=None)
        return None if last is None else with_expiry(last, self._clock())

    async def decided(self, since: float) -> tuple[Approval, ...]:
        """Return the newest approvals that people have decided since then, newest first."""
        now = self._clock()
        return newest_decided((with_expiry(each, now) for each in self._approvals.values()), since)

    async def preview(self, request: ApprovalRequest) -> bool:
        """Return whether `claim` would let this call run; False if it would wait for a person. Raises CoolingDown."""
        now = self._clock()
        live = [each for each in self._live.values() if _is_live(each, now)]
        states = {state: [each for each in live if each.state == state] for state in ("approved", "pending", "denied")}
        return is_approved(request, states["approved"], states["pending"], states["denied"], now)

    async def claim(self, request: ApprovalRequest, new_id: str) -> Approval:
        """Consume the approval of this exact call (`consumed`), or request one (`pending`); raises CoolingDown."""
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
        """Decide a pending approval and return it; None if it is not pending."""
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
        """Delete rows past their retention, and above the limit those that expired first."""
        retained = {each.id: each for each in self._approvals.values() if each.expires > now - RETENTION_SECONDS}
        surplus = max(len(retained) + 1 - MAX_STORED, 0)
        for each in sorted(retained.values(), key=lambda each: (each.expires, each.id))[:surplus]:
            if each.expires <= now:
                del retained[each.id]
        self._approvals = retained


def _is_live(approval: Approval, now: float) -> bool:
    """True if the approval can still admit, hold back or refuse a call."""
    if approval.state == "denied":
        return (approval.decided_at or 0.0) + COOL_DOWN_SECONDS > now
    return with_expiry(approval, now).state in ("pending", "approved")


MAX_USED_STATES = 10_000  # remembered per caller; each is forgotten once it has expired


class TooManyStates(Exception):
    """A caller has used as many states as are remembered per caller; the oldest expires in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"more than {MAX_USED_STATES} states were used lately; wait {seconds:.0f} seconds")


class UsedStateStore(Protocol):
    """Remembers consumed states until they expire; expired ones are refused when they are decrypted."""

    async def consume(self, state_id: str, caller: str, expires: float, now: float) -> bool:
        """Consume the state; False if it was consumed before. Raises TooManyStates."""
        ...

    async def release(self, state_id: str) -> None:
        """Make the state usable again, because its request had no effect."""
        ...

    async def unexpired(self, prefix: str, now: float) -> dict[str, float]:
        """Return the consumed states whose ids begin with this prefix, and when each expires."""
        ...


class MemoryUsedStateStore:
    """In-memory implementation, for halls without a data folder and as the oracle of the interface tests."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[str, float]] = {}
        self._counts: dict[str, int] = {}  # by caller

    async def consume(self, state_id: str, caller: str, expires: float, now: float) -> bool:
        """Consume the state; False if it was consumed before. Raises TooManyStates."""
        if state_id in self._used and self._used[state_id][1] > now:
            return False
        if self._counts.get(caller, 0) >= MAX_USED_STATES:
            self._prune(now)
        if self._counts.get(caller, 0) >= MAX_USED_STATES:
            raise TooManyStates(min(until for who, until in self._used.values() if who == caller) - now)
        if len(self._used) % MAX_USED_STATES == 0:  # now and then, so that callers that stopped calling are forgotten
            self._prune(now)
        self._used[state_id] = caller, expires
        self._counts[caller] = self._counts.get(caller, 0) + 1
        return True

    async def release(self, state_id: str) -> None:
        """Make the state usable again, because its request had no effect."""
        found = self._used.pop(state_id, None)
        if found is not None:
            self._counts[found[0]] -= 1

    async def unexpired(self, prefix: str, now: float) -> dict[str, float]:
        """Return the consumed states whose ids begin with this prefix, and when each expires."""
        return {name: until for name, (_, until) in self._used.items() if name.startswith(prefix) and until > now}

    def _prune(self, now: float) -> None:
        self._used = {name: used for name, used in self._used.items() if used[1] > now}
        self._counts = {}
        for caller, _ in self._used.values():
            self._counts[caller] = self._counts.get(caller, 0) + 1
