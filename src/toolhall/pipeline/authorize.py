"""Decides whether this caller may call this tool; no rule that says yes means no."""

from collections.abc import Hashable
from typing import Protocol

from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Unauthenticated
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.model.verdict import Allow, Deny, Verdict, Verify
from toolhall.pipeline.rulings import Rules
from toolhall.pipeline.states import Allowed, Found


class Policy(Protocol):
    """Who may see and call what."""

    def sees(self, caller: Caller, tool: Tool) -> bool:
        """Whether the tool exists for this caller."""
        ...

    def sees_everything(self, caller: Caller) -> bool:
        """Whether every tool exists for this caller, so that lists need no filter."""
        ...

    def judge(self, caller: Caller, tool: Tool) -> Verdict:
        """Whether the caller may call it."""
        ...

    def settle(self, verdict: Allow | Verify, caller: Caller, tool: Tool, arguments: JsonObject) -> Verdict:
        """The same for these arguments, where the verdict depends on them."""
        ...

    def epoch(self, caller: Caller) -> Hashable:
        """The same for as long as nothing that this caller, by whichever of its credentials, sees can have changed."""
        ...

    def follow(self, rules: Rules) -> None:
        """Let these rules decide from now on."""
        ...

    def manages(self, caller: Caller) -> bool:
        """Whether the caller may change the hall itself, and see what is registered there but not served."""
        ...


class Authorize:
    """Turns the policy's verdict into a promise or a refusal."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __call__(self, found: Found) -> Allowed:
        """Allowed, or Denied with the reason."""
        verdict = self._policy.judge(found.call.caller, found.entry.tool)
        if isinstance(verdict, Deny):
            raise refusal(verdict)
        return Allowed(found.call, found.entry, verdict)


def refusal(verdict: Deny) -> Denied | Unauthenticated:
    """What the caller hears; whoever proved nothing hears that a credential is needed."""
    if verdict.anonymous:
        return Unauthenticated()
    return Denied(verdict.reason, scopes=verdict.scopes, by=verdict.by, level=verdict.level)
