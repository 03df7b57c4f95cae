"""Golden files of what users and stored data depend on: a refactoring must not change any of them.

`UPDATE_GOLDEN=1` writes them anew; the diff then shows what a user would notice. The command line's help is compared
in tests/docs/test_command_line.py, wire formats in tests/vectors.
"""

import importlib
import inspect
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolhall
from tests.golden.tools import Golden
from tests.harness import asgi_client
from tests.harness.patience import patience

GOLDEN = Path(__file__).parent
TOOLS = GOLDEN / "tools.py"


def compare(name: str, text: str) -> None:
    """Compare a text with its golden file, or write the file."""
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, (
        f"{name} differs; if users should see that, run with UPDATE_GOLDEN=1"
    )


def pretty(document: Any) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


def run(folder: Path, *words: str) -> str:
    """Run a command of the real program and return its standard output; it must end with 0 or 1."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TOOLHALL_")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "toolhall.cli", *words],
        cwd=folder,
        env=kept | {"TOOLHALL_DATA": str(folder / "data"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode in (0, 1), done
    return done.stdout


# --- the public API ---------------------------------------------------------------------------------------------------


def test_public_api_matches_its_golden_file() -> None:
    lines = [line for module in ("toolhall", "toolhall.testing") for line in module_api(module)]
    compare("public_api.txt", "\n".join(lines) + "\n")


def module_api(module: str) -> Iterator[str]:
    """Every public name of a module with its signature, members of classes included."""
    home = importlib.import_module(module)
    names = home.__all__ if hasattr(home, "__all__") else ["Client"]
    for name in sorted(names):
        each = getattr(home, name)
        yield f"{module}.{name}{signature(each)}"
        if inspect.isclass(each):
            for member in sorted(public_members(each)):
                yield f"  .{member}{signature(inspect.getattr_static(each, member))}"


def public_members(owner: type) -> set[str]:
    own = {name for base in owner.__mro__ if base.__module__.startswith("toolhall") for name in vars(base)}
    return {name for name in own if not name.startswith("_")} | (own & {"__aenter__", "__aexit__", "__call__"})


def signature(each: object) -> str:
    """Parameters with defaults and annotations, without the modules that types live in."""
    each = getattr(each, "__func__", each)  # a class method
    if not callable(each):
        return ""
    try:
        text = str(inspect.signature(each))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])", "", text)
    # The order of a set differs between processes.
    text = re.sub(
        r"frozenset\(\{([^}]*)\}\)", lambda found: f"frozenset({{{', '.join(sorted(found[1].split(', ')))}}})", text
    )
    return re.sub(r" at 0x[0-9a-f]+", "", text)


# --- the HTTP API -----------------------------------------------------------------------------------------------------


async def test_openapi_document_matches_its_golden_file() -> None:
    hall = toolhall.Toolhall(Golden)
    async with hall:
        reply = await asgi_client.send(
            hall, "GET", "/openapi.json", headers={"host": "127.0.0.1:8000"}, client="127.0.0.1"
        )
    compare("openapi.json", pretty(reply.json))


# --- the command line -------------------------------------------------------------------------------------------------

COMMANDS = {
    "list": ("list", str(TOOLS), "--json"),
    "inspect": ("inspect", str(TOOLS), "add", "--json"),
    "call": ("call", "add", "a=1", "b=2", "--target", str(TOOLS), "--json"),
    "call_refused": ("call", "add", "a=x", "--target", str(TOOLS), "--json"),
    "lint": ("lint", str(GOLDEN / "definition.json"), "--json"),
    "diff": ("diff", str(GOLDEN / "definition.json"), str(GOLDEN / "definition_changed.json"), "--json"),
    "convert": ("convert", str(GOLDEN / "definition.json"), "--to", "oxp", "--json"),
    "tool_add": ("tool", "add", str(GOLDEN / "definition.json"), "--json"),
    "tool_list": ("tool", "list", "--json"),
    "key_create": ("key", "create", "robot", "--json"),
    "key_list": ("key", "list", "--json"),
    "grant_add": ("grant", "add", "robot", "Golden.*", "--json"),
    "grant_list": ("grant", "list", "--json"),
    "approval_list": ("approval", "list", "--json"),
    "factor_list": ("factor", "list", "--json"),
    "secret_list": ("secret", "list", "--json"),
    "account_providers": ("account", "providers", "--json"),
    "account_list": ("account", "list", "--json"),
    "task_list": ("task", "list", "--json"),
    "audit_tail": ("audit", "tail", "--json"),
    "audit_verify": ("audit", "verify", "--json"),
}


@pytest.mark.timeout(600)  # one process after the other: each sees what the ones before it stored
def test_json_output_audit_and_database_match_their_golden_files(folder: Path) -> None:
    outputs = {name: run(folder, *words) for name, words in COMMANDS.items()}
    compare("json_outputs.json", pretty({name: normalized(text, folder) for name, text in outputs.items()}))
    compare("audit_lines.json", pretty(normalized(audit_lines(folder / "data"), folder)))
    compare("data_folder.txt", "\n".join(data_files(folder / "data")) + "\n")
    compare("database.sql", schema_of(folder / "data"))


def normalized(text: str, folder: Path) -> Any:
    """A document without what differs in every run: ids, digests, times, paths."""
    lines = [hide(json.loads(line)) for line in text.splitlines()] if text.strip() else []
    encoded = json.dumps(lines[0] if len(lines) == 1 else lines).replace(str(folder), "FOLDER")
    return json.loads(encoded.replace(str(GOLDEN), "GOLDEN"))


RANDOM = re.compile(
    r"tk_[A-Za-z0-9_-]+|\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{12,}\b"
    r"|\b[A-Za-z0-9_-]{43,}={0,2}|\b[0-9A-Z]{26}\b"
)
VARYING = {
    "prev",
    "id",
    "key_id",
    "trace",
    "call",
    "seq",
    "ms",
    "duration_ms",
    "at",
    "time",
    "took",
    "durationUs",
    "duration_us",
    "log",
    "number",
    "pid",
    "size",
    "bytes",
    "hash",
    "mac",
}


def hide(value: Any, member: str = "") -> Any:
    match value:
        case dict():
            return {key: hide(each, key) for key, each in value.items()}
        case list():
            return [hide(each, member) for each in value]
        case str():
            return f"<{member}>" if member in VARYING else RANDOM.sub("<random>", value)
        case float():
            return "<number>"
        case int() if member in VARYING and not isinstance(value, bool):
            return "<number>"
        case _:
            return value


def audit_lines(data: Path) -> str:
    """The first three lines of the log: its head, an intent and its outcome."""
    (log,) = (data / "audit" / "1").glob("*.jsonl")
    return "\n".join(log.read_text(encoding="utf-8").splitlines()[:3])


def data_files(data: Path) -> list[str]:
    """The names in the data folder, without what differs in every run."""
    found = {RANDOM.sub("<random>", str(each.relative_to(data))) for each in data.rglob("*")}
    return sorted({re.sub(r"\d{3,}", "<number>", each) for each in found if not each.endswith(("-wal", "-shm"))})


def schema_of(data: Path) -> str:
    with sqlite3.connect(f"file:{data / 'toolhall.db'}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name").fetchall()
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    connection.close()
    return "".join(f"{sql};\n\n" for (sql,) in rows) + f"-- revision {revision}\n"
