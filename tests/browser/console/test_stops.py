"""One call for each stage at which calls stop: the list and the call name it, the rule and what to do (C9)."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import TOOLS, Office, opened
from tests.browser.console.scene_calls import CALL_ROWS
from tests.browser.console.staging import Stage
from tests.browser.console.test_frame import made_key, signed_in
from tests.harness.console_window import ConsoleWindow
from tests.harness.server_process import serving
from tests.threats.issuer import issuing

pytestmark = pytest.mark.timeout(300)
LIAR = '''

class Liar(Toolkit, version="1.0.0", level=1):
    """Promises numbers."""

    @tool(effect="reads")
    def count(self) -> int:
        """Counts."""
        return "many"
'''
GUARD = '''

class Guard(Toolkit, version="1.0.0", level=7):
    """Leaves a trace outside of the audit."""

    @tool(effect="writes")
    def stamp(self) -> str:
        """Stamps."""
        return "stamped"
'''
ISSUER = 'resource = "https://hall.example"\n[[issuers]]\nname = "corp"\nissuer = "{}"\n'
SETTINGS = "pair_limit = {per_second = 0.01, burst = 5}\n"
# Stage, tool, arguments, status; and what the call says, what to do, and where it leads.
STOPS: list[tuple[str, str, Any, int, str, str, str]] = [
    ("find", "Nowhere/nothing", {}, 404, "No tool of this name", "Check the name", "#/tools"),
    ("limit", "Harbour/watch", {"steps": 1}, 429, "more often than the limits allow", "raise the limit", "#/limits"),
    ("validate", "Calculator/Add", {"a": "x"}, 422, "do not match", "Correct the arguments", "#/tools/Calculator.Add"),
    ("verify", "Harbour/scrap", {"ship": "Argo"}, 403, "a person's yes", "Approve it", "#/approvals"),
    ("equip", "Harbour/camera", {}, 403, "needs is missing", "Set the secret", "#/secrets"),
    ("run", "Harbour/crash", {}, 500, "does not handle", "log has it", "#/tools/Harbour.crash"),
    ("check", "Liar/count", {}, 500, "output schema promises", "Correct the tool", "#/tools/Liar.count"),
]


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A hall in which one call stopped at each stage at which a caller can make it stop."""
    folder = tmp_path_factory.mktemp("stops")
    (folder / "toolhall.toml").write_text(SETTINGS)
    (folder / "tools.py").write_text(TOOLS.read_text() + LIAR)
    with serving(folder, folder / "tools.py") as served:
        office = Office(served.port)
        for stage, tool, arguments, status, *_ in STOPS:
            statuses = [office.rest(tool, arguments)[0] for _ in range(10 if stage == "limit" else 1)]
            assert statuses[-1] == status, (tool, statuses)
        yield office


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop[0])
def test_call_names_the_stage_the_rule_and_what_to_do(
    console: OpenConsole, stops: Office, stop: tuple[str, str, Any, int, str, str, str]
) -> None:
    stage, tool, _, _, rule, fix, address = stop
    window = console(stops).open(f"#/calls?stage={stage}")
    window.find("row").nth(1).get_by_role("link").click()
    check_stop(window, stage, tool.replace("/", "."), rule, fix, address)


def test_call_whose_token_lacks_the_scope_stops_at_authorize(console: OpenConsole, tmp_path: Path) -> None:
    """A grant shows the tool to the caller; its credential may not call it."""
    boss = made_key(tmp_path, "boss", "--scopes", "admin,tools:*")
    with issuing() as issuer:
        (tmp_path / "toolhall.toml").write_text(ISSUER.format(issuer.url))
        with opened(tmp_path, filled=False, profile="server") as hall:
            hall.expect(201, "POST", "/api/grants", {"callers": "corp:alice", "tools": "Harbour.*"}, boss)
            token = issuer.token(scope="tools:Other")
            assert hall.ask("POST", "/tools/Harbour/open_lock", {"lock": "north"}, token)[0] == 403
            window = signed_in(console(hall), boss)
            window.go("#/calls?stage=authorize")
            window.find("row").nth(1).get_by_role("link").click()
            rule, fix = "lacks the scope tools:Harbour", "Change the rule that decided"
            check_stop(window, "authorize", "Harbour.open_lock", rule, fix, "#/grants/why?caller=corp")


def test_call_that_cannot_be_recorded_stops_at_audit(console: OpenConsole, tmp_path: Path) -> None:
    """The audit was removed while the hall stood still, so nothing that changes something runs any more."""
    (tmp_path / "tools.py").write_text(TOOLS.read_text() + GUARD)
    with serving(tmp_path, tmp_path / "tools.py") as served:
        assert Office(served.port).rest("Guard/stamp", {}) == (200, "stamped")
    shutil.rmtree(tmp_path / "data/audit")
    with serving(tmp_path, tmp_path / "tools.py") as served:
        hall = Office(served.port)
        assert hall.rest("Harbour/open_lock", {"lock": "north"})[0] == 503
        window = console(hall).open("#/calls?stage=audit")
        window.find("row").nth(1).get_by_role("link").click()
        check_stop(window, "audit", "Harbour.open_lock", "could not be recorded", "Health say about it", "#/health")


def test_call_that_stops_at_sanitize_says_so(console: OpenConsole, new_hall: Office) -> None:
    """The scene has one: only a fault of the hall itself stops a call there."""
    window = console(new_hall)
    Stage(window, change=lambda path, value: _stopped_at_sanitize(value) if "/api/calls/" in path else value)
    tool = CALL_ROWS[3][3]
    window.open("#/calls")
    window.find("link", tool).first.click()
    check_stop(window, "sanitize", tool, "The hall itself failed", "See what the log says.", "#/tools/")


def check_stop(window: ConsoleWindow, stage: str, tool: str, rule: str, fix: str, address: str) -> None:
    """The call's card says where it stopped, why, and what to do, and links there."""
    card = window.page.locator("aside.card")
    expect(card.get_by_role("heading", level=2)).to_contain_text(tool)
    row = card.get_by_role("list", name="Stages").get_by_role("listitem").filter(has=window.page.locator(".why"))
    expect(row).to_have_count(1)
    expect(row).to_contain_text(stage)
    expect(row).to_contain_text("stopped here")
    expect(row).to_contain_text(rule)
    expect(row).to_contain_text(fix)
    href = row.get_by_role("link").get_attribute("href")
    assert href is not None
    assert href.startswith(address)
    row.get_by_role("link").click()
    window.wait("before => location.hash.startsWith(before)", address)
    window.settled()


def _stopped_at_sanitize(value: Any) -> Any:
    order = [each["stage"] for each in value["stages"]]
    said = {"state": "stopped", "reason": "The hall itself failed", "fix": "See what the log says."}
    stages = [
        each
        | {"state": "passed" if place < order.index("sanitize") else "not_reached", "reason": None, "fix": None}
        | (said if each["stage"] == "sanitize" else {})
        for place, each in enumerate(value["stages"])
    ]
    end = {name: each for name, each in value["end"].items() if name not in {"verdict", "reason"}}
    return value | {"kind": "failed", "stages": stages, "end": end | {"outcome": "Broken", "stage": "sanitize"}}
