"""The console asks only what `/openapi.json` describes, and what it never asks is named (C20).

Every window of these tests compares what it asked with the description when it is closed (the fixture `console`); here
the sources are read, so that no other test must have run before.
"""

import json
import re
from pathlib import Path
from typing import Any

from tests.harness.console_window import ROOT, described_operation

SOURCES = ROOT / "console/src"
DESCRIBED: dict[str, Any] = json.loads((ROOT / "tests/golden/openapi.json").read_text())["paths"]
# Operations that no screen uses, and why.
UNUSED = {
    "POST /api/accounts/{link}/paste": "for people whose browser is on another machine; the command line asks for it",
    "POST /api/audit/accept": "accepts a break of the chain, which is done at the machine with the data folder",
    "DELETE /api/secrets": "removes all secrets of a user who left; the command line asks twice",
    "GET /api/factors": "factors are a matter of the page /enroll, which works without JavaScript",
    "POST /api/factors": "see GET /api/factors",
    "POST /api/factors/confirm": "see GET /api/factors",
    "DELETE /api/factors/{id}": "see GET /api/factors",
    "GET /api/keys": "GET /api/callers has the keys of each caller",
    "GET /api/history": "the newest events are in GET /api/overview, and those of a tool in its history",
}
_METHODS = ("get", "post", "put", "delete", "patch")


def operations() -> set[str]:
    """Return every management operation that is described."""
    return {
        f"{method.upper()} {path}"
        for path, item in DESCRIBED.items()
        for method in item
        if method in _METHODS and item[method]["tags"] == ["management"]
    }


def used() -> dict[str, set[Path]]:
    """Return the first segments of what the sources ask, and where."""
    found: dict[str, set[Path]] = {}
    for path in SOURCES.rglob("*.ts*"):
        for place in re.findall(r"['`](api/[a-z/-]+)", path.read_text()):
            found.setdefault("/" + place.rstrip("/"), set()).add(path)
    return found


def test_every_route_in_the_sources_is_described() -> None:
    assert used(), "the sources name routes"
    missing = [
        f"{place} in {min(paths).relative_to(ROOT)}"
        for place, paths in used().items()
        if not any(path == place or path.startswith(f"{place}/") for path in DESCRIBED)
    ]
    assert missing == []


def test_every_operation_is_used_by_a_screen_or_named_as_unused() -> None:
    folders: dict[Path, str] = {}
    for path in SOURCES.rglob("*.ts*"):
        folders[path.parent] = folders.get(path.parent, "") + path.read_text()
    asked = {each for each in operations() if any(_asks(each, source) for source in folders.values())}
    assert sorted(operations() - asked - UNUSED.keys()) == []


def test_what_is_named_as_unused_is_described() -> None:
    assert sorted(UNUSED.keys() - operations()) == []


def _asks(operation: str, source: str) -> bool:
    """Whether the sources of a folder have the route's own words, in order, and its method where that is not GET."""
    method, _, path = operation.partition(" ")
    first, *rest = [each for each in re.split(r"/\{\w+\}/?", path) if each]
    if f"'{first[1:].rstrip('/')}'" not in source and f"`{first[1:].rstrip('/')}/" not in source:
        return False
    named = all(f"/{each}" in source or f"'{each}'" in source for each in rest)
    return named and (method == "GET" or f"hall.{method.lower()}" in source or "hall.post" in source)


def test_described_operation_finds_paths_with_parameters() -> None:
    assert described_operation("GET", "/api/tools/Kit.pick%401.0.0/diff", DESCRIBED) == "/api/tools/{id}/diff"
    assert described_operation("GET", "/api/tools/Kit.pick%401.0.0", DESCRIBED) == "/api/tools/{id}"
    assert described_operation("PATCH", "/api/tools", DESCRIBED) is None
    assert described_operation("GET", "/api/nothing", DESCRIBED) is None
