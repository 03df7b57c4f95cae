"""ApprovalService asks a person to approve a call; ApprovalDecisions records who approved or denied it.

An approval is bound to the caller, the tool's definition and code, and the canonical bytes (RFC 8785) of the arguments,
and is used once. Nothing that the caller sends counts as approval.
"""

import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Iterator
from math import isfinite
from typing import TypeAlias

import msgspec

from toolhall.contracts.digest import canonical_json
from toolhall.model.caller import APPROVE, Caller, RequireVerification
from toolhall.model.errors import (
    BadArguments,
    Denied,
    Limited,
    Malformed,
    NeedsVerification,
    NotFound,
    Problem,
    Unavailable,
)
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Call
from toolhall.model.requirements import CallerCredentials
from toolhall.model.text import clean_text
from toolhall.pipeline.admin import AdminExecutor, AdminOperation
from toolhall.registry.snapshot import Entry
from toolhall.stores.approvals import (
    MAX_REASON_LENGTH,
    Approval,
    ApprovalMethod,
    ApprovalRequest,
    ApprovalStore,
    CoolingDown,
    Decision,
)
from toolhall.stores.common import StoreFailed

APPROVE_PATH = "/approve/"
UNKNOWN_APPROVAL = "there is no such approval; it may have been forgotten since"
NOT_YOUR_CALL = "this call is not yours to decide"
NEEDS_SECOND_PERSON = "a call of level 10 needs the yes of another person than the one who asks for it"
_BOUND_FIELDS = ("definition_sha256", "code_sha256", "arguments_sha256", "shown_sha256")
_RECORDED_FIELDS = ("id", "tool", "caller", "person", "acting_for", *_BOUND_FIELDS)
_ID_BYTES = 16
_MAX_SAFE_INTEGER = 2**53 - 1  # RFC 8785: beyond this, two programs may read two numbers
_CREDENTIALS_MEMBER = "credentials that the caller brings"
_COOLDOWN_MESSAGES = {
    "pending": "too many calls of this caller wait for a person's yes; the oldest of them ends in {:.0f} seconds",
    "denied": "a person has just said no to this tool; it can be asked for again in {:.0f} seconds",
}
_QUESTIONS = {
    "step_up": "needs a person who has just verified again: let {person} open {url}, then repeat the call",
    "approval": "needs a person's yes to exactly this call: let {person} open {url}, then repeat the call unchanged",
    "second_person": "needs the yes of another person than {person} to exactly this call: let somebody with the scope"
    " 'approve' open {url}, then repeat the call unchanged",
}
PresenceCheck: TypeAlias = Callable[[str, Approval], Awaitable[None]]  # raises unless this person is present


class TooManyPending(Limited):
    """Too many approvals of this caller are pending, or a person has just denied one for the tool."""

    def __init__(self, refused: CoolingDown) -> None:
        super().__init__(refused.seconds)
        self.message = _COOLDOWN_MESSAGES[refused.reason].format(refused.seconds)
        if refused.words:
            self.message += f"; the reason they gave: {refused.words}"
        self.args = (self.message,)


class ApprovalService:
    """Requests approvals, which people give on a page of the hall; `base_url` returns where that is served now."""

    def __init__(self, store: ApprovalStore, base_url: Callable[[], str]) -> None:
        self.store = store
        self._base_url = base_url

    async def verify(self, call: Call, entry: Entry, arguments: JsonObject, verdict: RequireVerification) -> str:
        """Use up the approval of this exact call and return its id.

        Raises NeedsVerification with the URL of a pending approval, TooManyPending or Unavailable.
        """
        request = approval_request(call, entry, arguments, verdict)
        try:
            found = await self.store.claim(request, new_approval_id())
        except CoolingDown as refused:
            raise TooManyPending(refused) from None
        except StoreFailed as failed:
            raise Unavailable("nobody can be asked now: approvals cannot be kept", detail=str(failed)) from None
        if found.state != "pending":
            return found.id
        raise self._needs_verification(found)

    def url_for(self, approval_id: str) -> str:
        """Return the page on which a person decides; the URL carries no authority, so it may be shown to anybody."""
        return f"{self._base_url()}{APPROVE_PATH}{approval_id}"

    def _needs_verification(self, found: Approval) -> NeedsVerification:
        url = self.url_for(found.id)
        question = _QUESTIONS[found.how].format(person=found.person, url=url)
        return NeedsVerification(f"level {found.level} {question}", how=found.how, url=url, id=found.id)


