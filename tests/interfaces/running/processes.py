"""Starts halls and tool servers as people start them, and ends them as people end them."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
START_SECONDS = 90.0
STOP_SECONDS = 90.0


def toolhall(*words: str) -> list[str]:
    """The command line of a `toolhall` command."""
    return [sys.executable, "-m", "toolhall.cli", *words]


@contextmanager
def announced(command: list[str], log: Path, settings: Mapping[str, str]) -> Generator[str]:
    """The URL that a server's first line names; at the end it stops on SIGTERM, with code 0."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHALL_")}
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, cwd=ROOT, env={**kept, **settings}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield _first_line(process, log).get("url", "")
            process.terminate()
            assert process.wait(STOP_SECONDS) == 0, log.read_text(errors="replace")
        finally:
            process.kill()


def _first_line(process: "subprocess.Popen[bytes]", log: Path) -> dict[str, str]:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if ready else b""
    assert line, f"the server did not start:\n{log.read_text(errors='replace')}"
    said: dict[str, str] = json.loads(line)
    return said
