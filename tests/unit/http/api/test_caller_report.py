"""Who still calls a tool, as its records tell."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.http.api.management_client import manage, place
from toolhall import Config, Toolhall
from toolhall.examples.calculator import Calculator
from toolhall.http.api import audit
from toolhall.http.api.audit import CallerReport
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import CallTool


def record(caller: str = "ada", at: float = 1.0, **other: Any) -> AuditRecord:
    said: dict[str, Any] = {"dialect": "mcp", "tool": "Kit.pick@1.0.0", "outcome": "ok", "grant": "local", **other}
    return AuditRecord(at, "call-1", caller, **said)


def told(*records: AuditRecord) -> Any:
    found = CallerReport()
    for each in records:
        found.add(each)
    return found.to_json()


def test_report_orders_callers_by_last_call() -> None:
    document = told(
        record(at=1.0),
        record("eve", at=2.0, dialect="oxp"),
        record(at=3.0, tool="Kit.pick@10.0.0", dialect="hub"),
        record(at=2.5, tool="Kit.pick@9.0.0"),
    )
    assert document == {
        "callers": [
            {
                "caller": "ada",
                "calls": 3,
                "last": "1970-01-01T00:00:03.000Z",
                "versions": ["10.0.0", "9.0.0", "1.0.0"],
                "dialects": ["hub", "mcp"],
            },
            {
                "caller": "eve",
                "calls": 1,
                "last": "1970-01-01T00:00:02.000Z",
                "versions": ["1.0.0"],
                "dialects": ["oxp"],
            },
        ],
        "others": 0,
    }


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        ({}, 1),
        ({"outcome": "Denied", "grant": None}, 1),
        ({"outcome": "BadArguments"}, 1),
        ({"outcome": "NotFound", "grant": None}, 0),
        ({"outcome": "NotActive", "grant": None}, 0),
        ({"outcome": "Retired", "grant": None}, 1),  # its last day is over, and somebody calls it still
        ({"outcome": "NotFound"}, 1),  # what the tool itself did not find
        ({"dialect": "api/management", "grant": None}, 0),
    ],
)
def test_report_ignores_calls_that_found_no_tool(other: dict[str, Any], counts: int) -> None:
    assert len(told(record(**other))["callers"]) == counts


def test_report_limits_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_CALLERS", 3)
    document = told(*(record(f"caller-{number}", at=float(number)) for number in range(50)))
    assert [each["caller"] for each in document["callers"]] == ["caller-49", "caller-48", "caller-47"]
    assert document["others"] == 47


def test_report_limits_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_WORDS", 2)
    document = told(*(record(tool=f"Kit.pick@1.0.{number}") for number in range(9)))
    assert len(document["callers"][0]["versions"]) == 2
    assert document["callers"][0]["calls"] == 9


@pytest.mark.parametrize("kept", [True, False])
async def test_callers_endpoint_includes_recent_calls(tmp_path: Path, kept: bool) -> None:
    config = Config(data=str(tmp_path)) if kept else Config()
    with Toolhall(Calculator, config=config) as hall:
        await hall.open()
        for name, caller in (("Calculator_Add", LOCAL), ("Calculator.Add@^1", LOCAL), ("Calculator.Add@9.9.9", LOCAL)):
            await hall.dispatcher.answer(CallTool(name, {"a": 1, "b": 2}, "test"), caller)
        await hall.dispatcher.answer(CallTool("Calculator_Add", {}, "test"), Caller("stranger"))
        await manage(hall, "POST", place("Calculator.Add", "deactivate"))
        for name in ("Calculator.Add", "Calculator.Add@1.0.0"):
            found = (await manage(hall, "GET", place(name, "callers"))).body["callers"]
            assert [(each["caller"], each["calls"], each["versions"]) for each in found] == [("local", 2, ["1.0.0"])]
        assert (await manage(hall, "GET", place("Calculator.Subtract", "callers"))).body["callers"] == []
        assert (await manage(hall, "GET", place("No.such", "callers"))).status == 404
