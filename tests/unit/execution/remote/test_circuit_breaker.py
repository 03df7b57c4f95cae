"""When a replica's circuit opens, who may try it again, and when it closes."""

import pytest

from tests.unit.parts import Clock
from toolhall.execution.remote.circuit_breaker import FAILURE_THRESHOLD, OPEN_SECONDS, CircuitBreaker


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock)


def state(circuit: CircuitBreaker) -> str:
    return circuit.state


def fail(circuit: CircuitBreaker, times: int = FAILURE_THRESHOLD) -> None:
    for _ in range(times):
        circuit.record_failure()


def test_five_failures_in_a_row_open_it_for_thirty_seconds(circuit: CircuitBreaker, clock: Clock) -> None:
    fail(circuit, 4)
    assert (state(circuit), circuit.allows_call(), circuit.retry_after) == ("closed", True, 0)
    circuit.record_failure()
    assert (state(circuit), circuit.allows_call(), circuit.retry_after) == ("open", False, 30)
    clock.now += OPEN_SECONDS - 0.1
    assert (state(circuit), circuit.allows_call()) == ("open", False)
    clock.now += 0.2
    assert (state(circuit), circuit.allows_call(), circuit.retry_after) == ("half-open", True, 0)


def test_a_call_that_comes_back_begins_the_row_anew(circuit: CircuitBreaker) -> None:
    for _ in range(3):
        fail(circuit, 4)
        circuit.record_success()
    assert state(circuit) == "closed"


def test_probes_that_fail_count_like_calls(circuit: CircuitBreaker) -> None:
    fail(circuit, 3)
    circuit.record_probe_failure()
    assert state(circuit) == "closed"
    circuit.record_probe_failure()
    assert state(circuit) == "open"


def test_a_good_probe_forgives_bad_probes_and_no_call(circuit: CircuitBreaker) -> None:
    """A server that answers probes and loses every call must not go on losing them."""
    for _ in range(4):
        circuit.record_probe_failure()
        circuit.record_probe_success()
    assert state(circuit) == "closed"
    for _ in range(5):
        circuit.record_failure()
        circuit.record_probe_success()
    assert state(circuit) == "half-open"


def test_one_call_at_a_time_tries_it(circuit: CircuitBreaker, clock: Clock) -> None:
    fail(circuit)
    clock.now += OPEN_SECONDS
    assert circuit.allows_call()
    assert circuit.begin_call()
    assert not circuit.allows_call()
    circuit.end_trial()  # cancelled: nothing is known
    assert circuit.allows_call()
    circuit.begin_call()
    circuit.record_success()
    circuit.end_trial()
    assert (state(circuit), circuit.allows_call(), circuit.begin_call()) == ("closed", True, False)


def test_a_trial_that_fails_opens_it_again(circuit: CircuitBreaker, clock: Clock) -> None:
    fail(circuit)
    clock.now += OPEN_SECONDS
    circuit.begin_call()
    circuit.record_failure()
    circuit.end_trial()
    assert (state(circuit), circuit.retry_after) == ("open", OPEN_SECONDS)


def test_a_good_probe_lets_it_be_tried_at_once_and_after_a_failed_trial_within_ten_seconds(
    circuit: CircuitBreaker, clock: Clock
) -> None:
    fail(circuit)
    circuit.record_probe_success()
    assert circuit.allows_call()
    circuit.begin_call()
    circuit.record_failure()
    circuit.end_trial()
    waited = 0
    while not circuit.allows_call():
        clock.now += 2
        waited += 2
        circuit.record_probe_success()
    assert 5 <= waited <= 10


def test_what_began_before_it_opened_neither_prolongs_nor_closes_it(circuit: CircuitBreaker, clock: Clock) -> None:
    fail(circuit)
    clock.now += 20
    circuit.record_failure()
    assert circuit.retry_after == 10
    circuit.record_success()  # like a probe: it may be tried
    assert state(circuit) == "half-open"
    assert circuit.begin_call()


def test_the_end_of_an_older_call_does_not_let_a_second_trial_in(circuit: CircuitBreaker, clock: Clock) -> None:
    assert not circuit.begin_call()
    fail(circuit)
    clock.now += OPEN_SECONDS
    assert circuit.begin_call()
    circuit.record_probe_success()
    assert not circuit.allows_call()
