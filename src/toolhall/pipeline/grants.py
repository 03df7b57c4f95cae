"""What grants say of a caller and a tool: one that forbids wins, and without one that permits the answer is no."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from math import isfinite
from typing import NamedTuple, TypeAlias

from toolhall.contracts.canonical import canonical
from toolhall.model.caller import Caller
from toolhall.model.json import Json, JsonObject
from toolhall.model.levels import GRANTED_FROM
from toolhall.model.tool import Tool
from toolhall.pipeline.rulings import Conditional, Forbidden, Permitted, Ruling, Unmatched
from toolhall.schema.defaults import UNKNOWN
from toolhall.stores.grants.base import Condition, Grant

MOST_CALLERS = 1_000
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_NOTHING = object()

_Matches: TypeAlias = Callable[[str], object]


class _Demand(NamedTuple):
    """A condition, ready to be asked."""

    path: tuple[str, ...]
    values: frozenset[bytes]  # each in the one spelling that equal values share

    def holds(self, arguments: JsonObject, *, in_doubt: bool) -> bool:
        """Whether the argument is there and is one of the values; `in_doubt` where nobody can tell."""
        found = _at(self.path, arguments)
        if found is _NOTHING or (isinstance(found, float) and not isfinite(found)):
            return False
        try:
            return canonical(found) in self.values
        except (TypeError, ValueError, RecursionError):  # it is, or it holds, what is UNKNOWN or no JSON
            return in_doubt


class _Rule(NamedTuple):
    """A grant, ready to be asked."""

    id: str
    forbids: bool
    callers: _Matches
    tools: _Matches
    demands: tuple[_Demand, ...]

    def means(self, tool_id: str) -> bool:
        """Whether it is about this tool; one that names no version means all of them."""
        return bool(self.tools(tool_id) or self.tools(tool_id.partition("@")[0]))

    def applies(self, arguments: JsonObject) -> bool:
        """Whether these arguments meet its conditions; in doubt it forbids, and does not permit."""
        return all(demand.holds(arguments, in_doubt=self.forbids) for demand in self.demands)


class Rulings:
    """The grants of a hall at one time; the order in which they were made means nothing."""

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self._rules = sorted(map(_rule, grants), key=lambda rule: rule.id)
        self._by_caller: dict[str, list[_Rule]] = {}

    def ruling(self, caller: Caller, tool: Tool, level: int) -> Ruling:
        """What they say as far as it does not depend on the arguments."""
        about = self._about(caller, tool)
        always = [rule for rule in about if not rule.demands]
        if forbids := _first(always, forbids=True):
            return Forbidden(forbids)
        permits = _first(about, forbids=False)
        # Up to level 3 nothing must be granted, but a grant may still forbid.
        if permits is None and (level >= GRANTED_FROM or not about):
            return Unmatched()
        permits = _first(always, forbids=False)
        if permits is None or any(rule.forbids for rule in about):
            return Conditional()
        return Permitted(permits)

    def settled(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> Ruling:  # noqa: ARG002
        """What they say of these arguments; never Conditional."""
        meant = [rule for rule in self._about(caller, tool) if rule.applies(arguments)]
        if forbids := _first(meant, forbids=True):
            return Forbidden(forbids)
        permits = _first(meant, forbids=False)
        return Unmatched() if permits is None else Permitted(permits)

    def _about(self, caller: Caller, tool: Tool) -> list[_Rule]:
        rules = self._by_caller.get(caller.id)
        if rules is None:
            if len(self._by_caller) >= MOST_CALLERS:
                self._by_caller = {}
            rules = self._by_caller[caller.id] = [rule for rule in self._rules if rule.callers(caller.id)]
        tool_id = str(tool.id)
        return [rule for rule in rules if rule.means(tool_id)]


def _first(rules: Sequence[_Rule], *, forbids: bool) -> str | None:
    """The id of the first that says so: rules are sorted by id."""
    return next((rule.id for rule in rules if rule.forbids is forbids), None)


def _rule(grant: Grant) -> _Rule:
    demands = tuple(map(_demand, grant.conditions))
    return _Rule(grant.id, grant.effect == "forbid", _matching(grant.callers), _matching(grant.tools), demands)


def _matching(glob: str) -> _Matches:
    return re.compile(translate(glob)).match


def _demand(condition: Condition) -> _Demand:
    path = tuple(part.replace("~1", "/").replace("~0", "~") for part in condition.path.split("/")[1:])
    return _Demand(path, frozenset(map(canonical, condition.one_of)))


def _at(path: Sequence[str], value: Json) -> Json:
    """What is at this place, or nothing; inside of what is UNKNOWN, everything is."""
    for part in path:
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(value, dict):
            value = value.get(part, _NOTHING)
        elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return _NOTHING
    return value
