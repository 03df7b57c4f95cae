"""`make serve` builds the console where Node is there, and serves without it where it is not, or cannot be built."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.packaging.building import ROOT

PROGRAMS = ("bash", "find", "sed", "make", "rm", "mkdir", "touch", "dirname", "uname")
FALLBACK = "the console was not built"


def make_serve(folder: Path, npm: str | None, *, built: bool = False) -> "subprocess.CompletedProcess[str]":
    """Run it in a clone whose environment has a stand-in for toolhall, with this script as npm."""
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("package.json", "package-lock.json"):
        (folder / "console").mkdir(exist_ok=True)
        shutil.copy(ROOT / "console" / name, folder / "console")
    programs, environment = folder / "programs", folder / ".venv/bin"
    environment.mkdir(parents=True)
    programs.mkdir()
    for program in PROGRAMS:
        found = shutil.which(program)
        assert found, program
        (programs / program).symlink_to(found)
    script(environment / "toolhall", 'echo "served $*"')
    if npm is not None:
        script(programs / "npm", npm)
    if built:
        (folder / "src/toolhall/console").mkdir(parents=True)
        (folder / "src/toolhall/console/index.html.gz").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        [str(programs / "make"), "--old-file=.venv/.runtime", "serve", "ARGS=mine.py"],
        cwd=folder,
        env={**kept, "PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )


def script(path: Path, line: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{line}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("npm", "built", "says"),
    [(None, False, False), ("exit 1", False, True), ("exit 1", True, False)],
    ids=["no Node", "no registry", "built before"],
)
def test_make_serve_needs_no_node(tmp_path: Path, npm: str | None, built: bool, says: bool) -> None:
    done = make_serve(tmp_path, npm, built=built)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["served serve mine.py"]), done.stderr
    assert (FALLBACK in done.stderr) is says
