"""The conditions of a run: how Python was built, which versions were measured, and which revision of this tree."""

import json
import platform
import resource
import subprocess
from functools import cache
from pathlib import Path

import psutil

from bench.launch import CLIENTS_PYTHON, PYTHON, ROOT

_BUILD = """
import json, platform, sys, sysconfig
arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
print(json.dumps({
    "python": f"{platform.python_implementation()} {platform.python_version()}",
    "compiler": platform.python_compiler(),
    "optimized": "--enable-optimizations" in arguments,
    "lto": "--with-lto" in arguments,
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
}))
"""
_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
_PEERS = {"FastMCP": ("fastmcp", CLIENTS_PYTHON), "mcp": ("mcp", CLIENTS_PYTHON), "uvicorn": ("uvicorn", PYTHON)}


@cache
def python_build(python: Path = PYTHON) -> str:
    """The version of an interpreter, its compiler, and what makes its build faster or slower than another."""
    build = json.loads(_output(str(python), "-c", _BUILD))
    optimized = f"{'with' if build['optimized'] else 'without'} profile-guided optimization"
    lto = f"{'with' if build['lto'] else 'without'} LTO"
    return (
        f"{build['python']} ({build['compiler']}, {optimized}, {lto}, {'with' if build['gil'] else 'without'} the GIL)"
    )


@cache
def conditions() -> str:
    """Everything that a figure depends on and a reader can compare."""
    cores = f"{psutil.cpu_count()} cores, {platform.system()} {platform.machine()}"
    versions = [f"{peer} {_output(str(python), '-c', _VERSION, name)}" for peer, (name, python) in _PEERS.items()]
    return f"{python_build()}; {cores}; {', '.join(versions)}; revision {_revision()}"


def raise_file_limit() -> None:
    """Allow this process and those it starts as many open files as may be, for a thousand connections on both sides."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _revision() -> str:
    changed = (
        "" if not _output("git", "status", "--porcelain", "--untracked-files=no", "src", "bench") else " and changes"
    )
    return _output("git", "rev-parse", "--short", "HEAD") + changed


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
