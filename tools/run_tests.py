"""Runs pytest, and the few tests that failed beside all others once more, alone.

    .venv/bin/python tools/run_tests.py [ARGUMENTS OF PYTEST]

The whole suite loads every core for minutes, and a browser or a server that gets no time can fail a test that has no
fault. At most `MAX_RERUN` failed tests run again, one by one, with nothing beside them; one that fails again has
failed. Those that pass are listed as flaky, so that nobody takes them for good. More failures are never rerun.
"""

import json
import subprocess
import sys
from pathlib import Path

MAX_RERUN = 3
TESTS_FAILED = 1  # pytest's exit code
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments; returns the exit code."""
    _LAST_FAILED.unlink(missing_ok=True)  # it also holds failures of earlier runs that this one does not select
    exit_code = _pytest(arguments)
    failed = sorted(json.loads(_LAST_FAILED.read_text())) if _LAST_FAILED.exists() else []
    if exit_code != TESTS_FAILED or not 0 < len(failed) <= MAX_RERUN:
        return exit_code
    print(f"\nrunning {len(failed)} failed of these tests again, alone", flush=True)
    if (exit_code := _pytest(["-n", "0", "-p", "no:cacheprovider", *failed])) == 0:
        for test in failed:
            print(f"flaky: {test} failed beside other tests and passed alone", flush=True)
    return exit_code


def _pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
