"""Runs the tests: a few that failed beside all the others run once more by themselves, and what fails there fails.

Thousands of tests share two cores with the servers, workers and browsers that they start. One that was starved there
passes alone; one that is broken does not. Which ones needed it is printed. What proves that nothing is lost, run twice
or raced has no second chance, and neither has what starts no process.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST = 5  # more than this is no accident
_STARVED = tuple(f"tests/{folder}/" for folder in ("browser", "cli", "conformance", "docs", "packaging", "threats"))
_FAILED = 1  # pytest's code for tests that failed, and nothing worse
_LAST = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    """Pytest's own exit code, of the last run."""
    pytest = [sys.executable, "-m", "pytest"]
    code = subprocess.run([*pytest, "--cache-clear", *arguments], check=False).returncode  # of this run alone
    failed = sorted(json.loads(_LAST.read_text())) if code == _FAILED and _LAST.exists() else []
    if not 0 < len(failed) <= MOST or not all(name.startswith(_STARVED) for name in failed):
        return code
    sys.stdout.write(f"\nOnce more, alone: {', '.join(failed)}\n")
    sys.stdout.flush()
    return subprocess.run([*pytest, *failed, "-n", "0"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
