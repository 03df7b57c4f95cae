"""`toolhall tool` on a data folder and at a running hall: the same commands, the same answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve_registry import write_shop
from tests.harness.cli import KIT, CliRunner

VECTORS = Path(__file__).parents[1] / "vectors"
CALCULATOR = str(VECTORS / "machine/calculator.json")
ADD = "calculator.add@1.0.0"


def definition(tool: str = "pick", version: str = "1.0.0", **members: Any) -> dict[str, Any]:
    """An MCP definition of the toolkit `Kit`."""
    described = {"name": f"Kit_{tool}", "description": "Pick one of several things.", "inputSchema": {"type": "object"}}
    return {**described, "_meta": {"dev.toolhall/id": f"Kit.{tool}@{version}"}, **members}


def found_hall(cli: CliRunner) -> None:
    """A hall that has never registered anything: it has a key of its own."""
    cli.data.mkdir()
    (cli.data / "state.key").write_bytes(bytes(32))


@pytest.fixture(params=["data", "url"])
def where(cli: CliRunner, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The words that name a hall: a folder of its own, or a process that serves."""
    if request.param == "data":
        yield ["--data", str(cli.folder / "hall")]
        return
    with cli.serve(KIT) as server:
        yield ["--url", server.url]


def test_tool_added_is_activated_deprecated_and_removed(cli: CliRunner, where: list[str]) -> None:
    done = cli.run("tool", "add", CALCULATOR, *where)
    assert (done.code, done.out) == (0, f"{ADD} is quarantined\ncalculator.subtract@1.0.0 is quarantined\n")
    assert "registered 2 tools, 0 findings" in done.err
    listed = cli.run("tool", "list", "--toolkit", "calculator", "--json", *where).json()
    assert [(each["id"], each["state"]) for each in listed] == [
        (ADD, "quarantined"),
        ("calculator.subtract@1.0.0", "quarantined"),
    ]
    origin = ("cli", CALCULATOR) if "--data" in where else ("http", "")
    assert (listed[0]["origin"], listed[0]["originDetail"]) == origin
    refused = cli.run("tool", "activate", ADD, *where)
    assert (refused.code, refused.out) == (1, "")
    assert "Add --yes" in refused.err.splitlines()[-1]
    assert cli.run("tool", "activate", ADD, "--yes", *where).out == f"{ADD} is active\n"
    done = cli.run("tool", "deprecate", ADD, "--sunset", "2099-01-31", "--successor", "calculator.subtract", *where)
    assert done.out == f"{ADD} is active (deprecated, gone from 2099-01-31 on, use calculator.subtract)\n"
    assert cli.run("tool", "deactivate", "calculator.add", "--json", *where).json()["state"] == "inactive"
    shown = cli.run("tool", "list", "--state", "inactive", *where)
    assert ADD in shown.out
    assert "calculator.subtract@" not in shown.out
    assert "add --yes" in cli.run("tool", "remove", ADD, *where).error_line().lower()
    assert cli.run("tool", "remove", ADD, "--yes", *where).out == f"{ADD} is removed\n"
    events = cli.run("tool", "history", ADD, "--json", *where).json()
    assert [each["what"] for each in events] == ["removed", "deactivated", "deprecated", "activated", "registered"]
    assert "is not registered" in cli.run("tool", "show", ADD, *where).error_line()


def test_tool_rollback_serves_the_version_before(cli: CliRunner, where: list[str]) -> None:
    (cli.folder / "tools.json").write_text(json.dumps([definition(), definition(version="1.1.0")]))
    assert cli.run("tool", "add", "tools.json", *where).code == 0
    for version in ("1.0.0", "1.1.0"):
        assert cli.run("tool", "activate", f"Kit.pick@{version}", "--yes", *where).code == 0
    asked = cli.run("tool", "rollback", "Kit.pick", *where)
    assert (asked.code, "Kit.pick@1.1.0" in asked.error_line()) == (1, True)
    done = cli.run("tool", "rollback", "Kit.pick", "--yes", *where)
    assert done.out == "Kit.pick@1.0.0 is active\nKit.pick@1.1.0 is inactive\n"
    everything = cli.run("tool", "history", "--limit", "2", *where)
    assert everything.out.count("rolled back") == 2


