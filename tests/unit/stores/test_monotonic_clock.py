"""A clock that is set back does not bring back time."""

from toolhall.stores.common import MonotonicClock


class FakeClocks:
    """A wall clock and an uptime clock that a test sets."""

    wall, running = 1_000.0, 5.0


def test_monotonic_clock_follows_the_wall_clock_while_it_advances() -> None:
    clocks = FakeClocks()
    now = MonotonicClock(lambda: clocks.wall, lambda: clocks.running)
    assert now() == 1_000.0
    clocks.wall, clocks.running = 1_000.0, 7.0
    assert now() == 1_000.0
    clocks.wall = 2_000.0
    assert now() == 2_000.0


def test_monotonic_clock_advances_by_uptime_while_the_wall_clock_is_set_back() -> None:
    clocks = FakeClocks()
    now = MonotonicClock(lambda: clocks.wall, lambda: clocks.running)
    assert now() == 1_000.0
    clocks.wall, clocks.running = 400.0, 15.0
    assert (now(), now()) == (1_010.0, 1_010.0)
    clocks.wall, clocks.running = 405.0, 20.0
    assert now() == 1_015.0
    clocks.wall = 1_014.0
    assert now() == 1_015.0
    clocks.wall = 1_016.0
    assert now() == 1_016.0


def test_monotonic_clock_advance_to_sets_a_lower_bound() -> None:
    clocks = FakeClocks()
    now = MonotonicClock(lambda: clocks.wall, lambda: clocks.running)
    now.advance_to(3_000.0, None, 2_000.0)
    assert now() == 3_000.0
    clocks.running += 1
    now.advance_to(5.0)
    assert now() == 3_001.0
