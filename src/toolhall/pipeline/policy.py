"""LevelPolicy: authorizes calls by security level, credential, scopes and access rules, with a decision cache.

LevelRequirements says from which level a credential must be personal, must expire, or must be recent. From level 4 up
an access rule must permit the call, from level 8 up a person must verify it.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fnmatch import translate
from math import isfinite
from typing import Annotated, NamedTuple, Protocol, TypeAlias

import msgspec

from toolhall.contracts.canonical_json import canonical_json
from toolhall.model.caller import (
    ABOVE_ALL_LEVELS,
    ADMIN,
    ALL_TOOLS,
    APPROVAL_FROM,
    AUTHENTICATION_FROM,
    GRANT_FROM,
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
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.defaults import UNKNOWN
from toolhall.stores.grants import Condition, Grant


class Permitted(msgspec.Struct, frozen=True):
    """Yes, and the rule that says so."""

    by: str


class Conditional(msgspec.Struct, frozen=True):
    """It depends on the arguments."""


class Forbidden(msgspec.Struct, frozen=True):
    """No, whatever else says yes, and the rule that says so."""

    by: str


class Unmatched(msgspec.Struct, frozen=True):
    """No rule says yes, which is a no."""


RuleDecision: TypeAlias = Permitted | Conditional | Forbidden | Unmatched


class AccessRules(Protocol):
    """Who may call what: grants, or policies in another language."""

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:
        """What they say as far as it does not depend on the arguments."""
        ...

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:
        """What they say of these arguments; never Conditional."""
        ...


class NoRules:
    """Nobody was granted anything."""

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:  # noqa: ARG002 - nothing is ever granted
        """No."""
        return Unmatched()

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:  # noqa: ARG002
        """No."""
        return Unmatched()


MAX_CACHED_CALLERS = 1_000
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_ABSENT = object()
_Matcher: TypeAlias = Callable[[str], object]


class _CompiledCondition(NamedTuple):
    """A condition, ready to be asked."""

    path: tuple[str, ...]
    values: frozenset[bytes]  # each in the one spelling that equal values share

    def is_met(self, arguments: JsonObject, *, in_doubt: bool) -> bool:
        """Whether the argument is there and is one of the values; `in_doubt` where nobody can tell."""
        found = _value_at(self.path, arguments)
        if found is _ABSENT or (isinstance(found, float) and not isfinite(found)):
            return False
        try:
            return canonical_json(found) in self.values
        except (TypeError, ValueError, RecursionError):  # it is, or it holds, what is UNKNOWN or no JSON
            return in_doubt


class _CompiledGrant(NamedTuple):
    """A grant, ready to be asked."""

    id: str
    forbids: bool
    callers: _Matcher
    tools: _Matcher
    conditions: tuple[_CompiledCondition, ...]

    def matches_tool(self, tool_id: str) -> bool:
        """Whether it is about this tool; one that names no version means all of them."""
        return bool(self.tools(tool_id) or self.tools(tool_id.partition("@")[0]))

    def applies(self, arguments: JsonObject) -> bool:
        """Whether these arguments meet its conditions; in doubt it forbids, and does not permit."""
        return all(demand.is_met(arguments, in_doubt=self.forbids) for demand in self.conditions)


class GrantRules:
    """The grants of a hall at one time; the order in which they were made means nothing."""

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self._rules = sorted(map(_compile_grant, grants), key=lambda rule: rule.id)
        self._by_caller: dict[str, list[_CompiledGrant]] = {}

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:
        """What they say as far as it does not depend on the arguments."""
        about = self._relevant(caller, tool)
        always = [rule for rule in about if not rule.conditions]
        if forbids := _first(always, forbids=True):
            return Forbidden(forbids)
        permits = _first(about, forbids=False)
        # Up to level 3 nothing must be granted, but a grant may still forbid.
        if permits is None and (level >= GRANT_FROM or not about):
            return Unmatched()
        permits = _first(always, forbids=False)
        if permits is None or any(rule.forbids for rule in about):
            return Conditional()
        return Permitted(permits)

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:  # noqa: ARG002
        """What they say of these arguments; never Conditional."""
        meant = [rule for rule in self._relevant(caller, tool) if rule.applies(arguments)]
        if forbids := _first(meant, forbids=True):
            return Forbidden(forbids)
        permits = _first(meant, forbids=False)
        return Unmatched() if permits is None else Permitted(permits)

    def _relevant(self, caller: Caller, tool: Tool) -> list[_CompiledGrant]:
        rules = self._by_caller.get(caller.id)
        if rules is None:
            if len(self._by_caller) >= MAX_CACHED_CALLERS:
                self._by_caller = {}
            rules = self._by_caller[caller.id] = [rule for rule in self._rules if rule.callers(caller.id)]
        tool_id = str(tool.id)
        return [rule for rule in rules if rule.matches_tool(tool_id)]


def _first(rules: Sequence[_CompiledGrant], *, forbids: bool) -> str | None:
    """The id of the first that says so: rules are sorted by id."""
    return next((rule.id for rule in rules if rule.forbids is forbids), None)


def _compile_grant(grant: Grant) -> _CompiledGrant:
    demands = tuple(map(_compile_condition, grant.conditions))
    return _CompiledGrant(
        grant.id, grant.effect == "forbid", _glob_matcher(grant.callers), _glob_matcher(grant.tools), demands
    )


def _glob_matcher(glob: str) -> _Matcher:
    return re.compile(translate(glob)).match


def _compile_condition(condition: Condition) -> _CompiledCondition:
    path = tuple(part.replace("~1", "/").replace("~0", "~") for part in condition.path.split("/")[1:])
    return _CompiledCondition(path, frozenset(map(canonical_json, condition.one_of)))


def _value_at(path: Sequence[str], value: Json) -> Json:
    """What is at this place, or nothing; inside of what is UNKNOWN, everything is."""
    for part in path:
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(value, dict):
            value = value.get(part, _ABSENT)
        elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return _ABSENT
    return value


RECENT_SECONDS = 12 * 3600.0
_Level: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=ABOVE_ALL_LEVELS)]


class LevelRequirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From which level on more is asked of a credential; 11 asks it never.

    A step never ends further up, so whoever may call at one level may call at every level below. The bands of the
    seed are not among them: from 1 on authentication, from 4 on a grant, from 8 on a person.
    """

    identified: _Level = 2  # not a key that several share
    expiring: _Level = 3  # a credential that ends some day
    recent: _Level = 7  # a token whose person signed in within the last 12 hours
    short_lived: _Level = ABOVE_ALL_LEVELS  # a token issued for at most an hour; API keys no longer do


