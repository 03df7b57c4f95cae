"""`import toolhall` costs next to nothing and starts nothing, and a command imports only what it uses."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
        "asyncio",
        "toolhall.app",
    }


def test_pydantic_is_never_imported_by_the_hall() -> None:
    code = "from toolhall import Toolhall, tool\n@tool\ndef add(a: int) -> int: return a\nToolhall(add).close()"
    _, modules = state_after(code)
    assert "toolhall.app" in modules
    assert not {module for module in modules if module.split(".")[0].startswith("pydantic")}


def test_import_prints_nothing() -> None:
    assert run("import toolhall; from toolhall import *") == ""


KIT = """
from toolhall import tool


@tool(effect="reads")
def add(a: int, b: int = 2) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b
"""
PARSER = ("cyclopts", "attr", "docstring_parser", "rich", "toolhall.cli.app", "toolhall.cli.parameters")
# What neither help nor a listing nor a call in process needs.
SERVER = (
    *(
        "sqlalchemy",
        "alembic",
        "uvicorn",
        "uvloop",
        "httptools",
        "websockets",
        "httpx2",
        "jinja2",
        "joserfc",
        "webauthn",
    ),
    *("opentelemetry", "pydantic", "importlib.metadata", "multiprocessing", "ctypes", "tomllib", "difflib"),
    *(f"toolhall.{name}" for name in ("http", "mcp", "toolserver", "server", "testing", "examples", "app.routes")),
    *("toolhall.web.approve", "toolhall.web.connect", "toolhall.oauth.broker", "toolhall.stores.sql"),
    *("toolhall.stores.open", "toolhall.stores.bundle", "toolhall.execution.remote", "toolhall.execution.worker_pool"),
    *("toolhall.registry.search", "toolhall.redaction.secret_forms", "toolhall.cli.documents"),
    *(f"toolhall.dialects.{name}" for name in ("openapi", "oxp", "hub", "machine", "model_apis", "lint", "convert")),
)
CRYPTOGRAPHY = ("cryptography", "_cffi_backend")
MODEL = ("msgspec", "jsonschema_rs", "asyncio", "logging", "toolhall.model", "toolhall.config", "toolhall.authoring")
START = {"toolhall", "toolhall.cli", "toolhall.cli.entry", "toolhall.cli.errors", "toolhall.cli.output"}


def modules_of(folder: Path, *words: str) -> set[str]:
    """The modules that a command has imported when its process ends."""
    (folder / "kit.py").write_text(KIT)
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from toolhall.cli import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, "TOOLHALL_DATA": str(folder / "data")},
        check=True,
        capture_output=True,
        text=True,
        timeout=patience(),
    )
    return set(done.stderr.splitlines()[-1].split())


def imported_of(modules: set[str], names: tuple[str, ...]) -> set[str]:
    """Those of the names that were imported, or have a part that was."""
    return {name for name in names if any(each == name or each.startswith(f"{name}.") for each in modules)}


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["--version"], START),
        *(
            (words, START | {"toolhall.cli.help_page", "toolhall.cli.command_table"})
            for words in ([], ["--help"], ["-h"])
        ),
    ],
    ids=lambda part: " ".join(part) or "nothing" if isinstance(part, list) else "",
)
def test_version_and_help_import_no_parser_and_nothing_of_the_hall(
    tmp_path: Path, words: list[str], own: set[str]
) -> None:
    modules = modules_of(tmp_path, *words)
    assert {name for name in modules if name.split(".")[0] == "toolhall"} == own
    assert not imported_of(modules, (*PARSER, *MODEL, *SERVER, *CRYPTOGRAPHY, "dataclasses", "inspect", "json"))


@pytest.mark.parametrize("command", ["list", "call", "serve", "inspect"])
def test_help_of_a_frequent_command_imports_nothing_of_the_hall(tmp_path: Path, command: str) -> None:
    modules = modules_of(tmp_path, command, "--help")
    assert "cyclopts" in modules
    assert not imported_of(modules, (*MODEL, *(name for name in SERVER if name != "importlib.metadata"), *CRYPTOGRAPHY))


def test_list_of_a_file_imports_neither_parser_nor_server(tmp_path: Path) -> None:
    modules = modules_of(tmp_path, "list", "kit.py")
    assert "toolhall.app.toolhall" in modules
    assert not imported_of(modules, (*PARSER, *SERVER, *CRYPTOGRAPHY))


def test_call_of_a_file_imports_neither_parser_nor_server(tmp_path: Path) -> None:
    modules_of(tmp_path, "call", "add", "a=1", "kit.py")  # makes the keys of the data folder
    modules = modules_of(tmp_path, "call", "add", "a=1", "kit.py")
    assert not imported_of(modules, (*PARSER, *SERVER))
    assert imported_of(modules, CRYPTOGRAPHY), "the audit of the call is signed"
