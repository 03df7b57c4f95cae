"""How long a test waits for what must come: many times what this machine needs now to start the program once."""

import subprocess
import sys
import time
from collections.abc import Iterable
from functools import cache

import pytest

# As the installed script does, the program does not search the working folder (-P).
PROGRAM = [sys.executable, "-P", "-m", "toolhall.cli"]
_STARTS = 40  # the longest wait, counted in starts of the program
_LEAST = 60.0  # load that comes after the measurement must not fail a test either
_MOST = 600.0
_WAITS = 4  # of the longest, in one test


@cache
def patience() -> float:
    """Seconds that a wait may take before it fails; measured once, at first use."""
    began = time.monotonic()
    subprocess.run([*PROGRAM, "--version"], check=True, capture_output=True, timeout=_MOST)
    return min(_MOST, max(_LEAST, _STARTS * (time.monotonic() - began)))


def stretch_timeouts(items: Iterable[pytest.Item], least: float) -> None:
    """Let every test run for at least so long, for what it asks for itself, and for longer than its waits may take."""
    for item in items:
        own = item.get_closest_marker("timeout")
        asked = float(own.args[0]) if own and own.args else 0.0
        item.add_marker(pytest.mark.timeout(max(least, asked, _WAITS * patience())), append=False)
