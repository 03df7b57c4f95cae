"""`import toolhall` costs next to nothing and starts nothing."""

import json
import resource
import subprocess
import sys
from typing import Any

from tests.harness.patience import patience

BUDGET_SECONDS = 0.060
ROUNDS = 7


def run(code: str) -> str:
    command = [sys.executable, "-X", "importtime=0", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=patience()).stdout


def cpu_seconds(code: str) -> float:
    """User and system time of one interpreter that runs this code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=patience())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import_takes_at_most_sixty_milliseconds_of_cpu() -> None:
    cpu_seconds("import toolhall")  # writes what is compiled
    bare = min(cpu_seconds("pass") for _ in range(ROUNDS))
    imported = min(cpu_seconds("import toolhall") for _ in range(ROUNDS))
    assert imported - bare < BUDGET_SECONDS


def state_after(code: str) -> Any:
    """The threads and modules of an interpreter after this code."""
    report = "import json, sys, threading; print(json.dumps([threading.active_count(), sorted(sys.modules)]))"
    threads, modules = json.loads(run(f"{code}\n{report}"))
    return threads, set(modules)


def test_import_starts_no_thread_and_loads_no_heavy_module() -> None:
    threads, modules = state_after("import toolhall")
    assert threads == 1
    heavy = {
        "asyncio",
        "pydantic",
        "msgspec",
        "jsonschema_rs",
        "cryptography",
        "uvicorn",
        "uvloop",
        "rich",
        "sqlalchemy",
        "ssl",
        "socket",
    }
    assert not modules & heavy


def test_authoring_imports_no_server_module() -> None:
    threads, modules = state_after("from toolhall import Context, Toolkit, tool")
    assert threads == 1
    assert not modules & {
        "pydantic",
        "uvicorn",
        "uvloop",
        "cryptography",
        "rich",
        "httptools",
        "sqlalchemy",
        "toolhall.app",
    }


def test_pydantic_is_never_imported_by_the_hall() -> None:
    code = "from toolhall import Toolhall, tool\n@tool\ndef add(a: int) -> int: return a\nToolhall(add).close()"
    _, modules = state_after(code)
    assert "toolhall.app" in modules
    assert not {module for module in modules if module.split(".")[0].startswith("pydantic")}


def test_import_prints_nothing() -> None:
    assert run("import toolhall; from toolhall import *") == ""
