"""`toolhall tool` on a data folder and at a running hall: the same commands, the same answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import KIT, Shell
from tests.cli.test_serve_registry import write_shop

VECTORS = Path(__file__).parents[1] / "vectors"
CALCULATOR = str(VECTORS / "machine/calculator.json")
ADD = "calculator.add@1.0.0"


def definition(tool: str = "pick", version: str = "1.0.0", **members: Any) -> dict[str, Any]:
    """An MCP definition of the toolkit `Kit`."""
    described = {"name": f"Kit_{tool}", "description": "Pick one of several things.", "inputSchema": {"type": "object"}}
    return {**described, "_meta": {"dev.toolhall/id": f"Kit.{tool}@{version}"}, **members}


def found_hall(shell: Shell) -> None:
    """A hall that has never registered anything: it has a key of its own."""
    shell.data.mkdir()
    (shell.data / "state.key").write_bytes(bytes(32))


@pytest.fixture(params=["data", "url"])
def where(shell: Shell, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The words that name a hall: a folder of its own, or a process that serves."""
    if request.param == "data":
        yield ["--data", str(shell.folder / "hall")]
        return
    with shell.serving(KIT) as server:
        yield ["--url", server.url]


def test_a_tool_comes_is_served_is_deprecated_and_goes(shell: Shell, where: list[str]) -> None:
    done = shell.run("tool", "add", CALCULATOR, *where)
    assert (done.code, done.out) == (0, f"{ADD} is quarantined\ncalculator.subtract@1.0.0 is quarantined\n")
    assert "registered 2 tools, 0 findings" in done.err
    listed = shell.run("tool", "list", "--toolkit", "calculator", "--json", *where).json()
    assert [(each["id"], each["state"]) for each in listed] == [
        (ADD, "quarantined"),
        ("calculator.subtract@1.0.0", "quarantined"),
    ]
    origin = ("cli", CALCULATOR) if "--data" in where else ("http", "")
    assert (listed[0]["origin"], listed[0]["originDetail"]) == origin
    refused = shell.run("tool", "activate", ADD, *where)
    assert (refused.code, refused.out) == (1, "")
    assert "Add --yes" in refused.err.splitlines()[-1]
    assert shell.run("tool", "activate", ADD, "--yes", *where).out == f"{ADD} is active\n"
    done = shell.run("tool", "deprecate", ADD, "--sunset", "2099-01-31", "--successor", "calculator.subtract", *where)
    assert done.out == f"{ADD} is active (deprecated, gone from 2099-01-31 on, use calculator.subtract)\n"
    assert shell.run("tool", "deactivate", "calculator.add", "--json", *where).json()["state"] == "inactive"
    shown = shell.run("tool", "list", "--state", "inactive", *where)
    assert ADD in shown.out
    assert "calculator.subtract@" not in shown.out
    assert "add --yes" in shell.run("tool", "remove", ADD, *where).complaint().lower()
    assert shell.run("tool", "remove", ADD, "--yes", *where).out == f"{ADD} is removed\n"
    events = shell.run("tool", "history", ADD, "--json", *where).json()
    assert [each["what"] for each in events] == ["removed", "deactivated", "deprecated", "activated", "registered"]
    assert "is not registered" in shell.run("tool", "show", ADD, *where).complaint()


def test_going_back_to_the_version_before(shell: Shell, where: list[str]) -> None:
    (shell.folder / "tools.json").write_text(json.dumps([definition(), definition(version="1.1.0")]))
    assert shell.run("tool", "add", "tools.json", *where).code == 0
    for version in ("1.0.0", "1.1.0"):
        assert shell.run("tool", "activate", f"Kit.pick@{version}", "--yes", *where).code == 0
    asked = shell.run("tool", "rollback", "Kit.pick", *where)
    assert (asked.code, "Kit.pick@1.1.0" in asked.complaint()) == (1, True)
    done = shell.run("tool", "rollback", "Kit.pick", "--yes", *where)
    assert done.out == "Kit.pick@1.0.0 is active\nKit.pick@1.1.0 is inactive\n"
    everything = shell.run("tool", "history", "--limit", "2", *where)
    assert everything.out.count("rolled back") == 2


def test_who_calls_a_tool(shell: Shell) -> None:
    with shell.serving(KIT) as server:
        at = ["--url", server.url]
        for _ in range(2):
            assert shell.run("call", "echo", *at, "--json").code == 0
        (caller,) = shell.run("tool", "callers", "kit.echo", "--json", *at).json()["callers"]
        assert (caller["caller"], caller["calls"], caller["versions"]) == ("local", 2, ["0.1.0"])
        assert shell.run("tool", "callers", "kit.echo", *at).out.splitlines()[1].startswith("local   2")
        assert shell.run("tool", "callers", "kit.route", *at).err == "nobody has called it\n"
        beside = shell.run("tool", "callers", "kit.echo", "--json", "--data", str(shell.data))
        assert beside.json()["callers"] == [caller], "reading goes on beside a hall that runs"


def test_a_folder_in_use_is_changed_only_by_who_uses_it(shell: Shell) -> None:
    with shell.serving(KIT):
        done = shell.run("tool", "add", CALCULATOR)
        assert (done.code, done.out) == (1, "")
        assert f"{shell.data} is in use by process" in done.complaint()
        assert "--url" in done.complaint()
        listed = shell.run("tool", "list", "--json").json()
        assert "kit.echo@0.1.0" in [each["id"] for each in listed]


