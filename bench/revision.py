"""Another revision of this tree beside this one: both run by the same interpreter, from their own sources."""

import io
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.launch import PYTHON, ROOT, apart
from bench.process import Place


class Tree(NamedTuple):
    """A checked-out revision."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        """What the console script `toolhall` of this revision does, without installing it."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text())
        module, function = project["project"]["scripts"]["toolhall"].split(":")
        script = f"import sys; from {module} import {function}; sys.argv[0] = 'toolhall'; sys.exit({function}())"
        return [str(PYTHON), "-c", script, *arguments]

    def place(self, folder: Path) -> Place:
        """A working folder in which this revision's `toolhall` is imported and not the installed one."""
        return apart(folder, PYTHONPATH=str(self.folder / "src"))


THIS = Tree(ROOT)


@contextmanager
def checked_out(revision: str) -> Generator[Tree]:
    """The files of a revision in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        packed = subprocess.run(
            ["git", "archive", revision, "src", "pyproject.toml"], cwd=ROOT, check=False, capture_output=True
        )
        if packed.returncode:
            raise RuntimeError(f"there is no revision {revision}: {packed.stderr.decode(errors='replace').strip()}")
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Tree(Path(folder))
