"""Commands that run in processes of their own while a test reads what they write and types at their terminal."""

import codecs
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.harness.patience import patience


class Terminal:
    """The user's side of a pseudo-terminal at which a command runs."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a character

    def expect(self, text: str) -> str:
        """Read until this text has been shown, and return everything up to it."""
        deadline = time.monotonic() + patience()
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
        """Wait until the command ends; its exit code, and what was still shown."""
        deadline = time.monotonic() + patience()
        while self._read(deadline):
            pass
        return self.process.wait(patience()), self.seen

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


def read_line(process: "subprocess.Popen[bytes]", log: Path | None = None) -> str:
    """The next line of a command's standard output; `log` is the file of its error output, where that is no pipe."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], patience())
    line = process.stdout.readline().decode() if ready else ""
    if not line and (log is not None or process.stderr is not None):
        process.kill()
        errors = log.read_bytes() if log else process.stderr.read() if process.stderr else b""
        raise AssertionError(f"no line came, but: {errors.decode(errors='replace')}")
    return line


def read_json_line(process: "subprocess.Popen[bytes]", log: Path | None = None) -> Any:
    """The next line of a command's standard output, which is JSON."""
    return json.loads(read_line(process, log))