def approval_request(call: Call, entry: Entry, arguments: JsonObject, verdict: RequireVerification) -> ApprovalRequest:
    """Return what a person is asked to approve; raises BadArguments for arguments without one canonical form."""
    canonical = canonical_arguments(shown_arguments(call, arguments), call.caller_credentials)
    caller = call.caller
    return ApprovalRequest(
        how=verdict.how,
        caller=caller.id,
        person=caller.person or caller.id,
        acting_for=caller.acting_for,
        tool=entry.id,
        definition_sha256=entry.definition_sha256,
        code_sha256=entry.code_sha256,
        arguments_sha256=hashlib.sha256(canonical).hexdigest(),
        shown=pretty_json(canonical),
        level=verdict.level,
        effect=entry.tool.effect,
        dialect=call.dialect,
    )


def shown_arguments(call: Call, arguments: JsonObject) -> JsonObject:
    """Return what a person sees of a call: its arguments; of a read, the URI and the variables in it."""
    if call.kind != "resource":
        return arguments
    return {"uri": call.tool if call.requested_name is None else call.requested_name, "variables": arguments}


def call_sha256(call: Call, entry: Entry, arguments: JsonObject, verdict: RequireVerification) -> str:
    """Return a digest of everything that an approval of this call is bound to."""
    caller, credentials = call.caller, call.caller_credentials.labels if call.caller_credentials else None
    who = [verdict.how, caller.id, caller.person, caller.acting_for]
    what = [entry.id, entry.definition_sha256, entry.code_sha256, shown_arguments(call, arguments), credentials]
    return hashlib.sha256(msgspec.json.encode([who, what], order="sorted")).hexdigest()


def canonical_arguments(arguments: JsonObject, credentials: CallerCredentials | None = None) -> bytes:
    """Return the arguments as canonical JSON (RFC 8785).

    With credentials of the caller, it is a list of the arguments and what the credentials are for. Raises BadArguments.
    """
    problems = [Problem(path, reason) for path, reason in _non_canonical("", arguments)]
    if problems:
        raise BadArguments(problems[:10])
    # Arguments alone are an object, so they can never equal such a list.
    return canonical_json([arguments, {_CREDENTIALS_MEMBER: credentials.labels}] if credentials else arguments)


def pretty_json(encoded: bytes) -> bytes:
    """Return JSON with line breaks and indents, for people."""
    return msgspec.json.format(encoded, indent=2)


def new_approval_id() -> str:
    """Return 128 random bits as text; it never begins with a dash, because people type it as a command argument."""
    made = base64.urlsafe_b64encode(secrets.token_bytes(_ID_BYTES)).rstrip(b"=").decode()
    return new_approval_id() if made.startswith("-") else made


