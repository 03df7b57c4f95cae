"""What must be true of every answer and every effect, whatever happened to the tool servers."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from tests.faults.tool_servers.load import TIMEOUTS, Answer
from tests.faults.tool_servers.processes import Effect

SILENCE = 0.5  # so long nobody may be without an answer who calls something that is well, on an idle machine
LATE = 1.0  # an answer may come so much after the call's time is up, on an idle machine
# What an answer says of a call that did not begin, and of one of which that is not known.
NOT_RUN = ("did not run", "is about to end", "takes no calls now", "no tool server runs", "failed again and again")
NOT_KNOWN = ("is not known", "did not finish within")
# How much later than on an idle machine so much work may have ended, between two moments.
Late: TypeAlias = Callable[[float, float, float], float]


def assert_answers_match_effects(answers: list[Answer], effects: list[Effect], late: Late) -> None:
    """Assert that each call has one answer, in time, that matches its effect; no effect is there twice or uncalled."""
    counts = Counter(effect.nonce for effect in effects)
    wrong = [answer for answer in answers if not _is_true(answer, counts[answer.nonce])]
    assert not wrong, _some(wrong)
    slow = [answer for answer in answers if _is_late(answer, late)]
    assert not slow, _some(slow)
    assert not (twice := [nonce for nonce, count in counts.items() if count > 1]), twice
    asked = Counter(answer.nonce for answer in answers)
    assert counts.keys() <= asked.keys(), counts.keys() - asked.keys()
    assert asked.total() == len(asked), "a nonce was given twice: the load itself is wrong"


def failed(answers: Iterable[Answer]) -> list[Answer]:
    """Those that brought no value."""
    return [answer for answer in answers if not answer.ok]


def assert_undisturbed(answers: list[Answer], toolkit: str, late: Late, since: float = 0.0) -> None:
    """Assert that calls of this toolkit that began since then all succeeded, without a long silence."""
    own = [answer for answer in answers if answer.toolkit == toolkit and answer.began >= since]
    assert not failed(own), _some(failed(own))
    ends = sorted(answer.ended for answer in own)
    silences = ((end, later) for end, later in itertools.pairwise(ends) if later - end > SILENCE)
    assert all(later - end < SILENCE + late(SILENCE, end, later) for end, later in silences), toolkit


def _is_late(answer: Answer, late: Late) -> bool:
    over = answer.ended - answer.began - TIMEOUTS[answer.tool] - LATE
    return over > 0 and over > late(LATE, answer.began, answer.ended)


def _is_true(answer: Answer, count: int) -> bool:
    if answer.said is None:
        return False
    if answer.said.word == "ok":
        return answer.ok and (count == 1 or answer.tool == "echo")
    text = str(answer.said.what)
    if any(words in text for words in NOT_RUN):
        return count == 0
    return any(words in text for words in NOT_KNOWN) and count <= 1


def _some(answers: list[Answer]) -> str:
    return "\n".join([f"{len(answers)} answers, such as", *map(str, answers[:10])])
