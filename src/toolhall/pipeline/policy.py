"""LevelPolicy: authorizes calls by security level, credential, scopes and access rules, with a decision cache.

LevelRequirements says from which level a credential must be personal, must expire, or must be recent. From level 4 up
an access rule must permit the call, from level 8 up a person must verify it.

Theory of operation of the decision cache
-----------------------------------------
Every call asks twice (find: may the caller see the tool? authorize: may it call the tool?) and every list asks once per
tool, so a decision is made once per caller and tool and kept. A decision depends on:

- the caller, but only on the facts in `_cache_facts`: two API keys of one name with equal scopes share their decisions;
- the tool, by the identity of its Tool object, which is frozen: a changed tool is a new object. The cached decision
  holds a reference to it, so that its id cannot be reused by another object;
- the access rules and settings: `set_rules` drops all decisions;
- time, in one case: a sign-in grows old. A caller's decisions end when its sign-in is no longer recent.

`cache_key` returns the object that holds a caller's decisions. It is another object as soon as any decision may differ,
so other caches (tool lists per caller) can use it as their key. The number of callers and of decisions is bounded; the
oldest caller goes first, and with too many decisions all are dropped. What depends on arguments is never cached.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from toolhall.model.caller import (
    ABOVE_ALL_LEVELS,
    ADMIN,
    ALL_TOOLS,
    APPROVAL_FROM,
    AUTHENTICATION_FROM,
    GRANT_FROM,
    OBSERVE,
    SECOND_PERSON_FROM,
    STEP_UP_FROM,
    Allow,
    Caller,
    Deny,
    RequireVerification,
    Verdict,
    VerificationMethod,
    call_scope,
    effective_level,
)
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.pipeline.access_rules import (
    AccessRules,
    Conditional,
    Forbidden,
    NoRules,
    Permitted,
    RuleDecision,
    Unmatched,
)

LOCAL_PROFILE = "profile:local"
AUTHENTICATED = "level:authenticated"
ANONYMOUS = "level:open"
MAX_CALLERS = 10_000
MAX_DECISIONS = 200_000
_FORBIDDEN = "this caller may not call this tool"
_NO_RULE = "no grant or policy allows this caller to call this tool"
_WITH_THESE_ARGUMENTS = " with these arguments"
RECENT_SECONDS = 12 * 3600.0
_FOREVER = float("inf")
_Level: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=ABOVE_ALL_LEVELS)]


class LevelRequirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The levels from which a credential must meet a further requirement; 11 means never.

    A requirement holds for its level and all levels above, so a caller that may call at one level may call at every
    level below. Three bounds are fixed and not settings: authentication from level 1, a grant from level 4, a person
    from level 8.
    """

    identified: _Level = 2  # no key that several callers share
    expiring: _Level = 3  # a credential that expires
    recent: _Level = 7  # a token whose user signed in within the last 12 hours
    short_lived: _Level = ABOVE_ALL_LEVELS  # a token issued for at most one hour, no API key


class _CachedDecision(msgspec.Struct, frozen=True):
    """The decision for one caller and tool; `tool` keeps the object alive whose id is the key."""

    tool: Tool
    visible: bool
    verdict: Verdict


class PlanCache(msgspec.Struct, eq=False):
    """What `pipeline.plans` keeps beside the decisions about one caller, by the name that was called."""

    epoch: object = None  # its plans hold for; any other one: they are stale
    plans: dict[Hashable, Any] = {}


class _CallerDecisions(msgspec.Struct, eq=False):
    """All cached decisions of one caller, and of every caller with the same facts; not valid after `until`."""

    caller: Caller
    until: float
    by_tool: dict[int, _CachedDecision] = {}
    plan_cache: PlanCache = msgspec.field(default_factory=PlanCache)


