"""Calls per caller, by a clock that the test moves."""

import pytest

from tests.unit.parts import Clock, call_of, entry_named
from toolhall.model.caller import Allow, Caller
from toolhall.model.errors import Limited
from toolhall.pipeline import limit
from toolhall.pipeline.limit import Limit, Rate, RateLimits
from toolhall.pipeline.states import Allowed

ENTRY = entry_named()


def limited(rate: float, burst: float, clock: Clock) -> Limit:
    """A limit for each caller, and no other."""
    return Limit(RateLimits(caller=Rate(rate, burst)), clock)


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
    assert calls(limited(rate, burst, Clock(now))) == burst


@pytest.mark.parametrize("rate", [0.1, 1, 3, 7, 10, 1_000])
@pytest.mark.parametrize("burst", [1, 3, 10])
def test_who_waits_as_long_as_told_is_admitted(rate: float, burst: float) -> None:
    clock = Clock(12_345.678)
    stage = limited(rate, burst, clock)
    calls(stage)
    for _ in range(50):
        clock.now += wait_of(stage)
        assert calls(stage, at_most=1) == 1


def test_who_comes_back_earlier_is_not() -> None:
    clock = Clock()
    stage = limited(1, 1, clock)
    calls(stage)
    clock.now += wait_of(stage) - 0.01
    assert wait_of(stage) == pytest.approx(0.01)


def test_the_rate_holds_over_time() -> None:
    clock = Clock()
    stage = limited(10, 5, clock)
    admitted = calls(stage)
    for _ in range(100):
        clock.now += 0.25
        admitted += calls(stage)
    assert admitted == pytest.approx(5 + 10 * 25, abs=1)


def test_an_allowance_fills_up_to_the_burst_and_no_further() -> None:
    clock = Clock()
    stage = limited(10, 5, clock)
    calls(stage)
    clock.now += 3_600
    assert calls(stage) == 5


def test_refused_calls_do_not_prolong_the_wait() -> None:
    clock = Clock()
    stage = limited(1, 1, clock)
    calls(stage)
    waits = [wait_of(stage) for _ in range(100)]
    assert waits == [waits[0]] * 100


def test_callers_do_not_share_an_allowance() -> None:
    stage = limited(1, 2, Clock())
    assert calls(stage, "ada") == 2
    assert calls(stage, "bob") == 2
    assert calls(stage, "ada") == 0


def test_a_clock_that_goes_back_locks_nobody_out_for_good() -> None:
    clock = Clock(1_000)
    stage = limited(1, 1, clock)
    calls(stage)
    clock.now = 999
    assert wait_of(stage) == pytest.approx(2)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MAX_KEYS", 10)
    clock = Clock()
    stage = limited(1, 1, clock)
    for number in range(10):
        assert calls(stage, f"caller-{number}") == 1
    clock.now += 0.5
    assert calls(stage, "one more") == 1, "a newcomer is admitted even when nobody can be forgotten"
    assert calls(stage, "caller-0") == 1, "the oldest was forgotten for it"
    assert calls(stage, "caller-9") == 0, "the others were not"


def test_whose_allowance_is_full_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MAX_KEYS", 3)
    clock = Clock()
    stage = limited(1, 1, clock)
    calls(stage, "old")
    calls(stage, "older")
    clock.now += 1.5
    calls(stage, "recent")
    assert calls(stage, "newcomer") == 1
    assert calls(stage, "recent") == 0


def test_room_is_made_for_many_newcomers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through everybody for each of them would take ever longer, the more there are."""
    monkeypatch.setattr(limit, "MAX_KEYS", 100)
    stage = limited(1, 1, Clock())
    assert sum(calls(stage, f"caller-{number}") for number in range(101)) == 101
    assert calls(stage, "caller-9") == 1, "the oldest tenth was forgotten"
    assert calls(stage, "caller-10") == 0, "the others were not"


def test_what_was_promised_before_travels_on() -> None:
    allowed = Allowed(call_of(), ENTRY, Allow("grant-7"))
    admitted = limited(1, 1, Clock())(allowed)
    assert (admitted.call, admitted.entry, admitted.verdict) == (allowed.call, ENTRY, Allow("grant-7"))


def admits(stage: Limit, caller: str, tool: str) -> bool:
    try:
        stage(Allowed(call_of(caller=Caller(caller)), entry_named(tool), Allow("test")))
    except Limited:
        return False
    return True


def test_a_tool_has_an_allowance_that_all_callers_share() -> None:
    stage = Limit(RateLimits(tool=Rate(1, 2)), Clock())
    assert [admits(stage, caller, "pick") for caller in ("ada", "bob", "eve")] == [True, True, False]
    assert admits(stage, "eve", "other")


def test_a_caller_has_an_allowance_for_each_tool() -> None:
    stage = Limit(RateLimits(pair=Rate(1, 1)), Clock())
    assert [admits(stage, "ada", tool) for tool in ("pick", "other", "pick")] == [True, True, False]
    assert admits(stage, "bob", "pick")


def test_what_one_allowance_refuses_costs_nothing_in_the_others() -> None:
    stage = Limit(RateLimits(caller=Rate(1, 2), tool=Rate(1, 1)), Clock())
    assert admits(stage, "bob", "pick")
    assert not admits(stage, "ada", "pick")
    assert [admits(stage, "ada", tool) for tool in ("a", "b", "c")] == [True, True, False]


def test_the_longest_wait_is_told() -> None:
    stage = Limit(RateLimits(caller=Rate(1, 1), tool=Rate(0.1, 1)), Clock())
    assert admits(stage, "ada", "pick")
    assert wait_of(stage) == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize(("cost", "admitted"), [(1, 10), (2, 5), (5, 2), (10, 1), (25, 1)])
def test_a_tool_that_costs_more_is_called_less_often(cost: float, admitted: int) -> None:
    """What costs more than a whole burst takes all of it, and is not locked out for good."""
    clock = Clock()
    stage = Limit(RateLimits(caller=Rate(1, 10), costs={"Kit.*": cost}), clock)
    assert calls(stage) == admitted
    clock.now += wait_of(stage)
    assert calls(stage, at_most=1) == 1


def test_of_several_costs_the_highest_counts() -> None:
    stage = Limit(RateLimits(caller=Rate(1, 10), costs={"*": 2, "Kit.pick@*": 5}), Clock())
    assert calls(stage) == 2


def test_attempts_that_came_to_no_tool_count_too() -> None:
    clock = Clock()
    stage = limited(1, 2, clock)
    stage.count_refusal(call_of(caller=Caller("ada")))
    stage.count_refusal(call_of(caller=Caller("ada")))
    with pytest.raises(Limited):
        stage.count_refusal(call_of(caller=Caller("ada")))
    assert calls(stage) == 0
    assert calls(stage, "bob") == 2
