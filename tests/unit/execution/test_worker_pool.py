"""The brake: nobody waits at first, a tool that goes on killing waits ever longer, and it is forgiven in time."""

from tests.unit.builders import Clock
from toolhall.execution.worker_pool import RestartBackoff


def test_restart_backoff_few_exits_cause_no_delay() -> None:
    brake = RestartBackoff(Clock())
    for _ in range(3):
        brake.record_exit("a")
    assert (brake.delay("a"), brake.delay("b")) == (0, 0)
    assert "a" in brake
    assert "b" not in brake


def test_restart_backoff_further_exits_double_delay_up_to_limit() -> None:
    brake, pauses = RestartBackoff(Clock()), []
    for _ in range(30):
        brake.record_exit("a")
        pauses.append(brake.delay("a"))
    assert pauses[3:6] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 5


def test_restart_backoff_exits_decay_over_time() -> None:
    clock = Clock()
    brake = RestartBackoff(clock)
    for _ in range(8):
        brake.record_exit("a")
    before = brake.delay("a")
    clock.now += 5
    assert 0 < brake.delay("a") < before
    clock.now += 60
    assert brake.delay("a") == 0
    assert "a" in brake
