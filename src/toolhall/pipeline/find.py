"""The stages find and authorize: Find finds the tool by published name or id, Authorize asks the policy.

A tool that the caller may not see is answered like a name that no tool has.
"""

import time
from collections.abc import Callable

import msgspec

from toolhall.model.caller import Deny, Verdict
from toolhall.model.errors import Denied, NotActive, NotFound, Retired, Unauthenticated, Unavailable
from toolhall.model.messages import Call
from toolhall.model.text import clean_text
from toolhall.model.tool import Kind, Tool
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.states import Allowed, Found
from toolhall.registry.registry import NOT_OFFERED, RETIRED, Registry
from toolhall.registry.snapshot import Entry

_NEXT_STEPS = {
    "quarantined": "look at it with 'toolhall tool show {0}', then 'toolhall tool activate {0}'",
    "registered": "'toolhall tool activate {0}' serves it",
    "withheld": "its upstream does not offer it now; it is served again once that does",
    NOT_OFFERED: "its upstream is switched off, or is not one of this hall's: 'toolhall upstream list' shows them",
    "inactive": "'toolhall tool activate {0}' serves it again",
}
_NOT_SERVED = "it is not served here"
MAX_SHOWN_URI = 1_024


class NotVisible(msgspec.Struct, frozen=True):
    """A tool that the caller named but may not see, with the verdict; for the audit record only."""

    entry: Entry
    verdict: Verdict


class Find:
    """Finds tools by published name or id in the current snapshot of the registry."""

    def __init__(self, registry: Registry, policy: LevelPolicy, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._policy = policy
        self._clock = clock

    def with_policy(self, policy: LevelPolicy) -> "Find":
        """Return the same stage under another policy."""
        return Find(self._registry, policy, self._clock)

    def __call__(self, call: Call) -> Found:
        """Return Found; raises NotFound, Retired, NotActive (administrators only) or Unauthenticated."""
        snapshot = self._registry.snapshot
        entry = (snapshot if call.kind == "tool" else snapshot.of_kind(call.kind)).find(call.tool)
        if entry is None:
            raise self._not_found(call)
        if not self._policy.can_see(call.caller, entry.tool):
            raise self._not_found(call, NotVisible(entry, self._policy.authorize(call.caller, entry.tool)))
        if entry.tool.deprecation is not None:
            self._check_sunset(entry.tool)
        return Found(call, entry)

    def _check_sunset(self, tool: Tool) -> None:
        """Raise Retired if the sunset has come since the snapshot was made."""
        sunset = tool.deprecation.sunset if tool.deprecation else None
        if sunset is not None and sunset <= time.strftime("%Y-%m-%d", time.gmtime(self._clock())):
            raise _retired(tool)

    def _not_found(self, call: Call, hidden: NotVisible | None = None) -> NotFound | Unauthenticated:
        """Return the error for a name that this caller cannot call.

        Callers that may see a retired tool learn that it was retired; administrators learn every state. Anonymous
        callers get the same error for every name, because with a credential the tool may exist. The message repeats
        the name as the caller wrote it, never the id that a pin or the search resolved it to, which would reveal it.
        """
        if call.caller.proof == "none" and not call.caller.local:
            return Unauthenticated()
        name = call.tool if call.requested_name is None else call.requested_name
        reason = self._registry.inactive.find(name)
        if reason is not None and reason.tool.kind != call.kind:
            reason = None
        if reason is not None and reason.state == RETIRED and self._policy.can_see(call.caller, reason.tool):
            return _retired(reason.tool)
        if reason is not None and self._policy.is_admin(call.caller):
            then = _NEXT_STEPS.get(reason.state, _NOT_SERVED).format(reason.tool.id)
            return NotActive(clean_text(f"{reason.tool.id} is {reason.state}: {then}"), state=reason.state)
        return not_found(call.kind, name, hidden)


def not_found(kind: Kind, name: str, hidden: NotVisible | None = None) -> NotFound:
    """Return the error for a name or URI that means nothing to a caller; it repeats the name as it was sent."""
    if kind == "resource":
        uri = clean_text(name[:MAX_SHOWN_URI])
        return NotFound(f"unknown resource: {uri}", hidden=hidden, uri=name if uri == name else None)
    return NotFound(f"unknown {kind}: {clean_text(name[:128])}", hidden=hidden)


class Authorize:
    """Turns the policy's verdict into an Allowed state or an error."""

    def __init__(self, policy: LevelPolicy) -> None:
        self._policy = policy

    def __call__(self, found: Found) -> Allowed:
        """Return Allowed; raises Denied with the reason, Unauthenticated for an anonymous caller, or Unavailable."""
        verdict = self._policy.authorize(found.call.caller, found.entry.tool)
        if isinstance(verdict, Deny):
            raise denial_error(verdict)
        if found.entry.held is not None:
            raise Unavailable(found.entry.held)
        return Allowed(found.call, found.entry, verdict)


def denial_error(verdict: Deny) -> Denied | Unauthenticated:
    """Return the error for a denial; an anonymous caller learns only that a credential is needed."""
    if verdict.anonymous:
        return Unauthenticated()
    return Denied(verdict.reason, scopes=verdict.scopes, by=verdict.by, level=verdict.level)


def _retired(tool: Tool) -> Retired:
    end = tool.deprecation
    when = f" on {end.sunset}" if end and end.sunset else ""
    successor = end.successor if end else None
    then = f"; call {successor} instead" if successor else ""
    return Retired(clean_text(f"{tool.id} was retired{when}{then}"), tool=str(tool.id), successor=successor)
