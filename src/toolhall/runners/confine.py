"""The resource limits of a worker process: memory, files, processes, CPU time."""

import contextlib
import math
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from toolhall.runners.wire import Limits

_NICE = 10  # the hall's own loop comes first
_PROCESSES = Path("/proc")


def confine(limits: Limits) -> None:
    """Set every limit; they hold for the children of the process too."""
    os.nice(_NICE)
    for kind, most in _limited(limits):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)  # noqa: PLW2901
        resource.setrlimit(kind, (most, most))


def allow_cpu(seconds: int) -> None:
    """From now on, so many seconds of CPU; then the process is killed."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = math.ceil(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def end_group() -> None:
    """End this process, and every process that it has started and that stayed with it."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _limited(limits: Limits) -> Iterator[tuple[int, int]]:
    yield resource.RLIMIT_CORE, 0
    yield resource.RLIMIT_AS, limits.memory
    yield resource.RLIMIT_NOFILE, limits.files
    yield resource.RLIMIT_FSIZE, limits.file_bytes
    if os.getuid() != 0:  # root is never held to it
        yield resource.RLIMIT_NPROC, _processes_now() + limits.processes


def _processes_now() -> int:
    """How many threads this user runs: the limit counts all of them, not only ours."""
    count = 0
    for process in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                count += len(os.listdir(process / "task"))  # noqa: PTH208 - only their number counts
    return count
