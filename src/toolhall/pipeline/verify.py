"""The verify stage: authorizes the arguments, and obtains a person's approval of this exact call."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from toolhall.model.caller import Allow, Deny
from toolhall.model.caller import RequireVerification as NeedsPerson
from toolhall.model.errors import NeedsVerification
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, CallConsent
from toolhall.model.tool import Tool
from toolhall.pipeline.approvals import call_sha256
from toolhall.pipeline.authorize import Policy, denial_error
from toolhall.pipeline.states import Valid, Verified
from toolhall.registry.snapshot import Entry
from toolhall.schema.defaults import argument_readings


class Approver(Protocol):
    """The way to the person at this machine: a terminal."""

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: NeedsPerson) -> bool:
        """Whether the person agrees to this call with these arguments, whose level the verdict says."""
        ...


class ApprovalVerifier(Protocol):
    """The way to any person: a page, where they prove who they are."""

    async def verify(self, call: Call, entry: Entry, arguments: JsonObject, verdict: NeedsPerson) -> str:
        """The id of the approval that this call used up; NeedsVerification says where to get one."""
        ...


class Verify:
    """Nothing that a caller sends counts as a person's yes."""

    def __init__(
        self,
        policy: Policy,
        approver: Approver | None = None,
        approvals: ApprovalVerifier | None = None,
        check_ready: Callable[[Valid], Awaitable[None]] | None = None,
    ) -> None:
        self._policy = policy
        self._check_ready = check_ready
        self.approver = approver
        self.approvals = approvals

    def __call__(self, valid: Valid) -> Verified | Awaitable[Verified]:
        """Verified at once, or after a person said yes; Denied or NeedsVerification otherwise."""
        verdict = valid.verdict
        if verdict.conditional:
            verdict = self.authorize_arguments(valid)
        if isinstance(verdict, NeedsPerson):
            return self._verify_with_person(valid, verdict)
        return Verified(valid.call, valid.entry, verdict, valid.arguments)

    def authorize_arguments(self, valid: Valid) -> Allow | NeedsPerson:
        """A grant's conditions see what was sent and what the tool gets for it: a no to either is a no."""
        entry, verdict = valid.entry, valid.verdict
        for arguments in argument_readings(entry.tool.input, valid.arguments, entry.bind):
            settled = self._policy.authorize_arguments(valid.verdict, valid.call.caller, entry.tool, arguments)
            if isinstance(settled, Deny):
                raise denial_error(settled)
            verdict = settled
        return verdict

    async def _verify_with_person(self, valid: Valid, verdict: NeedsPerson) -> Verified:
        call, entry = valid.call, valid.entry
        if self._check_ready is not None:
            await self._check_ready(valid)  # nobody is asked to agree to what could not run
        bound = call_sha256(call, entry, valid.arguments, verdict)
        consent = call.consent
        if consent is None or consent.call_sha256 != bound:
            consent = CallConsent(await self._obtain_approval(valid, verdict), bound)
        # The tool may ask a question that is answered in a later request, which is the same call still.
        call = msgspec.structs.replace(call, consent=consent)
        return Verified(call, entry, verdict, valid.arguments, consent.approval)

    async def _obtain_approval(self, valid: Valid, verdict: NeedsPerson) -> str:
        """The approval of a person who is asked now, or was before; NeedsVerification otherwise."""
        call, entry = valid.call, valid.entry
        if call.caller.local and self.approver is not None:
            if not await self.approver.approve(entry.tool, call, valid.arguments, verdict):
                raise NeedsVerification(
                    f"level {verdict.level} needs a person's yes, and the person asked said no", how=verdict.how
                )
            return "terminal"
        if self.approvals is None:
            raise NeedsVerification(
                f"level {verdict.level} needs a person's yes, and nobody can be asked: "
                "run 'toolhall serve' in a terminal",
                how=verdict.how,
            )
        return await self.approvals.verify(call, entry, valid.arguments, verdict)
