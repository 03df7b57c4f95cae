"""Who may say yes or no to a call, and what happens then; each decision is recorded like any change."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolhall.model.caller import APPROVE, Caller
from toolhall.model.errors import Denied, Malformed, NotFound
from toolhall.pipeline.approvals import Approvals
from toolhall.pipeline.manage import Change, Manage
from toolhall.stores.approvals.base import Approval, Decision, Method

Prove: TypeAlias = Callable[[str, Approval], Awaitable[None]]  # raises unless this person is there

UNKNOWN = "there is no such approval; it may have been forgotten since"
STRANGER = "this call is not yours to decide"
OWN = "a call of level 10 needs the yes of another person than the one who asks for it"
_BOUND = ("definition_sha256", "code_sha256", "arguments_sha256", "shown_sha256")
_RECORDED = ("id", "tool", "caller", "person", "acting_for", *_BOUND)


class TooLate(Malformed):
    """It is no longer pending; `state` says what became of it."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"this approval is {state}; nothing was changed")


class Deciding:
    """Decides nothing for a person who has not proved to be there."""

    def __init__(self, approvals: Approvals, manage: Manage) -> None:
        self.approvals = approvals
        self._manage = manage

    async def seen(self, approval_id: str, caller: Caller) -> Approval:
        """The approval, if this caller may see it; NotFound or Denied otherwise."""
        found = await self.approvals.store.find(approval_id)
        if found is None:
            raise NotFound(UNKNOWN)
        if not may_see(caller, found):
            raise Denied(STRANGER)
        return found

    async def waiting(self, caller: Caller) -> list[Approval]:
        """Everything that is pending and may be seen by this caller."""
        return [each for each in await self.approvals.store.pending() if may_see(caller, each)]

    async def approve(self, approval_id: str, caller: Caller, dialect: str, method: Method, prove: Prove) -> Approval:
        """Say yes; `prove` is asked whether the person is there, which is then known by `method`."""

        async def apply() -> Approval:
            found = await self._pending(approval_id, caller)
            if not may_approve(caller, found):
                raise Denied(OWN)
            await prove(decision.approver, found)
            return await self._decided(found, decision)

        decision = Decision("approved", person_of(caller), method)
        return await self._manage(await self._change("approve", approval_id, decision, dialect), caller, apply)

    async def deny(self, approval_id: str, caller: Caller, dialect: str, method: Method | None = None) -> Approval:
        """Say no; whoever may see it may do that."""

        async def apply() -> Approval:
            return await self._decided(await self._pending(approval_id, caller), decision)

        decision = Decision("denied", person_of(caller), method)
        return await self._manage(await self._change("deny", approval_id, decision, dialect), caller, apply)

    async def _change(self, verb: str, approval_id: str, decision: Decision, dialect: str) -> Change:
        """What the record says: which call of which tool is decided by whom, and how that is known."""
        found = await self.approvals.store.find(approval_id)
        if found is None:
            return Change(f"{verb} {approval_id}", dialect, {}, personal=True)
        facts = {name: getattr(found, name) for name in _RECORDED}
        given = {**facts, "approver": decision.approver, "method": decision.method}
        return Change(f"{verb} {found.id} {found.tool}", dialect, given, personal=True)

    async def _pending(self, approval_id: str, caller: Caller) -> Approval:
        found = await self.seen(approval_id, caller)
        if found.state != "pending":
            raise TooLate(found.state)
        return found

    async def _decided(self, found: Approval, decision: Decision) -> Approval:
        done = await self.approvals.store.decide(found.id, decision)
        if done is None:
            now = await self.approvals.store.find(found.id)
            raise TooLate(now.state if now else "forgotten")
        return done


def person_of(caller: Caller) -> str:
    """Who answers for a caller."""
    return caller.person or caller.id


def may_see(caller: Caller, approval: Approval) -> bool:
    """The person who is asked; of what a second person decides, also who may be that."""
    return _is_own(caller, approval) or (approval.how == "second_person" and _is_second(caller, approval))


def may_approve(caller: Caller, approval: Approval) -> bool:
    """The person who is asked; at level 10 never the one who answers for the call."""
    return _is_second(caller, approval) if approval.how == "second_person" else _is_own(caller, approval)


def _is_own(caller: Caller, approval: Approval) -> bool:
    return caller.proof != "none" and person_of(caller) == approval.person


def _is_second(caller: Caller, approval: Approval) -> bool:
    stranger = person_of(caller) != approval.person and caller.id != approval.caller
    return caller.proof != "none" and stranger and APPROVE in caller.scopes
