"""`Office`: a hall with tools of all kinds, callers, grants, questions to a person, and records of real calls."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser.conftest import HallClient
from tests.harness.server_process import serving

TOOLS = Path(__file__).with_name("tools.py")
GATE = {"path": "/lock", "oneOf": ["north", "south"]}
# What `ci` calls, and how each call ends.
CALLS: list[tuple[str, dict[str, Any], int]] = [
    ("Calculator/Add", {"a": 40, "b": 2}, 200),
    ("Calculator/Add", {"a": "forty"}, 422),
    ("Harbour/get_tide", {"harbour": "Leith"}, 200),
    ("Harbour/get_tide", {"harbour": "Leith", "unit": "ft"}, 200),
    ("Harbour/watch", {"steps": 2}, 200),
    ("Harbour/open_lock", {"lock": "north"}, 200),
    ("Harbour/open_lock", {"lock": "west"}, 403),
    ("Harbour/sink", {"ship": "Argo"}, 409),
    ("Harbour/crash", {}, 500),
    ("Harbour/picture", {}, 200),
    ("Strange/echo", {}, 200),
    ("Nowhere/nothing", {}, 404),
]


class Office(HallClient):
    """The hall, and the secrets of its callers' keys by name."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.keys: dict[str, str] = {}
        self.grants: dict[str, str] = {}

    def expect(self, status: int, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Ask, and insist on the status; the value of the reply."""
        got, said = self.ask(method, path, body, key)
        assert got == status, (method, path, got, said)
        return said

    def make_key(self, name: str, **more: Any) -> str:
        """Make a key of a caller; its secret."""
        self.keys[name] = str(self.expect(201, "POST", "/api/keys", {"name": name, **more})["secret"])
        return self.keys[name]

    def grant(self, callers: str, tools: str, **more: Any) -> str:
        """Grant tools; the id of the grant."""
        made = self.expect(201, "POST", "/api/grants", {"callers": callers, "tools": tools, **more})
        self.grants[f"{callers} {tools}"] = str(made["id"])
        return str(made["id"])

    def rest(self, tool: str, arguments: Any, caller: str | None = None) -> tuple[int, Any]:
        """Call a tool (`Toolkit/tool`) over REST, as a caller or as this machine."""
        return self.ask("POST", f"/tools/{tool}", arguments, self.keys[caller] if caller else None)

    def ask_person(self, **arguments: Any) -> str:
        """Call a tool that this machine's person must approve; the id of the question."""
        status, said = self.rest("Harbour/scrap", arguments)
        assert status == 403, said
        waiting = self.expect(200, "GET", "/api/approvals")["approvals"]
        (found,) = [each["id"] for each in waiting if all(value in each["shown"] for value in arguments.values())]
        return str(found)

    def fill(self) -> None:
        """Callers, grants, calls that end in many ways, and two questions, which end after five minutes."""
        self.make_key("ci", owner="alice")
        self.make_key("support-bot", owner="bob", expires="12h")
        self.make_key("auditor", scopes=["observe"])
        self.grant("ci", "Harbour.open_lock", conditions=[GATE])
        self.grant("support-bot", "Harbour.*")
        self.grant("ci", "Harbour.scrap", effect="forbid")
        for tool, arguments, status in CALLS:
            got, said = self.rest(tool, arguments, "ci")
            assert got == status, (tool, got, said)
        self.rest("Harbour/get_tide", {"harbour": "Oban"}, "support-bot")
        self.ask_person(ship="Argo", why="it leaks")
        self.ask_person(ship="B\u0430rge", why="nobody needs it\u200b")


@contextmanager
def opened(folder: Path, *, filled: bool = True, **settings: Any) -> Generator[Office]:
    """Serve an office; one that is not filled was never called."""
    with serving(folder, TOOLS, **settings) as served:
        office = Office(served.port)
        if filled:
            office.fill()
        yield office