def test_tool_callers_lists_who_called(cli: CliRunner) -> None:
    with cli.serve(KIT) as server:
        at = ["--url", server.url]
        for _ in range(2):
            assert cli.run("call", "echo", *at, "--json").code == 0
        (caller,) = cli.run("tool", "callers", "kit.echo", "--json", *at).json()["callers"]
        assert (caller["caller"], caller["calls"], caller["versions"]) == ("local", 2, ["0.1.0"])
        assert cli.run("tool", "callers", "kit.echo", *at).out.splitlines()[1].startswith("local   2")
        assert cli.run("tool", "callers", "kit.route", *at).err == "nobody has called it\n"
        beside = cli.run("tool", "callers", "kit.echo", "--json", "--data", str(cli.data))
        assert beside.json()["callers"] == [caller], "reading goes on beside a hall that runs"


def test_tool_command_on_a_folder_in_use_is_refused(cli: CliRunner) -> None:
    with cli.serve(KIT):
        done = cli.run("tool", "add", CALCULATOR)
        assert (done.code, done.out) == (1, "")
        assert f"{cli.data} is in use by process" in done.error_line()
        assert "--url" in done.error_line()
        listed = cli.run("tool", "list", "--json").json()
        assert "kit.echo@0.1.0" in [each["id"] for each in listed]


def test_tool_registered_in_a_folder_is_served_from_it(cli: CliRunner) -> None:
    assert cli.run("tool", "add", CALCULATOR).code == 0
    assert cli.run("tool", "activate", ADD, "--yes").code == 0
    with cli.serve(KIT) as server:
        names = [each["name"] for each in cli.run("list", "--url", server.url, "--json").json()]
    assert "calculator_add" in names
    assert "calculator_subtract" not in names


def test_tool_add_of_every_shape_registers_all_but_the_refused(cli: CliRunner) -> None:
    folder = cli.folder / "definitions"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"tools": [definition("a"), {"x": 1}, definition("b")]}))
    lines = [json.dumps(definition("c")), "{broken", json.dumps(definition("d", inputSchema={"type": "colour"}))]
    (folder / "b.jsonl").write_text("\n".join(lines))
    (folder / "c.json").write_text("[")
    (folder / "note.txt").write_text("not a definition")
    done = cli.run("tool", "add", str(folder), "-", text=json.dumps(definition("e")))
    assert done.code == 1
    kept = [line for line in done.out.splitlines() if line.endswith("is quarantined")]
    assert kept == [f"Kit.{name}@1.0.0 is quarantined" for name in "abce"]
    said = done.err.splitlines()[-1]
    assert said == "toolhall: registered 4 tools, 0 findings; 4 documents refused, for the reasons above"
    for place in ("a.json:1: document 1, /", "b.jsonl:2: document 1, /", "b.jsonl:3: document 2, /inputSchema"):
        assert place in done.out
    again = cli.run("tool", "add", str(folder / "b.jsonl"), "--json")
    report = again.json()
    assert (again.code, report["tools"]) == (1, [])
    assert [(each["line"], each["index"]) for each in report["refused"]] == [(1, 0), (2, 1), (3, 2)]
    assert "registered already" in report["refused"][0]["reason"]
    assert report["refused"][2]["problems"][0]["path"].startswith("/inputSchema")


def test_tool_add_of_a_breaking_change_names_every_reason(cli: CliRunner) -> None:
    (cli.folder / "old.json").write_text(json.dumps(definition()))
    (cli.folder / "new.json").write_text(
        json.dumps(definition(version="1.0.1", inputSchema={"type": "object", "required": ["what", "why"]}))
    )
    assert cli.run("tool", "add", "old.json").code == 0
    done = cli.run("tool", "add", "new.json")
    assert done.code == 1
    for words in ("write version 2.0.0", "[contract/bump]", "[contract/breaking]"):
        assert words in done.out


