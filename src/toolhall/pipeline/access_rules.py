"""Access rules: AccessRules decides who may call what; GrantRules does so by the grants of a hall.

A decision is Permitted, Conditional (it depends on the arguments), Forbidden or Unmatched. Forbidden wins over every
permission, and Unmatched means no: nothing is permitted by default.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from math import isfinite
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from toolhall.contracts.digest import canonical_json
from toolhall.model.caller import GRANT_FROM, Caller
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.defaults import UNKNOWN
from toolhall.stores.access import Condition, Grant

MAX_CACHED_CALLERS = 1_000
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_ABSENT = object()
_Matcher: TypeAlias = Callable[[str], object]


class Permitted(msgspec.Struct, frozen=True):
    """A rule permits the call; `by` is its id."""

    by: str


class Conditional(msgspec.Struct, frozen=True):
    """The decision depends on the arguments."""


class Forbidden(msgspec.Struct, frozen=True):
    """A rule forbids the call, whatever else permits it; `by` is its id."""

    by: str


class Unmatched(msgspec.Struct, frozen=True):
    """No rule permits the call, which means no."""


RuleDecision: TypeAlias = Permitted | Conditional | Forbidden | Unmatched


class AccessRules(Protocol):
    """Decides who may call what: by grants, or by policies in another language such as Cedar."""

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:
        """Decide as far as that does not depend on the arguments; Conditional where it does."""
        ...

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:
        """Decide for these arguments; never Conditional."""
        ...


class NoRules:
    """The rules of a hall without grants: nothing is permitted."""

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:  # noqa: ARG002 - nothing is ever granted
        """Return Unmatched."""
        return Unmatched()

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:  # noqa: ARG002
        """Return Unmatched."""
        return Unmatched()


class GrantRules:
    """The grants of a hall at one time; their order has no meaning: any forbid wins over all permits."""

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self._rules = sorted(map(_compile_grant, grants), key=lambda rule: rule.id)
        self._by_caller: dict[str, list[_CompiledGrant]] = {}

    def with_grants(self, grants: Iterable[Grant]) -> "GrantRules":
        """Return rules with these grants as well; what is compiled is shared, and what is cached is not."""
        rules = GrantRules(grants)
        rules._rules = sorted((*self._rules, *rules._rules), key=lambda rule: rule.id)
        return rules

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:
        """Decide by the grants without conditions; Conditional if others could change the decision."""
        relevant = self._relevant(caller, tool)
        always = [rule for rule in relevant if not rule.conditions]
        if forbids := _first(always, forbids=True):
            return Forbidden(forbids)
        permits = _first(relevant, forbids=False)
        # Up to level 3 no grant is needed, but a grant may still forbid.
        if permits is None and (level >= GRANT_FROM or not relevant):
            return Unmatched()
        permits = _first(always, forbids=False)
        if permits is None or any(rule.forbids for rule in relevant):
            return Conditional()
        return Permitted(permits)

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:  # noqa: ARG002
        """Decide by every grant whose conditions these arguments meet."""
        applying = [rule for rule in self._relevant(caller, tool) if rule.applies(arguments)]
        if forbids := _first(applying, forbids=True):
            return Forbidden(forbids)
        permits = _first(applying, forbids=False)
        return Unmatched() if permits is None else Permitted(permits)

    def conditional_permits(self, caller: Caller, tool: Tool) -> tuple[str, ...]:
        """Return the ids of the grants that permit this caller the tool under conditions."""
        return tuple(rule.id for rule in self._relevant(caller, tool) if rule.conditions and not rule.forbids)

    def _relevant(self, caller: Caller, tool: Tool) -> "list[_CompiledGrant]":
        rules = self._by_caller.get(caller.id)
        if rules is None:
            if len(self._by_caller) >= MAX_CACHED_CALLERS:
                self._by_caller = {}
            rules = self._by_caller[caller.id] = [rule for rule in self._rules if rule.callers(caller.id)]
        tool_id = str(tool.id)
        return [rule for rule in rules if rule.matches_tool(tool_id)]


class _CompiledCondition(NamedTuple):
    """A condition on one argument, compiled."""

    path: tuple[str, ...]
    values: frozenset[bytes]  # canonical JSON, so that equal values have equal bytes

    def is_met(self, arguments: JsonObject, *, in_doubt: bool) -> bool:
        """Return whether the argument is present and one of the values; `in_doubt` if that cannot be known."""
        found = _value_at(self.path, arguments)
        if found is _ABSENT or (isinstance(found, float) and not isfinite(found)):
            return False
        try:
            return canonical_json(found) in self.values
        except (TypeError, ValueError, RecursionError):  # it is or contains UNKNOWN, or is not JSON
            return in_doubt


class _CompiledGrant(NamedTuple):
    """A grant, compiled."""

    id: str
    forbids: bool
    callers: _Matcher
    tools: _Matcher
    conditions: tuple[_CompiledCondition, ...]

    def matches_tool(self, tool_id: str) -> bool:
        """Return whether the grant is about this tool; a pattern without a version matches all versions."""
        return bool(self.tools(tool_id) or self.tools(tool_id.partition("@")[0]))

    def applies(self, arguments: JsonObject) -> bool:
        """Return whether these arguments meet all conditions; in doubt, a forbid applies and a permit does not."""
        return all(condition.is_met(arguments, in_doubt=self.forbids) for condition in self.conditions)


def _first(rules: Sequence[_CompiledGrant], *, forbids: bool) -> str | None:
    """Return the id of the first rule of this effect; rules are sorted by id, so the answer is stable."""
    return next((rule.id for rule in rules if rule.forbids is forbids), None)


def _compile_grant(grant: Grant) -> _CompiledGrant:
    conditions = tuple(map(_compile_condition, grant.conditions))
    return _CompiledGrant(
        grant.id, grant.effect == "forbid", _glob_matcher(grant.callers), _glob_matcher(grant.tools), conditions
    )


def _glob_matcher(glob: str) -> _Matcher:
    return re.compile(translate(glob)).match


def _compile_condition(condition: Condition) -> _CompiledCondition:
    path = tuple(part.replace("~1", "/").replace("~0", "~") for part in condition.path.split("/")[1:])
    return _CompiledCondition(path, frozenset(map(canonical_json, condition.one_of)))


def _value_at(path: Sequence[str], value: Json) -> Json:
    """Return the value at a path, or _ABSENT; inside an UNKNOWN value, every value is UNKNOWN."""
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
