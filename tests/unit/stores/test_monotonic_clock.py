"""A clock that is set back does not bring back time."""

from toolhall.stores.common import MonotonicClock


class Hands:
    """Two clocks, turned by hand: the one on the wall, and how long the machine runs."""

    wall, running = 1_000.0, 5.0


def test_monotonic_clock_follows_the_wall_clock_while_it_advances() -> None:
    hands = Hands()
    now = MonotonicClock(lambda: hands.wall, lambda: hands.running)
    assert now() == 1_000.0
    hands.wall, hands.running = 1_000.0, 7.0
    assert now() == 1_000.0
    hands.wall = 2_000.0
    assert now() == 2_000.0


def test_monotonic_clock_advances_by_uptime_while_the_wall_clock_is_set_back() -> None:
    hands = Hands()
    now = MonotonicClock(lambda: hands.wall, lambda: hands.running)
    assert now() == 1_000.0
    hands.wall, hands.running = 400.0, 15.0
    assert (now(), now()) == (1_010.0, 1_010.0)
    hands.wall, hands.running = 405.0, 20.0
    assert now() == 1_015.0
    hands.wall = 1_014.0
    assert now() == 1_015.0
    hands.wall = 1_016.0
    assert now() == 1_016.0


def test_monotonic_clock_advance_to_sets_a_lower_bound() -> None:
    hands = Hands()
    now = MonotonicClock(lambda: hands.wall, lambda: hands.running)
    now.advance_to(3_000.0, None, 2_000.0)
    assert now() == 3_000.0
    hands.running += 1
    now.advance_to(5.0)
    assert now() == 3_001.0
