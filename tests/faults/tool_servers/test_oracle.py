"""The oracle of the load tests: it finds every answer that contradicts the effects."""

import pytest

from tests.faults.tool_servers.load import TIMEOUTS, Answer
from tests.faults.tool_servers.oracle import LATE, SILENCE, assert_answers_match_effects, assert_undisturbed
from tests.faults.tool_servers.processes import Effect
from tests.harness.dialect_clients import Outcome

OK, REFUSED = Outcome("ok", "n1"), Outcome("503", "the tool server cannot be reached now; the call did not run")
LOST = Outcome("503", "the tool server was lost while it ran this call; whether it had an effect is not known")
ONCE, TWICE = [Effect("n1", 1)], [Effect("n1", 1), Effect("n1", 2)]


def in_time(work: float, since: float, until: float) -> float:
    """Nothing is late on this machine."""
    return 0.0


def answered(said: Outcome | None, ended: float = 0.0) -> Answer:
    return Answer("n1", "PyLedger", "write", "hub", said, ended, ended)


@pytest.mark.parametrize(("said", "effects"), [(OK, ONCE), (REFUSED, []), (LOST, []), (LOST, ONCE)])
def test_oracle_accepts_answers_that_match_the_effects(said: Outcome, effects: list[Effect]) -> None:
    assert_answers_match_effects([answered(said)], effects, in_time)


@pytest.mark.parametrize(
    ("said", "effects"),
    [
        (OK, []),
        (OK, TWICE),
        (REFUSED, ONCE),
        (LOST, TWICE),
        (None, ONCE),
        (Outcome("ok", "n2"), ONCE),
        (Outcome("500", "internal error"), []),
        (OK, [*ONCE, Effect("n2", 1)]),
    ],
)
def test_oracle_rejects_answers_that_contradict_the_effects(said: Outcome | None, effects: list[Effect]) -> None:
    with pytest.raises(AssertionError):
        assert_answers_match_effects([answered(said)], effects, in_time)


@pytest.mark.parametrize(
    ("answers", "good"),
    [
        ([answered(OK, 0.0), answered(OK, SILENCE - 0.1)], True),
        ([answered(OK, 0.0), answered(OK, SILENCE + 0.1)], False),
        ([answered(OK, 0.0), answered(LOST, 0.1)], False),
    ],
)
def test_oracle_undisturbed_rejects_failures_and_long_silence(answers: list[Answer], good: bool) -> None:
    if good:
        assert_undisturbed(answers, "PyLedger", in_time)
    else:
        with pytest.raises(AssertionError):
            assert_undisturbed(answers, "PyLedger", in_time)


@pytest.mark.parametrize(("over", "machine_late", "good"), [(-0.1, 0.0, True), (0.1, 0.0, False), (0.1, 0.2, True)])
def test_oracle_rejects_answers_after_the_timeout_unless_the_machine_was_late(
    over: float, machine_late: float, good: bool
) -> None:
    def late(work: float, since: float, until: float) -> float:
        return machine_late

    slow = answered(OK)._replace(ended=TIMEOUTS["write"] + LATE + over)
    if good:
        assert_answers_match_effects([slow], ONCE, late)
    else:
        with pytest.raises(AssertionError):
            assert_answers_match_effects([slow], ONCE, late)
