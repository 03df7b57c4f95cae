"""MCP servers that others wrote, at pinned versions: how each is started, and one call that shows that it works.

Those from npm are in `node`; those in Python are in environments of their own, on the newer and the older line of the
official SDK. So both eras of the protocol are among them.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
NODE = ROOT / "tests" / "upstreams" / "node" / "node_modules" / ".bin"
NEWER_SDK = ROOT / ".venv-clients" / "bin"
OLDER_SDK = ROOT / ".venv-upstreams" / "bin"


class Program(NamedTuple):
    """A server; `call` is one of its tools with arguments, `says` a part of what the tool answers."""

    command: tuple[str, ...]
    tools: int
    call: tuple[str, dict[str, Any]]
    says: str


def programs(folder: Path) -> dict[str, Program]:
    """All of them by the name of their toolkit, with `folder` as the place of what they keep."""
    (folder / "note.txt").write_text("a note of this test")
    return {
        "Everything": Program((f"{NODE}/mcp-server-everything",), 16, ("get-sum", {"a": 2, "b": 3}), "5"),
        "Files": Program(
            (f"{NODE}/mcp-server-filesystem", str(folder)),
            14,
            ("read_text_file", {"path": str(folder / "note.txt")}),
            "a note of this test",
        ),
        "Memory": Program(
            ("/usr/bin/env", f"MEMORY_FILE_PATH={folder / 'memory.json'}", f"{NODE}/mcp-server-memory"),
            9,
            ("read_graph", {}),
            "entities",
        ),
        "Thinking": Program(
            (f"{NODE}/mcp-server-sequential-thinking",),
            1,
            (
                "sequentialthinking",
                {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
            ),
            "thoughtHistoryLength",
        ),
        "Time": Program(
            (f"{NEWER_SDK}/mcp-server-time",),
            2,
            ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
            "21:00",
        ),
        "Git": Program((f"{NEWER_SDK}/mcp-server-git",), 12, ("git_status", {"repo_path": str(folder)}), "git"),
        "Fetch": Program(
            (f"{NEWER_SDK}/mcp-server-fetch", "--ignore-robots-txt"),
            1,
            ("fetch", {"url": "http://127.0.0.1:9/"}),
            "fetch",
        ),
        "Calculator": Program((f"{OLDER_SDK}/mcp-server-calculator",), 1, ("calculate", {"expression": "6 * 7"}), "42"),
        "Sqlite": Program(
            (f"{OLDER_SDK}/mcp-server-sqlite", "--db-path", str(folder / "sqlite.db")), 6, ("list_tables", {}), "[]"
        ),
    }


def client_file(path: Path, chosen: dict[str, Program], **urls: str) -> Path:
    """Write a `mcpServers` file with these programs, and with servers at URLs."""
    servers: dict[str, Any] = {
        name: {"command": each.command[0], "args": list(each.command[1:])} for name, each in chosen.items()
    }
    servers |= {name: {"url": url} for name, url in urls.items()}
    path.write_text(json.dumps({"mcpServers": servers}))
    return path