def credential_denial(caller: Caller, level: int, requirements: LevelRequirements, now: float) -> Deny | None:
    """What the caller's credential lacks for a level, or None."""
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
    """Signing in again helps only where the issuer says when that was."""
    if signed_in is None:
        return (
            "a token that says when its person signed in (auth_time): let its issuer send that, or raise steps.recent"
        )
    if now - signed_in > RECENT_SECONDS:
        return "a token from a sign-in within the last 12 hours; sign in again"
    return None


def scope_denial(caller: Caller, level: int, toolkit: str) -> Deny | None:
    """What scope is missing: from level 4 on the toolkit's; below, only whoever names toolkits is held to them."""
    if caller.local or ALL_TOOLS in caller.scopes or level < AUTHENTICATION_FROM:
        return None
    needed = call_scope(toolkit)
    names_toolkits = any(scope.startswith("tools:") for scope in caller.scopes)
    if needed in caller.scopes or (level < GRANT_FROM and not names_toolkits):
        return None
    return Deny(f"the credential lacks the scope {needed}", level=level, scopes=(needed,))


def required_verification(level: int) -> VerificationMethod | None:
    """What a person must do before a call of this level may run."""
    if level < STEP_UP_FROM:
        return None
    if level < APPROVAL_FROM:
        return "step_up"
    return "approval" if level < SECOND_PERSON_FROM else "second_person"


LOCAL_PROFILE = "profile:local"
AUTHENTICATED = "level:authenticated"
ANONYMOUS = "level:open"
MAX_CALLERS = 10_000
MAX_DECISIONS = 200_000
_FORBIDDEN = "this caller may not call this tool"
_NO_RULE = "no grant or policy allows this caller to call this tool"
_WITH_THESE_ARGUMENTS = " with these arguments"


class _CachedDecision(msgspec.Struct, frozen=True):
    """What a tool is to a caller; `tool` keeps the object alive whose identity is the key."""

    tool: Tool
    visible: bool
    verdict: Verdict


class _CallerDecisions(msgspec.Struct, eq=False):
    """Everything decided so far for one caller, and for whoever is the same as far as decisions go."""

    caller: Caller
    until: float
    by_tool: dict[int, _CachedDecision] = {}


