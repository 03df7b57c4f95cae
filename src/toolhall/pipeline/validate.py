"""The validate stage: checks arguments against the compiled input schema, outside the event loop if costly."""

from collections.abc import Awaitable

from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.caller import GRANT_FROM
from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import Json, escape_pointer, walk_levels
from toolhall.model.messages import Call
from toolhall.pipeline.states import Admitted, Valid
from toolhall.schema.signature import with_binding_problems
from toolhall.schema.validator import MAX_PROBLEMS, MAX_REASON_LENGTH, Validator, printable

# Subschemas visited times bytes checked: below this, a validation blocks the loop for less than 20 ms.
IN_LOOP_BUDGET = 5_000_000


class Validate:
    """Validates arguments; reports all problems at once, each with its path, never with a value."""

    def __init__(self, checker: ProcessValidator) -> None:
        self._checker = checker

    def __call__(self, admitted: Admitted) -> Valid | Awaitable[Valid]:
        """Return Valid, or an awaitable of it for a costly check; raises BadArguments."""
        call, validator = admitted.call, admitted.entry.input_validator
        if call.size > validator.fast_size and not _is_cheap(validator, call):
            return self._validate_off_loop(admitted)
        if not validator.accepts(call.arguments):
            problems = validator.problems(call.arguments, call.size)
            raise BadArguments(with_binding_problems(problems, call.arguments, call.size, admitted.entry.bind))
        return _valid(admitted)

    async def _validate_off_loop(self, admitted: Admitted) -> Valid:
        call = admitted.call
        problems = await self._checker.problems(admitted.entry.input_validator.schema, call.arguments, call.size)
        if problems:
            raise BadArguments(problems)
        return _valid(admitted)


def _is_cheap(validator: Validator, call: Call) -> bool:
    """Return whether the arguments can be checked in the loop; remembers the size up to which all of them can."""
    if validator.cost.growth == 1:
        validator.fast_size = max(validator.fast_size, IN_LOOP_BUDGET // max(1, validator.cost.visits))
    return validation_cost(validator, call.arguments, call.size) <= IN_LOOP_BUDGET


def _valid(admitted: Admitted) -> Valid:
    if admitted.entry.tool.foreign and admitted.verdict.level >= GRANT_FROM:
        _check_named_arguments(admitted)
    return Valid(admitted.call, admitted.entry, admitted.verdict, admitted.call.arguments)


def _check_named_arguments(admitted: Admitted) -> None:
    """Refuse arguments that a foreign tool's schema allows but does not name, from level 4 up."""
    call, closed = admitted.call, admitted.entry.input_validator.declared_only
    if closed is admitted.entry.input_validator or closed.accepts(call.arguments):
        return
    unnamed = [
        f"/{escape_pointer(name)[:MAX_REASON_LENGTH]}" for name in call.arguments if not closed.accepts({name: None})
    ]
    reason = f"the tool's definition does not name this argument, and from level {GRANT_FROM} on only named ones pass"
    raise BadArguments([Problem(printable(path), reason) for path in unnamed[:MAX_PROBLEMS]])


def validation_cost(validator: Validator, value: Json, size: int) -> int:
    """Return a bound on the work: with a recursive schema that checks a part repeatedly, it grows with every level."""
    bounds = validator.cost
    if bounds.growth == 1:
        return bounds.visits * size
    return int(bounds.visits * size * bounds.growth ** min(_depth(value), 64))


def _depth(value: Json) -> int:
    return sum(1 for _ in walk_levels(value)) + 1
