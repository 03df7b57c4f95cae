"""How many calls may be tried again."""

from tests.unit.parts import Clock
from toolhall.execution.remote.circuit_breaker import RetryBudget


def spent(budget: RetryBudget) -> int:
    """Until there is nothing left."""
    count = 0
    while budget.try_spend():
        count += 1
    return count


def test_a_few_are_always_allowed_and_a_tenth_of_many() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    assert spent(budget) == 10
    for _ in range(1_000):
        budget.record_call()
    assert spent(budget) == 90


def test_what_was_spent_comes_back_as_time_passes() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    assert spent(budget) == 10
    clock.now += 9.9
    assert spent(budget) == 0
    clock.now += 5.1  # half of it lies further back than the window
    assert spent(budget) == 5
    clock.now += 100
    assert spent(budget) == 10


def test_calls_of_long_ago_count_no_more() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    for _ in range(1_000):
        budget.record_call()
    clock.now += 15
    assert spent(budget) == 50
    clock.now += 20
    assert spent(budget) == 10
