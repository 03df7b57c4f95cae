"""The validate stage: checks arguments against the compiled input schema, outside the event loop if costly."""

from collections.abc import Awaitable
from typing import Protocol

from toolhall.model.caller import GRANT_FROM
from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import Json, JsonObject, escape_pointer, walk_levels
from toolhall.model.messages import Call
from toolhall.pipeline.states import Admitted, Valid
from toolhall.schema.signature import with_binding_problems
from toolhall.schema.validator import MAX_PROBLEMS, MAX_REASON_LENGTH, Validator, printable

# Subschemas visited times bytes judged: below this a validation stalls the loop for less than 20 ms.
IN_LOOP_BUDGET = 5_000_000


class OffLoopValidator(Protocol):
    """Validates somewhere else, within a time budget."""

    async def problems(self, schema: JsonObject, value: Json, size: int) -> list[Problem]:
        """What is wrong with the value; raises BadArguments when it takes too long to find out."""
        ...


class Validate:
    """All problems at once, each with its path, never with a value."""

    def __init__(self, checker: OffLoopValidator) -> None:
        self._checker = checker

    def __call__(self, admitted: Admitted) -> Valid | Awaitable[Valid]:
        """Valid at once, or after a costly check elsewhere; BadArguments otherwise."""
        call, accepts = admitted.call, admitted.entry.input_validator
        if call.size > accepts.fast_size and not _is_cheap(accepts, call):
            return self._validate_off_loop(admitted)
        if not accepts.accepts(call.arguments):
            problems = accepts.problems(call.arguments, call.size)
            raise BadArguments(with_binding_problems(problems, call.arguments, call.size, admitted.entry.bind))
        return _valid(admitted)

    async def _validate_off_loop(self, admitted: Admitted) -> Valid:
        call = admitted.call
        problems = await self._checker.problems(admitted.entry.input_validator.schema, call.arguments, call.size)
        if problems:
            raise BadArguments(problems)
        return _valid(admitted)


def _is_cheap(validator: Validator, call: Call) -> bool:
    """Whether it can be checked here; what holds for all messages of this size is not found out again."""
    if validator.cost.growth == 1:
        validator.fast_size = max(validator.fast_size, IN_LOOP_BUDGET // max(1, validator.cost.visits))
    return validation_cost(validator, call.arguments, call.size) <= IN_LOOP_BUDGET


def _valid(admitted: Admitted) -> Valid:
    if admitted.entry.tool.foreign and admitted.verdict.level >= GRANT_FROM:
        _check_named_arguments(admitted)
    return Valid(admitted.call, admitted.entry, admitted.verdict, admitted.call.arguments)


def _check_named_arguments(admitted: Admitted) -> None:
    """What an open schema from outside lets pass without a word is not handed on where harm can be done."""
    call, closed = admitted.call, admitted.entry.input_validator.declared_only
    if closed is admitted.entry.input_validator or closed.accepts(call.arguments):
        return
    unnamed = [
        f"/{escape_pointer(name)[:MAX_REASON_LENGTH]}" for name in call.arguments if not closed.accepts({name: None})
    ]
    reason = f"the tool's definition does not name this argument, and from level {GRANT_FROM} on only named ones pass"
    raise BadArguments([Problem(printable(path), reason) for path in unnamed[:MAX_PROBLEMS]])


def validation_cost(validator: Validator, value: Json, size: int) -> int:
    """A bound on the work: a recursive schema that judges a part more than once multiplies with each level."""
    bounds = validator.cost
    if bounds.growth == 1:
        return bounds.visits * size
    return int(bounds.visits * size * bounds.growth ** min(_depth(value), 64))


def _depth(value: Json) -> int:
    return sum(1 for _ in walk_levels(value)) + 1
