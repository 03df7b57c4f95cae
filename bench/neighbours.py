"""How much of the machine other work took meanwhile: the more, the wider every spread, and the dearer a short call."""

import resource
import time

import psutil


class Neighbours:
    """Starts to look when made; processes of ours count once they have ended."""

    def __init__(self) -> None:
        self._busy = _busy()
        self._own = _own()
        self._start = time.monotonic()

    def share(self) -> float:
        """The part of all cores that was neither idle nor ours, from 0 to 1."""
        capacity = (time.monotonic() - self._start) * (psutil.cpu_count() or 1)
        return max(0.0, (_busy() - self._busy - (_own() - self._own)) / capacity)


def _busy() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice


def _own() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