class LevelPolicy:
    """The policy of a hall: which tools a caller may see and call."""

    def __init__(
        self,
        rules: AccessRules | None = None,
        *,
        requirements: LevelRequirements | None = None,
        overrides: Mapping[str, int] | None = None,
        allow_anonymous: bool = False,
        clock: Callable[[], float],
    ) -> None:
        self._rules = rules or NoRules()
        self._requirements = requirements or LevelRequirements()
        self._overrides = overrides or {}
        self._allow_anonymous = allow_anonymous
        self._clock = clock
        self._callers: dict[Hashable, _CallerDecisions] = {}
        self._latest: tuple[Caller, _CallerDecisions] | None = None  # one caller often asks many times in a row
        self._planned_caller: Caller | None = None  # the latest whose decisions last until the rules change
        self._planned = PlanCache()  # of that caller
        self._count = 0

    def can_see(self, caller: Caller, tool: Tool) -> bool:
        """Return whether the caller may know of the tool; if not, calling it is answered like an unknown name."""
        return caller.local or self._decision(caller, tool).visible

    def can_see_all(self, caller: Caller) -> bool:
        """Return whether the caller may see every tool, so that lists need no filter: only the local user may."""
        return caller.local

    def level_of(self, tool: Tool) -> int:
        """Return the level that the tool has here, with the operator's overrides."""
        return effective_level(tool, self._overrides)

    def authorize(self, caller: Caller, tool: Tool) -> Verdict:
        """Decide whether the caller may call the tool, as far as that does not depend on the arguments."""
        return self._decision(caller, tool).verdict

    def authorize_arguments(
        self, verdict: Allow | RequireVerification, caller: Caller, tool: Tool, arguments: JsonObject
    ) -> Verdict:
        """Decide for these arguments; a verdict that is not conditional holds for all of them."""
        if not verdict.conditional:
            return verdict
        decision = self._rules.decide_arguments(caller, tool, verdict.level, arguments)
        if isinstance(decision, Permitted):
            return _verdict(decision.by, verdict.level)
        if isinstance(decision, Unmatched) and verdict.level < GRANT_FROM:
            return _verdict(AUTHENTICATED, verdict.level)
        if isinstance(decision, Forbidden):
            return Deny(_FORBIDDEN + _WITH_THESE_ARGUMENTS, by=decision.by, level=verdict.level)
        return Deny(_NO_RULE + _WITH_THESE_ARGUMENTS, level=verdict.level)

    def cache_key(self, caller: Caller) -> Hashable:
        """Return a key that changes whenever a decision about this caller may have changed."""
        return self._decisions_for(caller)

    def plan_cache(self, caller: Caller) -> PlanCache:
        """Return the cache of plans that holds for as long as the decisions about this caller do."""
        if caller is self._planned_caller:
            return self._planned
        decisions = self._decisions_for(caller)
        if decisions.until == _FOREVER:
            self._planned_caller, self._planned = caller, decisions.plan_cache
        return decisions.plan_cache

    def is_admin(self, caller: Caller) -> bool:
        """Return whether the caller may change the hall: the local user, or a credential with the scope `admin`."""
        return caller.local or (caller.proof != "none" and ADMIN in caller.scopes)

    def is_observer(self, caller: Caller) -> bool:
        """Return whether the caller may read how the hall is managed: an administrator, or the scope `observe`."""
        return self.is_admin(caller) or (caller.proof != "none" and OBSERVE in caller.scopes)

    @property
    def rules(self) -> AccessRules:
        """The access rules now."""
        return self._rules

    def with_rules(self, rules: AccessRules) -> "LevelPolicy":
        """Return a policy with the same settings and these rules, which shares no cached decision with this one."""
        return LevelPolicy(
            rules,
            requirements=self._requirements,
            overrides=self._overrides,
            allow_anonymous=self._allow_anonymous,
            clock=self._clock,
        )

    def set_rules(self, rules: AccessRules) -> None:
        """Replace the access rules and drop all cached decisions."""
        self._rules = rules
        self._clear()

    def _clear(self) -> None:
        self._callers = {}
        self._latest = None
        self._planned_caller, self._planned = None, PlanCache()
        self._count = 0

    def _decision(self, caller: Caller, tool: Tool) -> _CachedDecision:
        decisions = self._decisions_for(caller)
        cached = decisions.by_tool.get(id(tool))
        return self._decide_and_cache(decisions, tool) if cached is None else cached

    def _decisions_for(self, caller: Caller) -> _CallerDecisions:
        latest = self._latest
        if latest is not None and latest[0] is caller and latest[1].until >= self._clock():
            return latest[1]
        facts = _cache_facts(caller)
        known = self._callers.get(facts)
        if known is None or known.until < self._clock():
            known = self._callers[facts] = self._new_caller(caller)
        self._latest = caller, known
        return known

    def _decide_and_cache(self, decisions: _CallerDecisions, tool: Tool) -> _CachedDecision:
        if self._count >= MAX_DECISIONS:
            self._clear()
        self._count += 1
        decision = decisions.by_tool[id(tool)] = self._decide(decisions.caller, tool)
        return decision

    def _new_caller(self, caller: Caller) -> _CallerDecisions:
        """Start the cache of a caller; it ends when the caller's sign-in is no longer recent."""
        if len(self._callers) >= MAX_CALLERS:
            self._callers.pop(next(iter(self._callers)))
        signed_in = caller.authenticated_at
        recent_until = signed_in + RECENT_SECONDS if signed_in is not None else 0.0
        until = recent_until if recent_until > self._clock() else _FOREVER
        return _CallerDecisions(caller, until)

    def _decide(self, caller: Caller, tool: Tool) -> _CachedDecision:
        level = self.level_of(tool)
        if caller.local:
            return _CachedDecision(tool, True, _verdict(LOCAL_PROFILE, level))
        decision = self._rules.decide(caller, tool, level)
        if isinstance(decision, Forbidden):
            return _CachedDecision(tool, False, Deny(_FORBIDDEN, by=decision.by, level=level))
        if level >= GRANT_FROM and isinstance(decision, Unmatched):
            return _CachedDecision(tool, False, Deny(_NO_RULE, level=level))
        return self._decide_by_credential(caller, tool, level, decision)

    def _decide_by_credential(self, caller: Caller, tool: Tool, level: int, decision: RuleDecision) -> _CachedDecision:
        """Decide by level, credential and scopes.

        A caller with a token sees tools whose scope it lacks, because it can get a token with more scopes.
        """
        if caller.proof == "none":
            open_to_all = level == 0 and self._allow_anonymous and tool.effect == "reads" and not tool.foreign
            anonymous = Deny("a credential is needed", anonymous=True, level=level)
            return _CachedDecision(tool, open_to_all, Allow(ANONYMOUS, 0) if open_to_all else anonymous)
        if denied := credential_denial(caller, level, self._requirements, self._clock()):
            return _CachedDecision(tool, True, denied)
        if denied := scope_denial(caller, level, tool.id.toolkit):
            return _CachedDecision(tool, caller.proof == "token", denied)
        by = AUTHENTICATED if level < GRANT_FROM else decision.by if isinstance(decision, Permitted) else ""
        return _CachedDecision(tool, True, _verdict(by, level, conditional=isinstance(decision, Conditional)))


