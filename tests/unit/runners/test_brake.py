"""The brake: nobody waits at first, a tool that goes on killing waits ever longer, and it is forgiven in time."""

from tests.unit.parts import Clock
from toolhall.runners.brake import Brake


def test_a_few_deaths_cost_nothing() -> None:
    brake = Brake(Clock())
    for _ in range(3):
        brake.died("a")
    assert (brake.pause("a"), brake.pause("b")) == (0, 0)
    assert "a" in brake
    assert "b" not in brake


def test_each_further_death_doubles_the_pause_up_to_an_end() -> None:
    brake, pauses = Brake(Clock()), []
    for _ in range(30):
        brake.died("a")
        pauses.append(brake.pause("a"))
    assert pauses[3:6] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 5


def test_deaths_are_forgotten_slowly() -> None:
    clock = Clock()
    brake = Brake(clock)
    for _ in range(8):
        brake.died("a")
    before = brake.pause("a")
    clock.now += 5
    assert 0 < brake.pause("a") < before
    clock.now += 60
    assert brake.pause("a") == 0
    assert "a" in brake
