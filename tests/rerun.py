"""Runs pytest, and reruns up to five failed tests that start processes once more, alone; a test that fails again fails.

Thousands of tests share two cores with the servers, workers and browsers that they start. A test that was starved
there passes alone; a broken one does not. The names of rerun tests are printed. Tests of durability and races
(tests/faults, tests/interfaces) and tests that start no process are never rerun.
"""

import json
import subprocess
import sys
from pathlib import Path

MAX_RERUNS = 5
_FOLDERS = tuple(f"tests/{folder}/" for folder in ("browser", "cli", "conformance", "docs", "packaging", "threats"))
_TESTS_FAILED = 1  # pytest's exit code
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    """Return the exit code of the last pytest run."""
    pytest = [sys.executable, "-m", "pytest"]
    code = subprocess.run([*pytest, "--cache-clear", *arguments], check=False).returncode
    failed = sorted(json.loads(_LAST_FAILED.read_text())) if code == _TESTS_FAILED and _LAST_FAILED.exists() else []
    if not 0 < len(failed) <= MAX_RERUNS or not all(name.startswith(_FOLDERS) for name in failed):
        return code
    sys.stdout.write(f"\nRerun alone: {', '.join(failed)}\n")
    sys.stdout.flush()
    return subprocess.run([*pytest, *failed, "-n", "0"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