def _cache_facts(caller: Caller) -> Hashable:
    """Return every fact of a caller that a decision can depend on; callers with equal facts share their decisions."""
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


def _verdict(by: str, level: int, *, conditional: bool = False) -> Allow | RequireVerification:
    how = required_verification(level)
    return Allow(by, level, conditional) if how is None else RequireVerification(by, level, how, conditional)


def credential_denial(caller: Caller, level: int, requirements: LevelRequirements, now: float) -> Deny | None:
    """Return the denial if the caller's credential does not suffice for a level."""
    if level < AUTHENTICATION_FROM or caller.local:
        return None
    if caller.proof == "none":
        return Deny("a credential is needed", anonymous=True, level=level)
    reason = _missing_proof(caller, level, requirements, now)
    return None if reason is None else Deny(f"level {level} needs {reason}", level=level)


def _missing_proof(caller: Caller, level: int, requirements: LevelRequirements, now: float) -> str | None:
    if level >= requirements.identified and caller.proof == "shared":
        return "a key of the caller's own, not one that several share"
    if level >= requirements.expiring and caller.expires_at is None:
        return "a credential that expires; make a key with --expires"
    if level >= requirements.short_lived and not caller.short_lived:
        return "a token that was issued for at most an hour"
    if level >= requirements.recent and caller.proof == "token":
        return _stale_sign_in(caller.authenticated_at, now)
    return None


def _stale_sign_in(signed_in: float | None, now: float) -> str | None:
    """Return what is wrong with the time of a sign-in; without that time, signing in again does not help."""
    if signed_in is None:
        return (
            "a token that says when its person signed in (auth_time): let its issuer send that, or raise steps.recent"
        )
    if now - signed_in > RECENT_SECONDS:
        return "a token from a sign-in within the last 12 hours; sign in again"
    return None


def scope_denial(caller: Caller, level: int, toolkit: str) -> Deny | None:
    """Return the denial if a scope is missing: from level 4 the toolkit's.

    Below level 4, a credential without any `tools:` scope may call every toolkit.
    """
    if caller.local or ALL_TOOLS in caller.scopes or level < AUTHENTICATION_FROM:
        return None
    needed = call_scope(toolkit)
    names_toolkits = any(scope.startswith("tools:") for scope in caller.scopes)
    if needed in caller.scopes or (level < GRANT_FROM and not names_toolkits):
        return None
    return Deny(f"the credential lacks the scope {needed}", level=level, scopes=(needed,))


def required_verification(level: int) -> VerificationMethod | None:
    """Return how a person must verify a call of this level before it runs; None below level 8."""
    if level < STEP_UP_FROM:
        return None
    if level < APPROVAL_FROM:
        return "step_up"
    return "approval" if level < SECOND_PERSON_FROM else "second_person"
