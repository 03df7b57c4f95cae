"""A virtual environment of another interpreter, with the packages of the lock file and this tree."""

import hashlib
import subprocess
import sys
from pathlib import Path

from bench.launch import ROOT

LOCK = ROOT / "requirements" / "dev.txt"
UV = ROOT / ".uv" / "bin" / "uv"


def environment(python: Path) -> Path:
    """The interpreter of the environment, which is built if the lock file has changed since the last time."""
    version = _run(str(python), "-c", "import platform; print(platform.python_version())").strip()
    folder = ROOT / "build" / f"python-{version}"
    stamp, digest = folder / "lock", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    own = folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"installing packages for Python {version} ...", file=sys.stderr, flush=True)
        _run(str(UV), "venv", "--quiet", "--clear", "--python", str(python), str(folder))
        _install(own, "--require-hashes", "--no-deps", "-r", str(LOCK))
        _install(own, "--no-deps", "-e", str(ROOT))
        stamp.write_text(digest)
    return own


def _install(python: Path, *what: str) -> None:
    """By uv, or by pip where only pip is told about the machine's package index, as in the Makefile."""
    try:
        _run(str(UV), "pip", "install", "--quiet", "--python", str(python), *what)
    except RuntimeError:
        _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *what)


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout
