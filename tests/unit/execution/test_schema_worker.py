"""Costly validation in a process of its own."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.harness.patience import patience
from tests.unit.builders import nested
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.errors import BadArguments, Problem
from toolhall.schema.validator import Validator

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


@pytest.fixture
def checker() -> Iterator[ProcessValidator]:
    checker = ProcessValidator(budget=5.0)
    try:
        yield checker
    finally:
        checker.close()


async def test_process_validator_agrees_with_validator(checker: ProcessValidator) -> None:
    for value in ({"a": 1}, {"a": "x", "b": 2}, {}):
        assert await checker.problems(SCHEMA, value, 20) == Validator(SCHEMA).problems(value, 20)


async def test_process_validator_serves_concurrent_callers(checker: ProcessValidator) -> None:
    values = [{"a": 1}, {"a": "x"}] * 10
    found = await asyncio.gather(*(checker.problems(SCHEMA, value, 10) for value in values))
    assert [bool(problems) for problems in found] == [False, True] * 10


async def test_process_validator_timeout_refuses_and_serves_next() -> None:
    # A list in an enum is compared one by one: 25 million comparisons.
    slow = {"items": {"enum": [[number] for number in range(5_000)]}}
    checker = ProcessValidator(budget=0.2)
    try:
        await asyncio.wait_for(_warm(checker), patience())
        start = time.monotonic()
        with pytest.raises(BadArguments) as caught:
            await checker.problems(slow, [[4_999]] * 20_000, 140_000)
        assert time.monotonic() - start < 10
        assert caught.value.problems == (
            Problem("", "these arguments take too long to check against the schema; send smaller or flatter ones"),
        )
    finally:
        checker.close()


async def _warm(checker: ProcessValidator) -> None:
    """A started worker, so that only the work counts."""
    while True:
        try:
            await checker.problems(SCHEMA, {}, 2)
        except BadArguments:
            continue
        return


async def test_process_validator_does_not_block_loop(checker: ProcessValidator) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    try:
        await checker.problems(SCHEMA, {}, 2)
    finally:
        ticking.cancel()
    assert ticks > 5


async def test_process_validator_accepts_deep_value(checker: ProcessValidator) -> None:
    schema = {
        "$ref": "#/$defs/N",
        "$defs": {"N": {"properties": {"a": {"$ref": "#/$defs/N"}}, "type": ["object", "integer"]}},
    }
    assert await checker.problems(schema, nested(60), 400) == []
    assert await checker.problems(schema, nested(60, core="x"), 400) != []


def test_process_validator_close_unused_is_harmless() -> None:
    ProcessValidator().close()


async def test_process_validator_restarts_after_close(checker: ProcessValidator) -> None:
    await checker.problems(SCHEMA, {}, 2)
    checker.close()
    assert await checker.problems(SCHEMA, {"a": "x"}, 8) != []
