"""UsageMeter: CPU time is at most the elapsed time, at most a millisecond too much, and seldom read."""

import pytest

from toolhall.http.machine import CPU_RESOLUTION, UsageMeter


class Thread:
    """A thread whose time and CPU time advance as told, and how often its CPU time was read."""

    def __init__(self) -> None:
        self.now, self.cpu, self.reads = 100.0, 5.0, 0

    def advance(self, seconds: float, *, computing: bool = True) -> None:
        self.now += seconds
        self.cpu += seconds if computing else 0.0

    def read_cpu(self) -> float:
        self.reads += 1
        return self.cpu


@pytest.mark.parametrize("before", [0.0, 0.0004, 0.0009, 0.0011, 5.0])
@pytest.mark.parametrize("computed", [0.0, 0.00002, 0.0009, 0.0011, 3.0])
@pytest.mark.parametrize("waited", [0.0, 0.0005, 0.5, 30.0])
def test_cpu_time_is_right_to_a_millisecond(before: float, computed: float, waited: float) -> None:
    thread = Thread()
    meter = UsageMeter(lambda: thread.now, thread.read_cpu)
    meter.start()
    thread.advance(before)
    started = meter.start()
    thread.advance(computed)
    thread.advance(waited, computing=False)
    usage = meter.usage(started)
    assert usage.seconds == pytest.approx(computed + waited)
    assert usage.cpu_seconds <= usage.seconds
    assert computed - 1e-9 <= usage.cpu_seconds <= computed + CPU_RESOLUTION + 1e-9
    assert usage.memory_bytes >= 0


def test_cpu_time_of_quick_calls_is_read_once_a_millisecond() -> None:
    thread = Thread()
    meter = UsageMeter(lambda: thread.now, thread.read_cpu)
    for _ in range(1_000):
        started = meter.start()
        thread.advance(0.00002)
        meter.usage(started)
    assert thread.reads <= 0.02 / CPU_RESOLUTION + 1
