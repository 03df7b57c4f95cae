"""The authorize stage: asks the policy whether the caller may call the tool."""

from toolhall.model.caller import Deny
from toolhall.model.errors import Denied, Unauthenticated
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.states import Allowed, Found


class Authorize:
    """Turns the policy's verdict into an Allowed state or an error."""

    def __init__(self, policy: LevelPolicy) -> None:
        self._policy = policy

    def __call__(self, found: Found) -> Allowed:
        """Return Allowed; raises Denied with the reason, or Unauthenticated for an anonymous caller."""
        verdict = self._policy.authorize(found.call.caller, found.entry.tool)
        if isinstance(verdict, Deny):
            raise denial_error(verdict)
        return Allowed(found.call, found.entry, verdict)


def denial_error(verdict: Deny) -> Denied | Unauthenticated:
    """Return the error for a denial; an anonymous caller learns only that a credential is needed."""
    if verdict.anonymous:
        return Unauthenticated()
    return Denied(verdict.reason, scopes=verdict.scopes, by=verdict.by, level=verdict.level)
