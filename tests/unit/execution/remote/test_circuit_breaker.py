"""When a replica's circuit opens, who may try it again, and when it closes."""

import pytest

from tests.unit.builders import Clock
from toolhall.execution.remote.replica import FAILURE_THRESHOLD, OPEN_SECONDS, CircuitBreaker


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


def test_circuit_breaker_five_failures_open_for_thirty_seconds(circuit: CircuitBreaker, clock: Clock) -> None:
    fail(circuit, 4)
    assert (state(circuit), circuit.allows_call(), circuit.retry_after) == ("closed", True, 0)
    circuit.record_failure()
    assert (state(circuit), circuit.allows_call(), circuit.retry_after) == ("open", False, 30)
    clock.now += OPEN_SECONDS - 0.1
    assert (state(circuit), circuit.allows_call()) == ("open", False)
    clock.now += 0.2
    assert (state(circuit), circuit.allows_call(), circuit.retry_after) == ("half-open", True, 0)


def test_circuit_breaker_success_resets_failures(circuit: CircuitBreaker) -> None:
    for _ in range(3):
        fail(circuit, 4)
        circuit.record_success()
    assert state(circuit) == "closed"


def test_circuit_breaker_failed_probes_count_as_failures(circuit: CircuitBreaker) -> None:
    fail(circuit, 3)
    circuit.record_probe_failure()
    assert state(circuit) == "closed"
    circuit.record_probe_failure()
    assert state(circuit) == "open"


def test_circuit_breaker_good_probe_resets_probes_not_calls(circuit: CircuitBreaker) -> None:
    """A server that answers probes and loses every call must not go on losing them."""
    for _ in range(4):
        circuit.record_probe_failure()
        circuit.record_probe_success()
    assert state(circuit) == "closed"
    for _ in range(5):
        circuit.record_failure()
        circuit.record_probe_success()
    assert state(circuit) == "half-open"


def test_circuit_breaker_half_open_allows_one_trial_at_a_time(circuit: CircuitBreaker, clock: Clock) -> None:
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


def test_circuit_breaker_failed_trial_reopens(circuit: CircuitBreaker, clock: Clock) -> None:
    fail(circuit)
    clock.now += OPEN_SECONDS
    circuit.begin_call()
    circuit.record_failure()
    circuit.end_trial()
    assert (state(circuit), circuit.retry_after) == ("open", OPEN_SECONDS)


def test_circuit_breaker_good_probe_allows_early_trial(circuit: CircuitBreaker, clock: Clock) -> None:
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


def test_circuit_breaker_earlier_call_neither_extends_nor_closes(circuit: CircuitBreaker, clock: Clock) -> None:
    fail(circuit)
    clock.now += 20
    circuit.record_failure()
    assert circuit.retry_after == 10
    circuit.record_success()  # like a probe: it may be tried
    assert state(circuit) == "half-open"
    assert circuit.begin_call()


def test_circuit_breaker_earlier_call_does_not_admit_second_trial(circuit: CircuitBreaker, clock: Clock) -> None:
    assert not circuit.begin_call()
    fail(circuit)
    clock.now += OPEN_SECONDS
    assert circuit.begin_call()
    circuit.record_probe_success()
    assert not circuit.allows_call()
