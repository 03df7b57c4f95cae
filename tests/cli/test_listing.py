"""`toolhall list` and `toolhall inspect`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import KIT, CliRunner
from toolhall.dialects.catalogs import DIALECTS

LABELS = '''
from toolhall import tool

@tool
def count(labels: dict[str, str]) -> int:
    """Count labels of any name."""
    return len(labels)

@tool
def greet(name: str = "you") -> str:
    """Say hello."""
    return f"hello {name}"
'''


@pytest.fixture(scope="module")
def kit_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with CliRunner(tmp_path_factory.mktemp("server")).serve(KIT) as server:
        yield server.url


VECTORS = Path(__file__).parents[1] / "vectors"
KEYS = [
    *("id", "name", "title", "description", "level", "effect", "version", "inputSchema", "outputSchema"),
    *("effectiveLevel", "kind"),
]


def test_list_without_target_prints_the_examples_as_a_table(cli: CliRunner) -> None:
    done = cli.run("list")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "Tools"
    assert lines[1].split() == ["name", "version", "level", "effect", "description"]
    assert "Calculator_Add       1.0.0    1      reads     Adds two numbers together." in lines[2]
    assert "\x1b" not in done.out
    assert not cli.data.exists()


def test_list_with_json_prints_every_field(cli: CliRunner) -> None:
    done = cli.run("list", KIT, "--json")
    tools = {tool["name"]: tool for tool in done.json()}
    assert all(list(tool) == KEYS for tool in tools.values())
    assert tools["Shop_sell"]["id"] == "Shop.sell@2.1.0"
    assert tools["Shop_sell"]["level"] == 4
    assert tools["unsaid"]["effect"] is None
    assert "printed while the module is imported" in done.err


def test_list_with_config_uses_its_levels(cli: CliRunner) -> None:
    (cli.folder / "strict.toml").write_text('[levels]\n"Shop.sell" = 7\n')
    tools = {tool["name"]: tool for tool in cli.run("list", KIT, "--json", "--config", "strict.toml").json()}
    assert tools["Shop_sell"]["effectiveLevel"] == 7
    refused = cli.run("list", "--url", "http://127.0.0.1:9", "--config", "strict.toml")
    assert (refused.code, "leave out --config" in refused.error_line()) == (2, True)


def test_list_with_levels_that_match_nothing_warns(cli: CliRunner) -> None:
    (cli.folder / "toolhall.toml").write_text('[levels]\n"sell" = 6\n"Mail.*" = 6\n"Shop.*" = 5\n')
    told = [
        "warning: levels: no tool here matches 'sell'; did you mean 'Shop.sell'?",
        "warning: levels: no tool here matches 'Mail.*'; write it as TOOLKIT.TOOL, and * for any",
    ]
    listed = [line for line in cli.run("list", KIT).err.splitlines() if "levels:" in line]
    assert listed == told
    served = cli.run_process("serve", KIT, "--stdio")
    assert [line for line in served.err.splitlines() if "levels:" in line] == told


def test_list_as_a_table_shows_the_effective_level(cli: CliRunner) -> None:
    (cli.folder / "toolhall.toml").write_text('[levels]\n"Shop.sell@*" = 6\n')
    done = cli.run("list", KIT)
    levels = {line.split()[0]: line.split()[2] for line in done.out.splitlines()[1:]}
    assert levels["Shop_sell"] == "6", "what the operator says"
    assert levels["unsaid"] == "1", "for code that states none"
    tools = {tool["name"]: tool for tool in cli.run("list", KIT, "--json").json()}
    assert (tools["Shop_sell"]["level"], tools["Shop_sell"]["effectiveLevel"]) == (4, 6)
    assert (tools["unsaid"]["level"], tools["unsaid"]["effectiveLevel"]) == (None, 1)


def test_list_as_a_table_shows_the_first_line_of_a_description(cli: CliRunner) -> None:
    done = cli.run("list", f"{KIT}:chatter")
    assert "Report progress and log lines." in done.out
    assert "second paragraph" not in done.out


@pytest.mark.parametrize(("dialect", "kind"), [("mcp", "number"), ("mcp@2025-11-25", "object")])
def test_list_in_a_dialect_prints_its_documents(cli: CliRunner, dialect: str, kind: str) -> None:
    documents = cli.run("list", "--dialect", dialect).json()
    add = next(document for document in documents if document["name"] == "Calculator_Add")
    assert add["outputSchema"]["type"] == kind


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if "strict" not in name])
def test_list_at_a_url_in_every_dialect_equals_the_file(kit_url: str, cli: CliRunner, dialect: str) -> None:
    local = cli.run("list", KIT, "--dialect", dialect).json()
    assert cli.run("list", "--url", kit_url, "--dialect", dialect).json() == local
    assert local


def test_list_in_strict_dialect_names_what_cannot_be_said(cli: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "labels.py"
    file.write_text(LABELS)
    with cli.serve(str(file)) as server:
        for where in ((str(file),), ("--url", server.url)):
            done = cli.run("list", *where, "--dialect", "openai@strict")
            assert done.code == 1
            assert "openai@strict cannot say" in done.err
            assert "strict mode" in done.err
            assert done.json(), "the others are listed"


def test_list_and_inspect_of_a_definitions_file_work_in_every_dialect(cli: CliRunner) -> None:
    gmail = str(VECTORS / "oxp/gmail_getemails.json")
    assert cli.run("list", gmail, "--dialect", "oxp").json() == [json.loads(Path(gmail).read_text())]
    seen = cli.run("inspect", gmail, "--json").json()[0]
    assert seen["requirements"]["authorization"]
    assert seen["versions"] == ["1.2.0"]
    machine = cli.run("list", str(VECTORS / "machine/calculator.json"), "--dialect", "hub").json()
    assert [method["name"] for method in machine[0]["tool"]["capabilities"]["methods"]] == ["add", "subtract"]


def test_call_of_a_tool_in_a_definitions_file_is_refused(cli: CliRunner) -> None:
    done = cli.run("call", "calculator_add", "a=1", "b=2", "--yes", "-t", str(VECTORS / "machine/calculator.json"))
    assert done.code == 1
    assert "nothing runs it" in done.err


def test_list_of_a_bad_definitions_file_names_the_fault_and_lint(cli: CliRunner) -> None:
    (cli.folder / "bad.json").write_text('{"id": "x", "capabilities": []}')
    done = cli.run("list", "bad.json")
    assert done.code == 1
    assert "/name: give 'name' as a text" in done.err
    assert "toolhall lint bad.json" in done.err


def test_list_in_an_unknown_dialect_names_the_known_ones(cli: CliRunner) -> None:
    done = cli.run("list", "--dialect", "esperanto")
    assert done.code == 2
    assert all(name in done.err for name in DIALECTS)


def test_inspect_of_one_tool_prints_every_dialect(cli: CliRunner) -> None:
    done = cli.run("inspect", KIT, "Shop_sell", "--json").json()
    assert [done[key] for key in ("id", "level", "effect", "tags", "timeout")] == [
        "Shop.sell@2.1.0",
        4,
        "writes",
        ["trade"],
        5.0,
    ]
    assert done["annotations"] == {"readOnlyHint": False, "destructiveHint": False}
    assert list(done["views"]) == [
        *("mcp@2025-06-18", "mcp@2025-11-25", "mcp@2026-07-28"),
        *("machine", "hub", "oxp", "openapi", "openai", "anthropic", "gemini"),
    ]
    assert done["views"]["machine"]["securityLevel"] == 4
    assert done["views"]["hub"]["tool"]["capabilities"]["methods"][0]["name"] == "sell"
    assert done["views"]["oxp"]["id"] == "Shop.sell@2.1.0"
    assert "/shop/sell" in str(done["views"]["openapi"]["paths"]).lower()
    assert "/level" in [loss["path"] for loss in done["losses"]["oxp"]]
    assert "/level" not in [loss["path"] for loss in done["losses"]["machine"]]
    assert done["differences"] == []


def test_inspect_for_a_person_shows_differences_side_by_side(cli: CliRunner) -> None:
    done = cli.run("inspect", "Calculator.Add")
    assert done.code == 0
    assert all(part in done.out for part in ("Calculator.Add@1.0.0", "readOnlyHint=true", "The first number to add."))
    name, output = (next(line for line in done.out.splitlines() if part in line) for part in ("/name", "/outputSchema"))
    assert name.count("same") == 3
    assert output.count("{") == 3
    for dialect in ("machine", "hub", "oxp", "openapi", "openai", "anthropic", "gemini"):
        assert f" {dialect} ─" in done.out
    assert "cannot say: title, " in done.out


def test_inspect_of_all_tools_prints_each(cli: CliRunner) -> None:
    brief = cli.run("inspect", KIT)
    assert "published as Shop_burn; level 9; effect destroys" in brief.out
    whole = cli.run("inspect", KIT, "--json").json()
    assert {"echo", "Shop_burn"} < {tool["name"] for tool in whole}


def test_list_and_inspect_at_a_url_equal_the_file(cli: CliRunner) -> None:
    with cli.serve(KIT) as server:
        listed = cli.run("list", "--url", server.url, "--json").json()
        inspected = cli.run("inspect", "--url", f"{server.url}/mcp", "Shop.sell@2.1.0", "--json").json()
        old = cli.run("list", "--url", server.url, "--dialect", "mcp@2025-06-18").json()
    local = cli.run("inspect", KIT, "Shop_sell", "--json").json()
    assert inspected["views"] == local["views"]
    assert [tool["name"] for tool in listed] == [tool["name"] for tool in old]
    assert json.loads(json.dumps(inspected["effect"])) == "writes"
