"""Calls per caller, by a clock that the test moves."""

import pytest

from tests.unit.parts import Clock, call_of, entry_named
from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.model.verdict import Allow
from toolhall.pipeline import limit
from toolhall.pipeline.limit import Limit
from toolhall.pipeline.states import Allowed

ENTRY = entry_named()


def calls(stage: Limit, caller: str = "ada", at_most: int = 1_000) -> int:
    """How many calls are admitted now."""
    for count in range(at_most):
        try:
            stage(Allowed(call_of(caller=Caller(caller)), ENTRY, Allow("test")))
        except Limited:
            return count
    return at_most


def wait_of(stage: Limit, caller: str = "ada") -> float:
    """How long a caller that is over its limit is told to wait."""
    with pytest.raises(Limited) as caught:
        stage(Allowed(call_of(caller=Caller(caller)), ENTRY, Allow("test")))
    return caught.value.retry_after


@pytest.mark.parametrize("rate", [0.1, 1, 3, 7, 10, 1_000])
@pytest.mark.parametrize("burst", [1, 2, 3, 7, 10, 100])
@pytest.mark.parametrize("now", [0.0, 0.1, 12_345.678, 1e7])
def test_exactly_the_burst_is_admitted_at_once(rate: float, burst: float, now: float) -> None:
    assert calls(Limit(rate, burst, Clock(now))) == burst


@pytest.mark.parametrize("rate", [0.1, 1, 3, 7, 10, 1_000])
@pytest.mark.parametrize("burst", [1, 3, 10])
def test_who_waits_as_long_as_told_is_admitted(rate: float, burst: float) -> None:
    clock = Clock(12_345.678)
    stage = Limit(rate, burst, clock)
    calls(stage)
    for _ in range(50):
        clock.now += wait_of(stage)
        assert calls(stage, at_most=1) == 1


def test_who_comes_back_earlier_is_not() -> None:
    clock = Clock()
    stage = Limit(1, 1, clock)
    calls(stage)
    clock.now += wait_of(stage) - 0.01
    assert wait_of(stage) == pytest.approx(0.01)


def test_the_rate_holds_over_time() -> None:
    clock = Clock()
    stage = Limit(10, 5, clock)
    admitted = calls(stage)
    for _ in range(100):
        clock.now += 0.25
        admitted += calls(stage)
    assert admitted == pytest.approx(5 + 10 * 25, abs=1)


def test_an_allowance_fills_up_to_the_burst_and_no_further() -> None:
    clock = Clock()
    stage = Limit(10, 5, clock)
    calls(stage)
    clock.now += 3_600
    assert calls(stage) == 5


def test_refused_calls_do_not_prolong_the_wait() -> None:
    clock = Clock()
    stage = Limit(1, 1, clock)
    calls(stage)
    waits = [wait_of(stage) for _ in range(100)]
    assert waits == [waits[0]] * 100


def test_callers_do_not_share_an_allowance() -> None:
    stage = Limit(1, 2, Clock())
    assert calls(stage, "ada") == 2
    assert calls(stage, "bob") == 2
    assert calls(stage, "ada") == 0


def test_a_clock_that_goes_back_locks_nobody_out_for_good() -> None:
    clock = Clock(1_000)
    stage = Limit(1, 1, clock)
    calls(stage)
    clock.now = 999
    assert wait_of(stage) == pytest.approx(2)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MAX_CALLERS", 10)
    clock = Clock()
    stage = Limit(1, 1, clock)
    for number in range(10):
        assert calls(stage, f"caller-{number}") == 1
    clock.now += 0.5
    assert calls(stage, "one more") == 1, "a newcomer is admitted even when nobody can be forgotten"
    assert calls(stage, "caller-0") == 1, "the oldest was forgotten for it"
    assert calls(stage, "caller-9") == 0, "the others were not"


def test_whose_allowance_is_full_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MAX_CALLERS", 3)
    clock = Clock()
    stage = Limit(1, 1, clock)
    calls(stage, "old")
    calls(stage, "older")
    clock.now += 1.5
    calls(stage, "recent")
    assert calls(stage, "newcomer") == 1
    assert calls(stage, "recent") == 0


def test_what_was_promised_before_travels_on() -> None:
    allowed = Allowed(call_of(), ENTRY, Allow("grant-7"))
    admitted = Limit(1, 1, Clock())(allowed)
    assert (admitted.call, admitted.entry, admitted.verdict) == (allowed.call, ENTRY, Allow("grant-7"))
