"""The authorize stage, and Policy: what decides whether a caller may see and call a tool."""

from collections.abc import Hashable
from typing import Protocol

from toolhall.model.caller import Allow, Caller, Deny, RequireVerification, Verdict
from toolhall.model.errors import Denied, Unauthenticated
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.pipeline.policy import AccessRules
from toolhall.pipeline.states import Allowed, Found


class Policy(Protocol):
    """Who may see and call what."""

    def can_see(self, caller: Caller, tool: Tool) -> bool:
        """Whether the tool exists for this caller."""
        ...

    def can_see_all(self, caller: Caller) -> bool:
        """Whether every tool exists for this caller, so that lists need no filter."""
        ...

    def authorize(self, caller: Caller, tool: Tool) -> Verdict:
        """Whether the caller may call it."""
        ...

    def authorize_arguments(
        self, verdict: Allow | RequireVerification, caller: Caller, tool: Tool, arguments: JsonObject
    ) -> Verdict:
        """The same for these arguments, where the verdict depends on them."""
        ...

    def cache_key(self, caller: Caller) -> Hashable:
        """The same for as long as nothing that this caller, by whichever of its credentials, sees can have changed."""
        ...

    def set_rules(self, rules: AccessRules) -> None:
        """Let these rules decide from now on."""
        ...

    def is_admin(self, caller: Caller) -> bool:
        """Whether the caller may change the hall itself, and see what is registered there but not served."""
        ...


class Authorize:
    """Turns the policy's verdict into a promise or a refusal."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __call__(self, found: Found) -> Allowed:
        """Allowed, or Denied with the reason."""
        verdict = self._policy.authorize(found.call.caller, found.entry.tool)
        if isinstance(verdict, Deny):
            raise denial_error(verdict)
        return Allowed(found.call, found.entry, verdict)


def denial_error(verdict: Deny) -> Denied | Unauthenticated:
    """What the caller hears; whoever proved nothing hears that a credential is needed."""
    if verdict.anonymous:
        return Unauthenticated()
    return Denied(verdict.reason, scopes=verdict.scopes, by=verdict.by, level=verdict.level)
