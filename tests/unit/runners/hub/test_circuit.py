"""When a replica's circuit opens, who may try it again, and when it closes."""

import pytest

from tests.unit.parts import Clock
from toolhall.runners.hub.circuit import MOST_FAILURES, OPEN_SECONDS, Circuit


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> Circuit:
    return Circuit(clock)


def state(circuit: Circuit) -> str:
    return circuit.state


def fail(circuit: Circuit, times: int = MOST_FAILURES) -> None:
    for _ in range(times):
        circuit.failed()


def test_five_failures_in_a_row_open_it_for_thirty_seconds(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, 4)
    assert (state(circuit), circuit.takes(), circuit.retry_after) == ("closed", True, 0)
    circuit.failed()
    assert (state(circuit), circuit.takes(), circuit.retry_after) == ("open", False, 30)
    clock.now += OPEN_SECONDS - 0.1
    assert (state(circuit), circuit.takes()) == ("open", False)
    clock.now += 0.2
    assert (state(circuit), circuit.takes(), circuit.retry_after) == ("half-open", True, 0)


def test_a_call_that_comes_back_begins_the_row_anew(circuit: Circuit) -> None:
    for _ in range(3):
        fail(circuit, 4)
        circuit.succeeded()
    assert state(circuit) == "closed"


def test_probes_that_fail_count_like_calls(circuit: Circuit) -> None:
    fail(circuit, 3)
    circuit.missed()
    assert state(circuit) == "closed"
    circuit.missed()
    assert state(circuit) == "open"


def test_a_good_probe_forgives_bad_probes_and_no_call(circuit: Circuit) -> None:
    """A server that answers probes and loses every call must not go on losing them."""
    for _ in range(4):
        circuit.missed()
        circuit.probed()
    assert state(circuit) == "closed"
    for _ in range(5):
        circuit.failed()
        circuit.probed()
    assert state(circuit) == "half-open"


def test_one_call_at_a_time_tries_it(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    clock.now += OPEN_SECONDS
    assert circuit.takes()
    assert circuit.enter()
    assert not circuit.takes()
    circuit.leave()  # cancelled: nothing is known
    assert circuit.takes()
    circuit.enter()
    circuit.succeeded()
    circuit.leave()
    assert (state(circuit), circuit.takes(), circuit.enter()) == ("closed", True, False)


def test_a_trial_that_fails_opens_it_again(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    clock.now += OPEN_SECONDS
    circuit.enter()
    circuit.failed()
    circuit.leave()
    assert (state(circuit), circuit.retry_after) == ("open", OPEN_SECONDS)


def test_a_good_probe_lets_it_be_tried_at_once_and_after_a_failed_trial_within_ten_seconds(
    circuit: Circuit, clock: Clock
) -> None:
    fail(circuit)
    circuit.probed()
    assert circuit.takes()
    circuit.enter()
    circuit.failed()
    circuit.leave()
    waited = 0
    while not circuit.takes():
        clock.now += 2
        waited += 2
        circuit.probed()
    assert 5 <= waited <= 10


def test_what_began_before_it_opened_neither_prolongs_nor_closes_it(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    clock.now += 20
    circuit.failed()
    assert circuit.retry_after == 10
    circuit.succeeded()  # like a probe: it may be tried
    assert state(circuit) == "half-open"
    assert circuit.enter()


def test_the_end_of_an_older_call_does_not_let_a_second_trial_in(circuit: Circuit, clock: Clock) -> None:
    assert not circuit.enter()
    fail(circuit)
    clock.now += OPEN_SECONDS
    assert circuit.enter()
    circuit.probed()
    assert not circuit.takes()