def test_what_is_registered_here_is_served_there(shell: Shell) -> None:
    assert shell.run("tool", "add", CALCULATOR).code == 0
    assert shell.run("tool", "activate", ADD, "--yes").code == 0
    with shell.serving(KIT) as server:
        names = [each["name"] for each in shell.run("list", "--url", server.url, "--json").json()]
    assert "calculator_add" in names
    assert "calculator_subtract" not in names


def test_every_shape_is_added_and_what_is_refused_stops_nothing(shell: Shell) -> None:
    folder = shell.folder / "definitions"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"tools": [definition("a"), {"x": 1}, definition("b")]}))
    lines = [json.dumps(definition("c")), "{broken", json.dumps(definition("d", inputSchema={"type": "colour"}))]
    (folder / "b.jsonl").write_text("\n".join(lines))
    (folder / "c.json").write_text("[")
    (folder / "note.txt").write_text("not a definition")
    done = shell.run("tool", "add", str(folder), "-", text=json.dumps(definition("e")))
    assert done.code == 1
    kept = [line for line in done.out.splitlines() if line.endswith("is quarantined")]
    assert kept == [f"Kit.{name}@1.0.0 is quarantined" for name in "abce"]
    said = done.err.splitlines()[-1]
    assert said == "toolhall: registered 4 tools, 0 findings; 4 documents refused, for the reasons above"
    for place in ("a.json:1: document 1, /", "b.jsonl:2: document 1, /", "b.jsonl:3: document 2, /inputSchema"):
        assert place in done.out
    again = shell.run("tool", "add", str(folder / "b.jsonl"), "--json")
    report = again.json()
    assert (again.code, report["tools"]) == (1, [])
    assert [(each["line"], each["index"]) for each in report["refused"]] == [(1, 0), (2, 1), (3, 2)]
    assert "registered already" in report["refused"][0]["reason"]
    assert report["refused"][2]["problems"][0]["path"].startswith("/inputSchema")


def test_what_breaks_a_promise_is_refused_with_every_reason(shell: Shell) -> None:
    (shell.folder / "old.json").write_text(json.dumps(definition()))
    (shell.folder / "new.json").write_text(
        json.dumps(definition(version="1.0.1", inputSchema={"type": "object", "required": ["what", "why"]}))
    )
    assert shell.run("tool", "add", "old.json").code == 0
    done = shell.run("tool", "add", "new.json")
    assert done.code == 1
    for words in ("write version 2.0.0", "[contract/bump]", "[contract/breaking]"):
        assert words in done.out


def test_a_dialect_can_be_named(shell: Shell) -> None:
    (shell.folder / "tools.json").write_text(json.dumps({"name": "look", "parameters": {"type": "object"}}))
    done = shell.run("tool", "add", "tools.json", "--from", "function", "--json")
    assert done.json()["tools"][0]["dialect"] == "function"
    assert shell.run("tool", "add", "tools.json", "--from", "machine").code == 1


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
def test_what_goes_wrong_is_one_line_and_a_code(shell: Shell, words: list[str], code: int, said: str) -> None:
    (shell.folder / "empty").mkdir()
    found_hall(shell)
    done = shell.run("tool", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.complaint()


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
def test_only_adding_makes_a_hall_where_there_is_none(shell: Shell, words: list[str]) -> None:
    (shell.folder / "other").mkdir()
    for folder in (shell.folder / "none/such", shell.folder / "other"):
        done = shell.run("tool", *words, "--data", str(folder))
        assert (done.code, done.out) == (1, "")
        assert f"there is no hall in {folder}; make one with 'toolhall tool add FILE'" in done.complaint()
    assert [each.name for each in shell.folder.rglob("*")] == ["other"], "nothing was made"


def test_what_is_active_and_not_served_is_said_to_be_so(shell: Shell) -> None:
    with shell.serving(write_shop(shell, "1.0.0")):
        pass
    with shell.serving(write_shop(shell, "2.0.0", "int")) as server:
        at = ["--url", server.url]
        old, new = shell.run("tool", "list", *at).out.splitlines()[1:]
        assert old.startswith("Shop.price@1.0.0  active, not served  code")
        assert new.startswith("Shop.price@2.0.0  active              code")
        assert "  state         active, not served\n" in shell.run("tool", "show", "Shop.price@1.0.0", *at).out
        assert "  state         active\n" in shell.run("tool", "show", "Shop.price", *at).out
        beside = shell.run("tool", "list").out
        assert "not served" not in beside, "a folder does not tell which code a hall serves"
        events = shell.run("tool", "history", "Shop.price", "--json", *at).json()
        assert {each["id"] for each in events} == {"Shop.price@1.0.0", "Shop.price@2.0.0"}


def test_an_empty_hall_says_what_to_do(shell: Shell) -> None:
    found_hall(shell)
    done = shell.run("tool", "list")
    assert (done.code, done.out) == (0, "")
    assert "toolhall tool add FILE" in done.err
    assert shell.run("tool", "list", "--json").json() == []
