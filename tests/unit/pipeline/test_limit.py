"""Calls per caller, by a clock that the test moves."""

import pytest

from tests.unit.builders import Clock, call_of, entry_named
from toolhall.model.caller import Allow, Caller
from toolhall.model.errors import Limited
from toolhall.pipeline import rate_buckets
from toolhall.pipeline.limit import Limit, RateLimits
from toolhall.pipeline.rate_buckets import Rate
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
def test_limit_admits_exactly_the_burst_at_once(rate: float, burst: float, now: float) -> None:
    assert calls(limited(rate, burst, Clock(now))) == burst


@pytest.mark.parametrize("rate", [0.1, 1, 3, 7, 10, 1_000])
@pytest.mark.parametrize("burst", [1, 3, 10])
def test_limit_admits_a_call_after_waiting_retry_after(rate: float, burst: float) -> None:
    clock = Clock(12_345.678)
    stage = limited(rate, burst, clock)
    calls(stage)
    for _ in range(50):
        clock.now += wait_of(stage)
        assert calls(stage, at_most=1) == 1


def test_limit_refuses_a_call_before_retry_after_has_passed() -> None:
    clock = Clock()
    stage = limited(1, 1, clock)
    calls(stage)
    clock.now += wait_of(stage) - 0.01
    assert wait_of(stage) == pytest.approx(0.01)


def test_limit_admits_calls_at_the_configured_rate_over_time() -> None:
    clock = Clock()
    stage = limited(10, 5, clock)
    admitted = calls(stage)
    for _ in range(100):
        clock.now += 0.25
        admitted += calls(stage)
    assert admitted == pytest.approx(5 + 10 * 25, abs=1)


def test_limit_idle_caller_regains_at_most_the_burst() -> None:
    clock = Clock()
    stage = limited(10, 5, clock)
    calls(stage)
    clock.now += 3_600
    assert calls(stage) == 5


def test_limit_refused_calls_do_not_extend_retry_after() -> None:
    clock = Clock()
    stage = limited(1, 1, clock)
    calls(stage)
    waits = [wait_of(stage) for _ in range(100)]
    assert waits == [waits[0]] * 100


def test_limit_counts_each_caller_separately() -> None:
    stage = limited(1, 2, Clock())
    assert calls(stage, "ada") == 2
    assert calls(stage, "bob") == 2
    assert calls(stage, "ada") == 0


def test_limit_retry_after_stays_short_when_the_clock_is_set_back() -> None:
    clock = Clock(1_000)
    stage = limited(1, 1, clock)
    calls(stage)
    clock.now = 999
    assert wait_of(stage) == pytest.approx(2)


def test_limit_at_max_keys_admits_a_new_caller_and_evicts_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_buckets, "MAX_KEYS", 10)
    clock = Clock()
    stage = limited(1, 1, clock)
    for number in range(10):
        assert calls(stage, f"caller-{number}") == 1
    clock.now += 0.5
    assert calls(stage, "one more") == 1, "a newcomer is admitted even when nobody can be forgotten"
    assert calls(stage, "caller-0") == 1, "the oldest was forgotten for it"
    assert calls(stage, "caller-9") == 0, "the others were not"


def test_limit_evicts_callers_with_a_full_allowance_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_buckets, "MAX_KEYS", 3)
    clock = Clock()
    stage = limited(1, 1, clock)
    calls(stage, "old")
    calls(stage, "older")
    clock.now += 1.5
    calls(stage, "recent")
    assert calls(stage, "newcomer") == 1
    assert calls(stage, "recent") == 0


def test_limit_evicts_a_tenth_of_the_keys_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through everybody for each of them would take ever longer, the more there are."""
    monkeypatch.setattr(rate_buckets, "MAX_KEYS", 100)
    stage = limited(1, 1, Clock())
    assert sum(calls(stage, f"caller-{number}") for number in range(101)) == 101
    assert calls(stage, "caller-9") == 1, "the oldest tenth was forgotten"
    assert calls(stage, "caller-10") == 0, "the others were not"


def test_limit_passes_call_entry_and_verdict_on() -> None:
    allowed = Allowed(call_of(), ENTRY, Allow("grant-7"))
    admitted = limited(1, 1, Clock())(allowed)
    assert (admitted.call, admitted.entry, admitted.verdict) == (allowed.call, ENTRY, Allow("grant-7"))


def admits(stage: Limit, caller: str, tool: str) -> bool:
    try:
        stage(Allowed(call_of(caller=Caller(caller)), entry_named(tool), Allow("test")))
    except Limited:
        return False
    return True


def test_limit_per_tool_is_shared_by_all_callers() -> None:
    stage = Limit(RateLimits(tool=Rate(1, 2)), Clock())
    assert [admits(stage, caller, "pick") for caller in ("ada", "bob", "eve")] == [True, True, False]
    assert admits(stage, "eve", "other")


def test_limit_per_pair_counts_each_caller_and_tool_separately() -> None:
    stage = Limit(RateLimits(pair=Rate(1, 1)), Clock())
    assert [admits(stage, "ada", tool) for tool in ("pick", "other", "pick")] == [True, True, False]
    assert admits(stage, "bob", "pick")


def test_limit_call_refused_by_one_limit_is_not_counted_by_the_others() -> None:
    stage = Limit(RateLimits(caller=Rate(1, 2), tool=Rate(1, 1)), Clock())
    assert admits(stage, "bob", "pick")
    assert not admits(stage, "ada", "pick")
    assert [admits(stage, "ada", tool) for tool in ("a", "b", "c")] == [True, True, False]


def test_limit_retry_after_is_the_longest_of_all_limits() -> None:
    stage = Limit(RateLimits(caller=Rate(1, 1), tool=Rate(0.1, 1)), Clock())
    assert admits(stage, "ada", "pick")
    assert wait_of(stage) == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize(("cost", "admitted"), [(1, 10), (2, 5), (5, 2), (10, 1), (25, 1)])
def test_limit_cost_of_a_tool_divides_the_number_of_admitted_calls(cost: float, admitted: int) -> None:
    """What costs more than a whole burst takes all of it, and is not locked out for good."""
    clock = Clock()
    stage = Limit(RateLimits(caller=Rate(1, 10), costs={"Kit.*": cost}), clock)
    assert calls(stage) == admitted
    clock.now += wait_of(stage)
    assert calls(stage, at_most=1) == 1


def test_limit_uses_the_highest_cost_of_all_matching_globs() -> None:
    stage = Limit(RateLimits(caller=Rate(1, 10), costs={"*": 2, "Kit.pick@*": 5}), Clock())
    assert calls(stage) == 2


def test_limit_count_refusal_takes_from_the_allowance_of_the_caller() -> None:
    clock = Clock()
    stage = limited(1, 2, clock)
    stage.count_refusal(call_of(caller=Caller("ada")))
    stage.count_refusal(call_of(caller=Caller("ada")))
    with pytest.raises(Limited):
        stage.count_refusal(call_of(caller=Caller("ada")))
    assert calls(stage) == 0
    assert calls(stage, "bob") == 2
