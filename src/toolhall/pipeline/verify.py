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
from toolhall.pipeline.approvals import ApprovalService, call_sha256
from toolhall.pipeline.find import denial_error
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.states import Valid, Verified
from toolhall.schema.defaults import argument_readings


class Approver(Protocol):
    """Asks the person at this machine to approve a call, for example in the terminal."""

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: NeedsPerson) -> bool:
        """Return whether the person approves this call with these arguments; the verdict states its level."""
        ...


class Verify:
    """Authorizes the arguments and obtains approvals; nothing that the caller sends counts as an approval.

    The local caller is asked through `approver`, every other one through `approvals`, which refers a person to a page.
    `check_ready` raises what would keep the call from running, so that nobody approves a call that cannot run.
    """

    def __init__(
        self,
        policy: LevelPolicy,
        approver: Approver | None = None,
        approvals: ApprovalService | None = None,
        check_ready: Callable[[Valid], Awaitable[None]] | None = None,
    ) -> None:
        self._policy = policy
        self._check_ready = check_ready
        self.approver = approver
        self.approvals = approvals

    def __call__(self, valid: Valid) -> Verified | Awaitable[Verified]:
        """Return Verified, or an awaitable of it if a person must approve; raises Denied or NeedsVerification."""
        verdict = valid.verdict
        if verdict.conditional:
            verdict = self.authorize_arguments(valid)
        if isinstance(verdict, NeedsPerson):
            return self._verify_with_person(valid, verdict)
        return Verified(valid.call, valid.entry, verdict, valid.arguments)

    def authorize_arguments(self, valid: Valid) -> Allow | NeedsPerson:
        """Check the conditions of grants against the arguments as sent and as the tool will get them.

        A denial of either reading denies the call.
        """
        entry, verdict = valid.entry, valid.verdict
        for arguments in argument_readings(entry.tool.input, valid.arguments, entry.bind):
            decision = self._policy.authorize_arguments(valid.verdict, valid.call.caller, entry.tool, arguments)
            if isinstance(decision, Deny):
                raise denial_error(decision)
            verdict = decision
        return verdict

    async def _verify_with_person(self, valid: Valid, verdict: NeedsPerson) -> Verified:
        call, entry = valid.call, valid.entry
        if self._check_ready is not None:
            await self._check_ready(valid)  # nobody is asked to approve a call that cannot run
        bound = call_sha256(call, entry, valid.arguments, verdict)
        consent = call.consent
        if consent is None or consent.call_sha256 != bound:
            consent = CallConsent(await self._obtain_approval(valid, verdict), bound)
        # The tool may ask a question that a later request answers: that request is still the same, approved call.
        call = msgspec.structs.replace(call, consent=consent)
        return Verified(call, entry, verdict, valid.arguments, consent.approval)

    async def _obtain_approval(self, valid: Valid, verdict: NeedsPerson) -> str:
        """Return the id of an approval that is given now or was given before; raises NeedsVerification."""
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
