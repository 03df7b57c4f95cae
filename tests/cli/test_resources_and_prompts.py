"""`lock`, `verify`, `diff`, `convert`, `lint`, `tool` and `replay` with resources, templates and prompts."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_remote import Stub, stub
from tests.harness.cli import CliRunner

SHOP = '''
from toolhall import Toolkit, prompt, resource, tool

class Shop(Toolkit, version="1.0.0"):
    """Orders and letters."""
    @tool(effect="reads")
    def find(self, number: int) -> str:
        """Find an order."""
        return str(number)

    @resource("shop://policy")
    def policy(self) -> str:
        """Our rules."""
        return "Rules"

    @resource("shop://orders/{number}{?lang}")
    def order(self, number: int, lang: str = "en") -> str:
        """One order."""
        return f"Order {number} in {lang}"

    @prompt
    def letter(self, number: int, tones: list[str] | None = None) -> str:
        """Draft a letter."""
        return f"A letter about {number}: {tones}"
'''
RESOURCE = {"uri": "shop://policy", "name": "Our policy", "description": "Our rules for refunds.", "size": 7}
TEMPLATE = {"uriTemplate": "shop://orders/{number}", "name": "order", "description": "One order, as JSON."}
PROMPT = {"name": "letter", "description": "Drafts a letter."}
ARGUMENT = {"name": "number", "description": "The number of the order", "required": True}


@pytest.fixture
def shop(cli: CliRunner) -> Path:
    """A file that a test may change."""
    file = cli.folder / "shop.py"
    file.write_text(SHOP)
    return file


def save(cli: CliRunner, name: str, document: Any) -> str:
    (cli.folder / name).write_text(json.dumps(document))
    return name


def test_lock_and_verify_cover_every_kind(cli: CliRunner, shop: Path) -> None:
    assert cli.run("lock", "shop.py").code == 0
    locked = json.loads((cli.folder / "tools.lock").read_text())["tools"]
    assert list(locked) == ["Shop.find@1.0.0", "Shop.letter@1.0.0", "Shop.order@1.0.0", "Shop.policy@1.0.0"]
    assert cli.run("verify", "tools.lock", "shop.py").code == 0
    changed = SHOP.replace("shop://orders/", "shop://order/").replace("Draft a letter", "Draft another letter")
    shop.write_text(changed)
    found = cli.run("verify", "tools.lock", "shop.py", "--json")
    assert (found.code, found.json()["drifts"]) == (
        1,
        [{"tool": "Shop.letter@1.0.0", "kind": "shown"}, {"tool": "Shop.order@1.0.0", "kind": "both"}],
    )


def test_lock_of_a_server_asks_for_what_it_declares(cli: CliRunner) -> None:
    pages = {"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
    listed: dict[str, list[Any]] = {"resources": [RESOURCE], "resourceTemplates": [TEMPLATE], "prompts": [PROMPT]}

    def answers(http: Stub, message: dict[str, Any]) -> None:
        match message:
            case {"method": "initialize"}:
                capabilities: dict[str, Any] = {"resources": {}, "prompts": {}}
                http.result(message, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {}})
            case {"method": "tools/list"}:
                http.result(message, {"tools": []})
            case {"method": str(method)} if method in pages:
                http.result(message, {pages[method]: listed[pages[method]]})
            case {"id": _}:
                http.reply(400, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}}')
            case _:
                http.reply(202)

    with stub(answers) as url:
        assert cli.run("lock", "--url", url).code == 0
        locked = json.loads((cli.folder / "tools.lock").read_text())["tools"]
        assert list(locked) == ["prompts/letter", "shop://orders/{number}", "shop://policy"]
        assert cli.run("verify", "tools.lock", "--url", url).code == 0
        listed["prompts"] = [PROMPT | {"arguments": [ARGUMENT]}]
        assert cli.run("verify", "tools.lock", "--url", url, "--json").json()["drifts"] == [
            {"tool": "prompts/letter", "kind": "both"}
        ]


def test_diff_of_lists_names_each_change(cli: CliRunner) -> None:
    before = save(cli, "before.json", {"prompts": [PROMPT], "nextCursor": "x"})
    after = save(cli, "after.json", {"prompts": [PROMPT | {"arguments": [ARGUMENT]}, {"name": "other"}]})
    found = cli.run("diff", before, after, "--json")
    assert (found.code, found.json()["changes"]) == (
        1,
        [
            {
                "kind": "breaking",
                "path": "/prompts/letter/arguments/number",
                "reason": "the new argument 'number' is required",
            },
            {"kind": "feature", "path": "/prompts/other", "reason": "the prompt was added"},
        ],
    )
    one = save(cli, "one.json", TEMPLATE)
    two = save(cli, "two.json", TEMPLATE | {"uriTemplate": "shop://orders/{number}{?lang}"})
    assert "the query variable 'lang' was added" in cli.run("diff", one, two).out
    assert "the query variable 'lang' was removed" in cli.run("diff", two, one).out


@pytest.mark.parametrize("dialect", ["oxp", "hub", "machine", "function", "mcp@2025-06-18"])
@pytest.mark.parametrize(
    "document",
    [
        {"resources": [RESOURCE]},
        {"resourceTemplates": [TEMPLATE]},
        {"prompts": [PROMPT, {"name": "other", "arguments": [ARGUMENT]}]},
        [RESOURCE, TEMPLATE, PROMPT | {"arguments": [ARGUMENT]}],
    ],
    ids=["resources", "templates", "prompts", "all"],
)
def test_convert_to_another_dialect_and_back_is_exact(cli: CliRunner, dialect: str, document: Any) -> None:
    there = cli.run("convert", save(cli, "given.json", document), "--to", dialect, "--json")
    kinds = {"resources", "prompts"} if isinstance(document, list) else {next(iter(document))}
    said = " ".join(loss["reason"] for loss in there.json()["losses"] if loss["path"] == "")
    assert all(kind.replace("resourceTemplates", "resources") in said for kind in kinds) != dialect.startswith("mcp")
    cli.run("convert", "given.json", "--to", dialect, "--out", "there.json")
    back = cli.run("convert", "there.json", "--from", dialect, "--to", "mcp")
    assert json.loads(back.out) == document


def test_convert_to_a_model_api_leaves_them_out(cli: CliRunner) -> None:
    found = cli.run("convert", save(cli, "given.json", [RESOURCE, TEMPLATE]), "--to", "openai", "--json").json()
    assert found["documents"] == []
    assert found["losses"] == [
        {"index": index, "path": "", "reason": "openai has no resources: it is left out"} for index in range(2)
    ]


def test_lint_finds_what_is_wrong_with_them(cli: CliRunner) -> None:
    bad = save(cli, "bad.json", {"resources": [RESOURCE | {"uri": "https://me:pw@host/x"}]})
    found = cli.run("lint", bad, "--json")
    assert found.code == 1
    assert {each["rule"] for each in found.json()} >= {"resource/uri-credentials", "resource/uri-fetchable"}
    assert cli.run("lint", save(cli, "good.json", {"prompts": [PROMPT]})).code == 0


def test_tool_commands_work_by_id_for_every_kind(cli: CliRunner) -> None:
    meta = {"_meta": {"dev.toolhall/id": "Shop.letter@1.0.0"}}
    added = cli.run(
        "tool", "add", save(cli, "prompts.json", {"prompts": [PROMPT | {"name": "Shop_letter"} | meta]}), "--json"
    )
    (record,) = added.json()["tools"]
    assert (record["id"], record["state"]) == ("Shop.letter@1.0.0", "quarantined")
    assert "Drafts a letter." in cli.run("tool", "show", "Shop.letter").out
    assert cli.run("tool", "activate", "Shop.letter", "--yes").code == 0
    assert cli.run("tool", "deprecate", "Shop.letter", "--sunset", "2999-01-01").code == 0
    assert cli.run("tool", "deactivate", "Shop.letter").code == 0
    assert cli.run("tool", "history", "Shop.letter@1.0.0").out.count("\n") >= 4
    assert cli.run("tool", "remove", "Shop.letter@1.0.0", "--yes").code == 0


def test_replay_reads_and_prompts_again(cli: CliRunner, shop: Path) -> None:
    stated = {"time": 1.0, "dialect": "mcp", "outcome": "ok"}
    rows = [
        ("Shop.order", {"number": 7, "lang": "no"}, "Order 7 in no"),
        ("Shop.policy", {}, "Rules"),
        ("Shop.letter", {"number": 7, "tones": ["kind"]}, "A letter about 7: ['kind']"),
    ]
    (cli.folder / "recordings.jsonl").write_text(
        "".join(
            json.dumps({**stated, "tool": f"{name}@1.0.0", "arguments": given, "answer": {"content": [text]}}) + "\n"
            for name, given, text in rows
        )
    )
    done = cli.run("replay", "recordings.jsonl", "shop.py", "--json")
    assert (done.code, done.json()["same"], done.json()["gone"]) == (0, 3, [])
    shop.write_text(SHOP.replace('"Rules"', '"Other rules"'))
    done = cli.run("replay", "recordings.jsonl", "shop.py", "--json")
    assert (done.json()["same"], [each["tool"] for each in done.json()["changed"]]) == (2, ["Shop.policy"])