def _non_canonical(path: str, value: Json) -> Iterator[tuple[str, str]]:
    """Yield the path and fix of every value without one canonical form; JSON from outside is at most 64 levels deep."""
    match value:
        case bool() | None:
            return
        case dict():
            for key, part in value.items():
                yield from _non_canonical(f"{path}/{key.replace('~', '~0').replace('/', '~1')}", part)
        case list() | tuple():
            for number, part in enumerate(value):
                yield from _non_canonical(f"{path}/{number}", part)
        case int() if abs(value) > _MAX_SAFE_INTEGER:
            limit = f"use whole numbers within {_MAX_SAFE_INTEGER} here, or a text"
            yield path, f"{limit}: a person cannot approve what is not exact"
        case float() if not isfinite(value):
            yield path, "use a number"
        case str() if not _is_unicode(value):
            yield path, "use a text of whole Unicode characters"
        case str() | int() | float():
            return
        case _:
            yield path, "use plain JSON"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class TooLate(Malformed):
    """The approval is no longer pending; `state` is its present state."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"this approval is {state}; nothing was changed")


class ApprovalDecisions:
    """Approves and denies pending calls; an approval needs proof that the person is present."""

    def __init__(self, approvals: ApprovalService, admin: AdminExecutor) -> None:
        self.approvals = approvals
        self._admin = admin

    async def get_visible(self, approval_id: str, caller: Caller) -> Approval:
        """Return the approval if this caller may see it; raises NotFound or Denied."""
        found = await self.approvals.store.find(approval_id)
        if found is None:
            raise NotFound(UNKNOWN_APPROVAL)
        if not can_view(caller, found):
            raise Denied(NOT_YOUR_CALL)
        return found

    async def pending_for(self, caller: Caller) -> list[Approval]:
        """Return every pending approval that this caller may see."""
        return [each for each in await self.approvals.store.pending() if can_view(caller, each)]

    async def last_approved_for(self, caller: Caller, approval: Approval) -> Approval | None:
        """Return the last approved call of the same caller and tool; None if this caller may not see that one."""
        before = await self.approvals.store.last_approved(approval)
        return before if before is not None and can_view(caller, before) else None

    async def decided_for(self, caller: Caller, since: float) -> list[Approval]:
        """Return the approvals that were decided since then, as far as this caller may see them, newest first."""
        return [each for each in await self.approvals.store.decided(since) if can_view(caller, each)]

    async def approve(
        self, approval_id: str, caller: Caller, dialect: str, method: ApprovalMethod, check_presence: PresenceCheck
    ) -> Approval:
        """Approve the call after `check_presence` has proved by `method` that the person is present."""

        async def apply() -> Approval:
            found = await self._pending(approval_id, caller)
            if not can_approve(caller, found):
                raise Denied(NEEDS_SECOND_PERSON)
            await check_presence(decision.approver, found)
            return await self._decide(found, decision)

        decision = Decision("approved", person_of(caller), method)
        return await self._admin(await self._operation("approve", approval_id, decision, dialect), caller, apply)

    async def deny(
        self,
        approval_id: str,
        caller: Caller,
        dialect: str,
        method: ApprovalMethod | None = None,
        reason: str | None = None,
    ) -> Approval:
        """Deny the call; every caller that may see the approval may do that. Whoever asked is told the reason."""

        async def apply() -> Approval:
            return await self._decide(await self._pending(approval_id, caller), decision)

        words = " ".join(clean_text(reason or "").split())[:MAX_REASON_LENGTH]  # one line, as it ends a sentence
        decision = Decision("denied", person_of(caller), method, words or None)
        return await self._admin(await self._operation("deny", approval_id, decision, dialect), caller, apply)

    async def _operation(self, verb: str, approval_id: str, decision: Decision, dialect: str) -> AdminOperation:
        """Return the operation for the audit: which call of which tool, who decides, and by which proof."""
        found = await self.approvals.store.find(approval_id)
        if found is None:
            return AdminOperation(f"{verb} {approval_id}", dialect, {}, personal=True)
        facts = {name: getattr(found, name) for name in _RECORDED_FIELDS}
        given = {**facts, "approver": decision.approver, "method": decision.method}
        given |= {} if decision.reason is None else {"reason": decision.reason}
        return AdminOperation(f"{verb} {found.id} {found.tool}", dialect, given, personal=True)

    async def _pending(self, approval_id: str, caller: Caller) -> Approval:
        found = await self.get_visible(approval_id, caller)
        if found.state != "pending":
            raise TooLate(found.state)
        return found

    async def _decide(self, found: Approval, decision: Decision) -> Approval:
        done = await self.approvals.store.decide(found.id, decision)
        if done is None:
            now = await self.approvals.store.find(found.id)
            raise TooLate(now.state if now else "forgotten")
        return done


def passkey_purpose(approval: Approval) -> str:
    """Return what a passkey signs: this approval, of these bytes, for this user."""
    return f"{approval.id} {approval.shown_sha256} {approval.acting_for or ''}"


def person_of(caller: Caller) -> str:
    """Return the person who answers for a caller."""
    return caller.person or caller.id


def can_view(caller: Caller, approval: Approval) -> bool:
    """Return whether the caller may see the approval: the asked person, or a possible second person at level 10."""
    return _is_asked_person(caller, approval) or (
        approval.how == "second_person" and _is_second_person(caller, approval)
    )


def can_approve(caller: Caller, approval: Approval) -> bool:
    """Return whether the caller may approve: the asked person, but at level 10 only another one."""
    return (
        _is_second_person(caller, approval) if approval.how == "second_person" else _is_asked_person(caller, approval)
    )


def _is_asked_person(caller: Caller, approval: Approval) -> bool:
    return caller.proof != "none" and person_of(caller) == approval.person


def _is_second_person(caller: Caller, approval: Approval) -> bool:
    is_other = person_of(caller) != approval.person and caller.id != approval.caller
    return caller.proof != "none" and is_other and APPROVE in caller.scopes
