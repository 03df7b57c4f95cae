"""Builds packages from a copy of the sources, and installs them in empty environments."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.harness.patience import patience

ROOT = Path(__file__).parents[2]
TARBALL = "toolhall/sdk/toolhall-sdk.tgz"
SDK = ROOT / "src" / TARBALL
CONSOLE = "toolhall/console"
BUILT_CONSOLE = ROOT / "src" / CONSOLE
UV = ROOT / ".uv/bin/uv"
RUNTIME = ROOT / "requirements/runtime.txt"


def clone_to(folder: Path, *, sdk: bool = False, console: bool = False) -> Path:
    """What a package is built from, as in a fresh clone; with `sdk` and `console`, as after `make sdk console`."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "sdk", "console"))
    for file in ("pyproject.toml", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / file, folder)
    if sdk:
        (folder / "src" / TARBALL).parent.mkdir()
        shutil.copy(SDK, folder / "src" / TARBALL)
    if console:
        shutil.copytree(BUILT_CONSOLE, folder / "src" / CONSOLE)
    return folder


def build(sources: Path, target: str, out: Path) -> Path:
    """The one package that comes of it, built by Python alone: there is no Node on this path."""
    out = out / f"{target}s"
    words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    run(words, cwd=sources, environment={"PATH": str(Path(sys.executable).parent)})
    (package,) = out.iterdir()
    return package


def wheel_of(sdist: Path, out: Path) -> Path:
    """What an installer builds from an sdist."""
    with tarfile.open(sdist) as held:
        held.extractall(out, filter="data")
    (sources,) = out.iterdir()
    return build(sources, "wheel", out)


def install(wheel: Path, environment: Path) -> Path:
    """The folder of programs of an empty environment that now has this wheel and what it depends on."""
    run([str(UV), "venv", "--quiet", "--python", sys.executable, str(environment)])
    python = environment / "bin/python"
    locked = ["install", "--quiet", "--no-deps", "--require-hashes", "-r", str(RUNTIME)]
    uv = [str(UV), "pip"]
    try:
        run([*uv, *locked, "--python", str(python)])
    except AssertionError:  # as in the Makefile: only pip may be told about the machine's package index
        base = str(Path(sys.base_prefix) / "bin/python3")
        run([base, "-m", "pip", "--python", str(python), *locked])
    run([*uv, "install", "--quiet", "--offline", "--no-deps", "--python", str(python), str(wheel)])
    run([*uv, "check", "--quiet", "--python", str(python)])  # every dependency that it names is there
    return environment / "bin"


def run(words: list[str], cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """What a program prints; AssertionError with its complaint if it fails."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env=environment or dict(os.environ),
        capture_output=True,
        text=True,
        timeout=2 * patience(),
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stderr[-2000:]}"
    return done.stdout
