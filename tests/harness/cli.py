"""Runs the command line: in this process where that is enough, in a process of its own where it matters."""

import contextlib
import contextvars
import json
import os
import pty
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.isolation import isolated
from tests.harness.patience import PROGRAM, patience
from tests.harness.processes import Terminal
from tests.harness.server_process import ServerProcess
from toolhall.cli import __main__ as program
from toolhall.cli import main

KIT = str(Path(__file__).parents[1] / "cli" / "kit.py")


class CliResult(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its output, which must be one JSON document and nothing else."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)

    def error_line(self) -> str:
        """Its one line on the error output."""
        assert self.err.startswith("toolhall: "), self
        assert self.err.count("\n") == 1, self
        return self.err.strip()


class CliRunner:
    """A working folder and an environment in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("TOOLHALL_", "NO_COLOR"))}
        self.environment = kept | {"TOOLHALL_DATA": str(self.data), "TERM": "xterm"}

    def run(self, *words: str, text: str = "", terminal: bool = False) -> CliResult:
        """Run a command to its end in this process; `text` is its standard input, unless there is a terminal.

        What serves, is ended by a signal or leaves a thread behind needs a process of its own.
        """
        with isolated(self.folder, self.environment, text, terminal=terminal) as output:
            sys.argv = [str(program.__file__), *words]
            code = contextvars.copy_context().run(main)
        return CliResult(code, output.stdout, output.stderr)

    def run_process(self, *words: str, text: str = "") -> CliResult:
        """Run a command to its end in a process of its own, without a terminal."""
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
        )
        return CliResult(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def serve(self, *words: str) -> Generator[ServerProcess, None, None]:
        """Serve in the background on a free port; at the end it stops on SIGTERM, with code 0."""
        with self.start("serve", *words, "--port", "0", "--json") as process:
            server = ServerProcess(process).ready()
            yield server
            assert server.stop() == 0
            assert process.stdout is not None
            assert process.stdout.read() == b"", "with --json there is one line, and nothing else"

    @contextlib.contextmanager
    def start(self, *words: str) -> Generator["subprocess.Popen[bytes]", None, None]:
        """A command in the background with pipes, gone at the end."""
        process = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # or a line could wait in a buffer where select does not see it
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def terminal(self, *words: str, json: bool = False) -> Generator[Terminal, None, None]:
        """A command at a terminal; with `json` only its standard output is a pipe."""
        ours, theirs = pty.openpty()
        out = subprocess.PIPE if json else theirs
        process = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=theirs,
            stdout=out,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        with process:
            try:
                yield Terminal(process, ours)
            finally:
                process.kill()
                os.close(ours)
