"""How many calls may be tried again."""

from tests.unit.builders import Clock
from toolhall.execution.remote.remote_runner import RetryBudget


def spent(budget: RetryBudget) -> int:
    """Until there is nothing left."""
    count = 0
    while budget.try_spend():
        count += 1
    return count


def test_retry_budget_allows_minimum_and_tenth_of_calls() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    assert spent(budget) == 10
    for _ in range(1_000):
        budget.record_call()
    assert spent(budget) == 90


def test_retry_budget_recovers_over_time() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    assert spent(budget) == 10
    clock.now += 9.9
    assert spent(budget) == 0
    clock.now += 5.1  # half of it lies further back than the window
    assert spent(budget) == 5
    clock.now += 100
    assert spent(budget) == 10


def test_retry_budget_forgets_old_calls() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    for _ in range(1_000):
        budget.record_call()
    clock.now += 15
    assert spent(budget) == 50
    clock.now += 20
    assert spent(budget) == 10
