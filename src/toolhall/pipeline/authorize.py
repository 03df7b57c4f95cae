"""Decides whether this caller may call this tool; no rule that says yes means no."""

from typing import Protocol

from toolhall.model.caller import Caller
from toolhall.model.errors import Denied
from toolhall.model.tool import Tool
from toolhall.model.verdict import Allow, Deny, Verdict, Verify
from toolhall.pipeline.states import Allowed, Found

UNSTATED_LEVEL = 1  # for the operator's own code
FOREIGN_LEVEL = 4  # for what comes from outside and states none: never less than an authorized caller
PERSON_FROM = 8  # seed: 8-10 need additional verification


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

    def manages(self, caller: Caller) -> bool:
        """Whether the caller may change the hall itself, and see what is registered there but not served."""
        ...


class LocalPolicy:
    """The `local` profile: the person at this machine may call everything, and is asked from level 8 up."""

    def sees(self, caller: Caller, tool: Tool) -> bool:  # noqa: ARG002 - this policy tells no tools apart
        """The local caller sees every tool, nobody else sees any."""
        return caller.local

    def sees_everything(self, caller: Caller) -> bool:
        """All or nothing."""
        return caller.local

    def judge(self, caller: Caller, tool: Tool) -> Verdict:
        """Allowed up to level 7; above, a person must say yes to the call."""
        if not caller.local:
            return Deny("only callers on this machine may call tools here")
        level = level_of(tool)
        if level < PERSON_FROM:
            return Allow("profile:local", level)
        return Verify("profile:local", level, "approval")

    def manages(self, caller: Caller) -> bool:
        """Only the person at this machine."""
        return caller.local


def level_of(tool: Tool) -> int:
    """The level that counts; one that is not stated is never written back."""
    if tool.level is not None:
        return tool.level
    return FOREIGN_LEVEL if tool.foreign else UNSTATED_LEVEL


class Authorize:
    """Turns the policy's verdict into a promise or a refusal."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __call__(self, found: Found) -> Allowed:
        """Allowed, or Denied with the reason."""
        verdict = self._policy.judge(found.call.caller, found.entry.tool)
        if isinstance(verdict, Deny):
            raise Denied(verdict.reason)
        return Allowed(found.call, found.entry, verdict)
