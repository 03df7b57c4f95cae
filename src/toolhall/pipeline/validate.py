"""Checks the arguments against the compiled input schema, off the loop when that could take long."""

from collections.abc import Awaitable
from typing import Protocol

from toolhall.model.call import Call
from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import Json, JsonObject, levels
from toolhall.model.levels import GRANTED_FROM
from toolhall.pipeline.states import Admitted, Valid
from toolhall.schema.binding import with_forms
from toolhall.schema.validator import MAX_PROBLEMS, MAX_REASON, Validator, shown
from toolhall.schema.walk import escape

# Subschemas visited times bytes judged: below this a validation stalls the loop for less than 20 ms.
IN_LOOP_BUDGET = 5_000_000


class Checker(Protocol):
    """Validates somewhere else, within a time budget."""

    async def problems(self, schema: JsonObject, value: Json, size: int) -> list[Problem]:
        """What is wrong with the value; raises BadArguments when it takes too long to find out."""
        ...


class Validate:
    """All problems at once, each with its path, never with a value."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def __call__(self, admitted: Admitted) -> Valid | Awaitable[Valid]:
        """Valid at once, or after a costly check elsewhere; BadArguments otherwise."""
        call, accepts = admitted.call, admitted.entry.accepts
        if call.size > accepts.light and not _is_light(accepts, call):
            return self._elsewhere(admitted)
        if not accepts.accepts(call.arguments):
            problems = accepts.problems(call.arguments, call.size)
            raise BadArguments(with_forms(problems, call.arguments, call.size, admitted.entry.bind))
        return _valid(admitted)

    async def _elsewhere(self, admitted: Admitted) -> Valid:
        call = admitted.call
        problems = await self._checker.problems(admitted.entry.accepts.schema, call.arguments, call.size)
        if problems:
            raise BadArguments(problems)
        return _valid(admitted)


def _is_light(accepts: Validator, call: Call) -> bool:
    """Whether it can be checked here; what holds for all messages of this size is not found out again."""
    if accepts.bounds.growth == 1:
        accepts.light = max(accepts.light, IN_LOOP_BUDGET // max(1, accepts.bounds.visits))
    return cost(accepts, call.arguments, call.size) <= IN_LOOP_BUDGET


def _valid(admitted: Admitted) -> Valid:
    if admitted.entry.tool.foreign and admitted.verdict.level >= GRANTED_FROM:
        _refuse_unnamed(admitted)
    return Valid(admitted.call, admitted.entry, admitted.verdict, admitted.call.arguments)


def _refuse_unnamed(admitted: Admitted) -> None:
    """What an open schema from outside lets pass without a word is not handed on where harm can be done."""
    call, closed = admitted.call, admitted.entry.accepts.closed
    if closed is admitted.entry.accepts or closed.accepts(call.arguments):
        return
    unnamed = [f"/{escape(name)[:MAX_REASON]}" for name in call.arguments if not closed.accepts({name: None})]
    reason = f"the tool's definition does not name this argument, and from level {GRANTED_FROM} on only named ones pass"
    raise BadArguments([Problem(shown(path), reason) for path in unnamed[:MAX_PROBLEMS]])


def cost(validator: Validator, value: Json, size: int) -> int:
    """A bound on the work: a recursive schema that judges a part more than once multiplies with each level."""
    bounds = validator.bounds
    if bounds.growth == 1:
        return bounds.visits * size
    return int(bounds.visits * size * bounds.growth ** min(_depth(value), 64))


def _depth(value: Json) -> int:
    return sum(1 for _ in levels(value)) + 1
