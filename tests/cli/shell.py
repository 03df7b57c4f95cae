"""Runs the real program in processes of its own, each wait bounded."""

import codecs
import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

KIT = str(Path(__file__).with_name("kit.py"))
PROGRAM = [sys.executable, "-P", "-m", "toolhall.cli"]  # -P: like the installed script, it does not search the folder
PATIENCE = 30.0


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its output, which must be one JSON document and nothing else."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)

    def complaint(self) -> str:
        """Its one line on the error output."""
        assert self.err.startswith("toolhall: "), self
        assert self.err.count("\n") == 1, self
        return self.err.strip()


class Shell:
    """A working folder and an environment in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("TOOLHALL_", "NO_COLOR"))}
        self.environment = kept | {"TOOLHALL_DATA": str(self.data), "TERM": "xterm"}

    def run(self, *words: str, text: str = "") -> Ended:
        """Run a command to its end, without a terminal."""
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def serving(self, *words: str) -> Generator["Serving", None, None]:
        """Serve in the background on a free port; at the end it stops on SIGTERM, with code 0."""
        with self.started("serve", *words, "--port", "0", "--json") as process:
            server = Serving(process, json.loads(read_line(process)))
            yield server
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            assert process.stdout is not None
            assert process.stdout.read() == b"", "with --json there is one line, and nothing else"

    @contextlib.contextmanager
    def started(self, *words: str) -> Generator["subprocess.Popen[bytes]", None, None]:
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
    def terminal(self, *words: str, json: bool = False) -> Generator["Terminal", None, None]:
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


class Serving(NamedTuple):
    """A server in the background."""

    process: "subprocess.Popen[bytes]"
    first: dict[str, Any]

    @property
    def url(self) -> str:
        """Its base URL."""
        return str(self.first["url"])


class Terminal:
    """The person's side of a terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a character

    def expect(self, text: str) -> str:
        """Read until this text has been shown, and return everything up to it."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert self._read(deadline), f"{text!r} was never shown, only {self.seen!r}"
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._descriptor, text.encode() + b"\n")

    def press(self, key: bytes) -> None:
        """Press one key."""
        os.write(self._descriptor, key)

    def end(self) -> tuple[int, str]:
        """Wait until the command ends; its code, and what was still shown."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE), self.seen

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            part = os.read(self._descriptor, 65_536)
        except OSError:  # Linux says so when the other side has been closed
            return False
        self.seen += self._decoder.decode(part)
        return bool(part)


def read_line(process: "subprocess.Popen[bytes]") -> str:
    """The next line of a command's output."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline().decode() if ready else ""
    if not line and process.stderr is not None:
        process.kill()
        raise AssertionError(f"no line came, but: {process.stderr.read().decode()}")
    return line