def test_tool_add_with_a_dialect_reads_that_dialect(cli: CliRunner) -> None:
    (cli.folder / "tools.json").write_text(json.dumps({"name": "look", "parameters": {"type": "object"}}))
    done = cli.run("tool", "add", "tools.json", "--from", "function", "--json")
    assert done.json()["tools"][0]["dialect"] == "function"
    assert cli.run("tool", "add", "tools.json", "--from", "machine").code == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["add"], 2, "add needs a file or a folder"),
        (["add", "missing.json"], 2, "there is no file missing.json"),
        (["add", "empty"], 2, "holds no file of definitions"),
        (["add", "--from", "openai", "x.json"], 2, "--from 'openai' is no dialect that can be read"),
        (["show"], 2, "requires an argument"),
        (["show", "Kit.none"], 1, "Kit.none is not registered"),
        (["activate", "Kit.none", "--yes"], 1, "Kit.none is not registered"),
        (["history", "Kit.none"], 1, "Kit.none is not registered"),
        (["callers", "Kit.none"], 1, "Kit.none is not registered"),
        (["history", "--limit", "0"], 2, "from 1 to 1000"),
        (["deprecate", "Kit.none", "--sunset", "soon"], 2, "write it like 2027-01-31"),
        (["deprecate", "Kit.none", "--sunset", "2001-01-01"], 1, "2001-01-01 is over"),
        (["list", "--state", "asleep"], 2, "quarantined"),
        (["list", "--url", "http://127.0.0.1:1"], 1, "start it with 'toolhall serve'"),
        (["list", "--url", "http://127.0.0.1:1", "--data", "x"], 2, "not both"),
        (["lst"], 2, 'Did you mean "list"'),
    ],
)
def test_tool_command_with_wrong_words_prints_one_line(cli: CliRunner, words: list[str], code: int, said: str) -> None:
    (cli.folder / "empty").mkdir()
    found_hall(cli)
    done = cli.run("tool", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["show", "Kit.pick"],
        ["history"],
        ["callers", "Kit.pick"],
        ["activate", "Kit.pick", "--yes"],
        ["rollback", "Kit.pick", "--yes"],
        ["remove", "Kit.pick", "--yes"],
    ],
)
def test_tool_command_without_a_hall_makes_none_unless_adding(cli: CliRunner, words: list[str]) -> None:
    (cli.folder / "other").mkdir()
    for folder in (cli.folder / "none/such", cli.folder / "other"):
        done = cli.run("tool", *words, "--data", str(folder))
        assert (done.code, done.out) == (1, "")
        assert f"there is no hall in {folder}; make one with 'toolhall tool add FILE'" in done.error_line()
    assert [each.name for each in cli.folder.rglob("*")] == ["other"], "nothing was made"


def test_tool_active_but_not_served_is_shown_as_such(cli: CliRunner) -> None:
    with cli.serve(write_shop(cli, "1.0.0")):
        pass
    with cli.serve(write_shop(cli, "2.0.0", "int")) as server:
        at = ["--url", server.url]
        old, new = cli.run("tool", "list", *at).out.splitlines()[1:]
        assert old.startswith("Shop.price@1.0.0  active, not served  code")
        assert new.startswith("Shop.price@2.0.0  active              code")
        assert "  state         active, not served\n" in cli.run("tool", "show", "Shop.price@1.0.0", *at).out
        assert "  state         active\n" in cli.run("tool", "show", "Shop.price", *at).out
        beside = cli.run("tool", "list").out
        assert "not served" not in beside, "a folder does not tell which code a hall serves"
        events = cli.run("tool", "history", "Shop.price", "--json", *at).json()
        assert {each["id"] for each in events} == {"Shop.price@1.0.0", "Shop.price@2.0.0"}


def test_tool_list_of_an_empty_hall_names_the_next_step(cli: CliRunner) -> None:
    found_hall(cli)
    done = cli.run("tool", "list")
    assert (done.code, done.out) == (0, "")
    assert "toolhall tool add FILE" in done.err
    assert cli.run("tool", "list", "--json").json() == []
