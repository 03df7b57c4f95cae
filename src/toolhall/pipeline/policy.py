"""The policy of every hall: the ladder of levels, and rules that say who may call what from level 4 on."""

from collections.abc import Callable, Hashable, Mapping

import msgspec

from toolhall.model.caller import ADMIN, Caller
from toolhall.model.json import JsonObject
from toolhall.model.levels import GRANTED_FROM, level_of
from toolhall.model.tool import Tool
from toolhall.model.verdict import Allow, Deny, Verdict, Verify
from toolhall.pipeline.ladder import RECENT_SECONDS, Steps, unproven, unscoped, verification
from toolhall.pipeline.rulings import Conditional, Forbidden, NoRules, Permitted, Rules, Ruling, Unmatched

LOCAL_PROFILE = "profile:local"
AUTHENTICATED = "level:authenticated"
OPEN = "level:open"
MOST_CALLERS = 10_000
MOST_STANDINGS = 200_000
_FORBIDDEN = "this caller may not call this tool"
_NO_RULE = "no grant or policy allows this caller to call this tool"
_WITH_THESE = " with these arguments"


class _Standing(msgspec.Struct, frozen=True):
    """What a tool is to a caller; `tool` keeps the object alive whose identity is the key."""

    tool: Tool
    seen: bool
    verdict: Verdict


class _Known(msgspec.Struct, eq=False):
    """Everything decided so far for one caller, and for whoever is the same as far as decisions go."""

    caller: Caller
    until: float
    standings: dict[int, _Standing] = {}


class LevelPolicy:
    """Decides once for each caller and tool; whatever could change a decision makes it forget."""

    def __init__(
        self,
        rules: Rules | None = None,
        *,
        steps: Steps | None = None,
        overrides: Mapping[str, int] | None = None,
        allow_anonymous: bool = False,
        clock: Callable[[], float],
    ) -> None:
        self._rules = rules or NoRules()
        self._steps = steps or Steps()
        self._overrides = overrides or {}
        self._allow_anonymous = allow_anonymous
        self._clock = clock
        self._known: dict[Hashable, _Known] = {}
        self._latest: tuple[Caller, _Known] | None = None  # most are asked about many times in a row
        self._count = 0

    def sees(self, caller: Caller, tool: Tool) -> bool:
        """Whether the tool exists for this caller."""
        return caller.local or self._standing(caller, tool).seen

    def sees_everything(self, caller: Caller) -> bool:
        """Only the person at this machine does."""
        return caller.local

    def judge(self, caller: Caller, tool: Tool) -> Verdict:
        """Whether the caller may call it."""
        return self._standing(caller, tool).verdict

    def settle(self, verdict: Allow | Verify, caller: Caller, tool: Tool, arguments: JsonObject) -> Verdict:
        """The same for these arguments: a grant without conditions decides for all of them."""
        if not verdict.conditional:
            return verdict
        ruling = self._rules.settled(caller, tool, verdict.level, arguments)
        if isinstance(ruling, Permitted):
            return _allowed(ruling.by, verdict.level)
        if isinstance(ruling, Unmatched) and verdict.level < GRANTED_FROM:
            return _allowed(AUTHENTICATED, verdict.level)
        if isinstance(ruling, Forbidden):
            return Deny(_FORBIDDEN + _WITH_THESE, by=ruling.by, level=verdict.level)
        return Deny(_NO_RULE + _WITH_THESE, level=verdict.level)

    def epoch(self, caller: Caller) -> Hashable:
        """What was decided for it: forgotten whenever a decision could change."""
        return self._acquaintance(caller)

    def manages(self, caller: Caller) -> bool:
        """The person at this machine, and whoever holds the scope `admin`."""
        return caller.local or (caller.proof != "none" and ADMIN in caller.scopes)

    def follow(self, rules: Rules) -> None:
        """Decide anew from now on, by these rules."""
        self._rules = rules
        self._forget()

    def _forget(self) -> None:
        self._known = {}
        self._latest = None
        self._count = 0

    def _standing(self, caller: Caller, tool: Tool) -> _Standing:
        known = self._acquaintance(caller)
        standing = known.standings.get(id(tool))
        return self._decided(known, tool) if standing is None else standing

    def _acquaintance(self, caller: Caller) -> _Known:
        latest = self._latest
        if latest is not None and latest[0] is caller and latest[1].until >= self._clock():
            return latest[1]
        facts = _facts(caller)
        known = self._known.get(facts)
        if known is None or known.until < self._clock():
            known = self._known[facts] = self._meet(caller)
        self._latest = caller, known
        return known

    def _decided(self, known: _Known, tool: Tool) -> _Standing:
        if self._count >= MOST_STANDINGS:
            self._forget()
        self._count += 1
        standing = known.standings[id(tool)] = self._decide(known.caller, tool)
        return standing

    def _meet(self, caller: Caller) -> _Known:
        """A sign-in grows old; nothing else that was decided changes with time alone."""
        if len(self._known) >= MOST_CALLERS:
            self._known.pop(next(iter(self._known)))
        signed_in = caller.authenticated_at
        recent_until = signed_in + RECENT_SECONDS if signed_in is not None else 0.0
        until = recent_until if recent_until > self._clock() else float("inf")
        return _Known(caller, until)

    def _decide(self, caller: Caller, tool: Tool) -> _Standing:
        level = level_of(tool, self._overrides)
        if caller.local:
            return _Standing(tool, True, _allowed(LOCAL_PROFILE, level))
        ruling = self._rules.ruling(caller, tool, level)
        if isinstance(ruling, Forbidden):
            return _Standing(tool, False, Deny(_FORBIDDEN, by=ruling.by, level=level))
        if level >= GRANTED_FROM and isinstance(ruling, Unmatched):
            return _Standing(tool, False, Deny(_NO_RULE, level=level))
        return self._proven(caller, tool, level, ruling)

    def _proven(self, caller: Caller, tool: Tool, level: int, ruling: Ruling) -> _Standing:
        """What the caller's credential is good for; one that can be renewed with more is shown what it lacks."""
        if caller.proof == "none":
            open_to_all = level == 0 and self._allow_anonymous and tool.effect == "reads" and not tool.foreign
            nobody = Deny("a credential is needed", anonymous=True, level=level)
            return _Standing(tool, open_to_all, Allow(OPEN, 0) if open_to_all else nobody)
        if denied := unproven(caller, level, self._steps, self._clock()):
            return _Standing(tool, True, denied)
        if denied := unscoped(caller, level, tool.id.toolkit):
            return _Standing(tool, caller.proof == "token", denied)
        by = AUTHENTICATED if level < GRANTED_FROM else ruling.by if isinstance(ruling, Permitted) else ""
        return _Standing(tool, True, _allowed(by, level, conditional=isinstance(ruling, Conditional)))


def _facts(caller: Caller) -> Hashable:
    """All that a decision can depend on: two keys of one name and equal scopes are one caller."""
    return (
        caller.id,
        caller.local,
        caller.proof,
        caller.person,
        caller.scopes,
        caller.expires_at is None,
        caller.authenticated_at,
        caller.short_lived,
        caller.acting_for,
    )


def _allowed(by: str, level: int, *, conditional: bool = False) -> Allow | Verify:
    how = verification(level)
    return Allow(by, level, conditional) if how is None else Verify(by, level, how, conditional)
