"""How late the machine itself is: what a computation of known length takes beside everything that runs right now.

A test that says how soon something comes adds this, so that it is strict on an idle machine and fair on a busy one.
"""

import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

from tests.harness.patience import patience

_COMPUTING = 0.02  # seconds of processor time in one sample
REST = 0.08  # seconds after it
# Prints when each sample began and ended.
_SAMPLER = f"""
import sys, time
while True:
    began, end = time.monotonic(), time.thread_time() + {_COMPUTING}
    while time.thread_time() < end:
        pass
    print(began, time.monotonic(), flush=True)
    time.sleep(float(sys.argv[1]))
"""


class Sample(NamedTuple):
    """One computation."""

    began: float
    ended: float

    @property
    def stretch(self) -> float:
        """How many times longer it took than on a processor of its own."""
        return (self.ended - self.began) / _COMPUTING


class Lateness:
    """The samples of a process that computes and rests in turn."""

    def __init__(self, written: int) -> None:
        self._written = written  # the descriptor of the file that they go to
        self._samples: list[Sample] = []

    def late(self, work: float, since: float, until: float) -> float:
        """Seconds that so many seconds of computing may have been late around two moments of `time.monotonic`."""
        first = max(0, bisect_right(self._samples, since, key=lambda each: each.began) - 1)
        last = bisect_left(self._samples, until, key=lambda each: each.ended)
        return work * (max(each.stretch for each in self._samples[first : last + 1]) - 1)

    def update(self) -> None:
        """Wait until a sample has ended that includes this moment, or began after it."""
        now = time.monotonic()
        while not self._samples or self._samples[-1].ended < now:
            assert time.monotonic() < now + patience(), "the process that measures is silent"
            time.sleep(0.005)
            lines = os.pread(self._written, os.fstat(self._written).st_size, 0).split(b"\n")[:-1]
            self._samples = [Sample(*map(float, line.split())) for line in lines]


@contextmanager
def measured_lateness(rest: float = REST) -> Generator[Lateness]:
    """Measure from before the block until after it, with so many seconds between two samples."""
    command = [sys.executable, "-I", "-S", "-c", _SAMPLER, str(rest)]
    with tempfile.TemporaryFile() as written, subprocess.Popen(command, stdout=written) as process:
        try:
            lateness = Lateness(written.fileno())
            lateness.update()
            yield lateness
            lateness.update()
        finally:
            process.kill()
