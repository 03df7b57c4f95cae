"""The rate limiter never admits more than its rate and burst, and its retry time is right."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.builders import Clock, call_of, entry_named
from toolhall.model.caller import Allow, Caller
from toolhall.model.errors import Limited
from toolhall.pipeline.limit import Limit, RateLimits
from toolhall.pipeline.rate_buckets import Rate
from toolhall.pipeline.states import Allowed

ALLOWED = Allowed(call_of(caller=Caller("ada")), entry_named(), Allow("test"))
rates = st.sampled_from([0.1, 0.5, 1.0, 3.0, 7.0, 10.0, 333.3, 50_000.0])
bursts = st.integers(1, 20)
starts = st.sampled_from([0.0, 0.1, 12_345.678, 9e6])
# Steps in units of one call's worth of time, so that something happens at every rate.
steps = st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.3, 0.5, 1.0, 1.7, 5.0]), max_size=60)


@settings(max_examples=examples(300))
@given(rates, bursts, starts, steps)
def test_rate_limit_admits_no_more_than_burst_and_rate_in_any_window(
    rate: float, burst: int, start: float, steps: list[float]
) -> None:
    clock, admitted = Clock(start), list[float]()
    limit = Limit(RateLimits(caller=Rate(rate, burst)), clock)
    for step in steps:
        clock.now += step / rate
        try:
            limit(ALLOWED)
        except Limited:
            continue
        admitted.append(clock.now)
    for first, since in enumerate(admitted):
        for last in range(first, len(admitted)):
            assert last - first + 1 <= burst + rate * (admitted[last] - since) + 0.01


@settings(max_examples=examples(300))
@given(rates, bursts, starts, steps)
def test_rate_limit_call_after_its_retry_time_is_admitted(
    rate: float, burst: int, start: float, steps: list[float]
) -> None:
    clock = Clock(start)
    limit = Limit(RateLimits(caller=Rate(rate, burst)), clock)
    for step in steps:
        clock.now += step / rate
        wait = retry_after(limit)
        assert 0 <= wait <= 1 / rate * 1.001
        clock.now += wait
        assert not wait or not retry_after(limit)


def retry_after(limit: Limit) -> float:
    """Seconds until the next call may come; 0 if this one was admitted."""
    try:
        limit(ALLOWED)
    except Limited as error:
        return error.retry_after
    return 0.0