class LevelPolicy:
    """Decides once for each caller and tool; whatever could change a decision makes it forget."""

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
        self._latest: tuple[Caller, _CallerDecisions] | None = None  # most are asked about many times in a row
        self._count = 0

    def can_see(self, caller: Caller, tool: Tool) -> bool:
        """Whether the tool exists for this caller."""
        return caller.local or self._decision(caller, tool).visible

    def can_see_all(self, caller: Caller) -> bool:
        """Only the person at this machine does."""
        return caller.local

    def authorize(self, caller: Caller, tool: Tool) -> Verdict:
        """Whether the caller may call it."""
        return self._decision(caller, tool).verdict

    def authorize_arguments(
        self, verdict: Allow | RequireVerification, caller: Caller, tool: Tool, arguments: JsonObject
    ) -> Verdict:
        """The same for these arguments: a grant without conditions decides for all of them."""
        if not verdict.conditional:
            return verdict
        ruling = self._rules.decide_arguments(caller, tool, verdict.level, arguments)
        if isinstance(ruling, Permitted):
            return _verdict(ruling.by, verdict.level)
        if isinstance(ruling, Unmatched) and verdict.level < GRANT_FROM:
            return _verdict(AUTHENTICATED, verdict.level)
        if isinstance(ruling, Forbidden):
            return Deny(_FORBIDDEN + _WITH_THESE_ARGUMENTS, by=ruling.by, level=verdict.level)
        return Deny(_NO_RULE + _WITH_THESE_ARGUMENTS, level=verdict.level)

    def cache_key(self, caller: Caller) -> Hashable:
        """What was decided for it: forgotten whenever a decision could change."""
        return self._decisions_for(caller)

    def is_admin(self, caller: Caller) -> bool:
        """The person at this machine, and whoever holds the scope `admin`."""
        return caller.local or (caller.proof != "none" and ADMIN in caller.scopes)

    def set_rules(self, rules: AccessRules) -> None:
        """Decide anew from now on, by these rules."""
        self._rules = rules
        self._clear()

    def _clear(self) -> None:
        self._callers = {}
        self._latest = None
        self._count = 0

    def _decision(self, caller: Caller, tool: Tool) -> _CachedDecision:
        known = self._decisions_for(caller)
        standing = known.by_tool.get(id(tool))
        return self._decide_and_cache(known, tool) if standing is None else standing

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

    def _decide_and_cache(self, known: _CallerDecisions, tool: Tool) -> _CachedDecision:
        if self._count >= MAX_DECISIONS:
            self._clear()
        self._count += 1
        standing = known.by_tool[id(tool)] = self._decide(known.caller, tool)
        return standing

    def _new_caller(self, caller: Caller) -> _CallerDecisions:
        """A sign-in grows old; nothing else that was decided changes with time alone."""
        if len(self._callers) >= MAX_CALLERS:
            self._callers.pop(next(iter(self._callers)))
        signed_in = caller.authenticated_at
        recent_until = signed_in + RECENT_SECONDS if signed_in is not None else 0.0
        until = recent_until if recent_until > self._clock() else float("inf")
        return _CallerDecisions(caller, until)

    def _decide(self, caller: Caller, tool: Tool) -> _CachedDecision:
        level = effective_level(tool, self._overrides)
        if caller.local:
            return _CachedDecision(tool, True, _verdict(LOCAL_PROFILE, level))
        ruling = self._rules.decide(caller, tool, level)
        if isinstance(ruling, Forbidden):
            return _CachedDecision(tool, False, Deny(_FORBIDDEN, by=ruling.by, level=level))
        if level >= GRANT_FROM and isinstance(ruling, Unmatched):
            return _CachedDecision(tool, False, Deny(_NO_RULE, level=level))
        return self._decide_by_credential(caller, tool, level, ruling)

    def _decide_by_credential(self, caller: Caller, tool: Tool, level: int, decision: RuleDecision) -> _CachedDecision:
        """What the caller's credential is good for; one that can be renewed with more is shown what it lacks."""
        if caller.proof == "none":
            open_to_all = level == 0 and self._allow_anonymous and tool.effect == "reads" and not tool.foreign
            nobody = Deny("a credential is needed", anonymous=True, level=level)
            return _CachedDecision(tool, open_to_all, Allow(ANONYMOUS, 0) if open_to_all else nobody)
        if denied := credential_denial(caller, level, self._requirements, self._clock()):
            return _CachedDecision(tool, True, denied)
        if denied := scope_denial(caller, level, tool.id.toolkit):
            return _CachedDecision(tool, caller.proof == "token", denied)
        by = AUTHENTICATED if level < GRANT_FROM else decision.by if isinstance(decision, Permitted) else ""
        return _CachedDecision(tool, True, _verdict(by, level, conditional=isinstance(decision, Conditional)))


def _cache_facts(caller: Caller) -> Hashable:
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


def _verdict(by: str, level: int, *, conditional: bool = False) -> Allow | RequireVerification:
    how = required_verification(level)
    return Allow(by, level, conditional) if how is None else RequireVerification(by, level, how, conditional)
