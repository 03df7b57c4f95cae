"""Every command and every exit code once in a process of its own: it does there what it does in the tests' process."""

import re
import shutil
from pathlib import Path

import pytest

from tests.harness.cli import KIT, CliResult, CliRunner
from toolhall.cli.app import app

VECTORS = Path(__file__).parents[1] / "vectors"
SHOP = str(Path(__file__).parent / "shop.py")
CALCULATOR = str(VECTORS / "machine/calculator.json")
GMAIL = str(VECTORS / "oxp/gmail_getemails.json")
# Words, exit code, and a part of what is printed.
COMMANDS: list[tuple[list[str], int, str]] = [
    (["install", "claude-desktop", KIT, "--print"], 0, '"mcpServers"'),
    (["list", KIT, "--json"], 0, "Shop.sell@2.1.0"),
    (["inspect", KIT, "Shop_sell"], 0, "published as    Shop_sell"),
    (["call", "echo", "text=a", KIT, "--json"], 0, '"isError":false'),
    (["read", "shop://orders/17", SHOP], 0, '"what":"tea"'),
    (["prompt", "Shop_greet", "name=Ada", SHOP], 0, "Say hello to Ada."),
    (["convert", CALCULATOR, "--to", "oxp"], 0, '"id": "calculator.add@1.0.0"'),
    (["lint", CALCULATOR], 0, "0 errors and 0 warnings in 1 document"),
    (["diff", CALCULATOR, CALCULATOR], 0, "no changes"),
    (["lock", KIT, "--out", "other.lock"], 0, "locked 12 tools in other.lock"),
    (["verify", "tools.lock", KIT], 0, "12 tools as locked in tools.lock"),
    (["replay", "data", KIT], 2, "there is no file data/recordings.jsonl"),
    (["new", "my_tools"], 0, "Made my_tools/"),
    (["add", "https://mcp.example.com/mcp", "--dry-run"], 0, "example: https://mcp.example.com/mcp"),
    (["upstream", "list"], 0, "there are no upstreams"),
    (["upstream", "show", "none"], 1, "there is no such upstream"),
    (["upstream", "check", "none"], 1, "there is no such upstream"),
    (["upstream", "review", "none"], 1, "there is no such upstream"),
    (["upstream", "sync", "none"], 1, "there is no such upstream"),
    (["upstream", "off", "none"], 1, "there is no such upstream"),
    (["upstream", "on", "none"], 1, "there is no such upstream"),
    (["upstream", "remove", "none"], 1, "there is no such upstream"),
    (["tool", "add", GMAIL], 0, "Gmail.GetEmails@1.2.0 is quarantined"),
    (["tool", "list"], 0, "calculator.subtract@1.0.0  quarantined"),
    (["tool", "show", "calculator.add"], 0, "published as  calculator_add"),
    (["tool", "activate", "calculator.subtract", "--yes"], 0, "calculator.subtract@1.0.0 is active"),
    (["tool", "deactivate", "calculator.add"], 0, "calculator.add@1.0.0 is inactive"),
    (["tool", "deprecate", "calculator.add", "--sunset", "2099-01-01"], 0, "gone from 2099-01-01 on"),
    (["tool", "rollback", "calculator.add"], 1, "there is nobody to ask"),
    (["tool", "remove", "calculator.subtract", "--yes"], 0, "calculator.subtract@1.0.0 is removed"),
    (["tool", "history", "calculator.add"], 0, "registered"),
    (["tool", "callers", "calculator.add"], 0, "nobody has called it"),
    (["key", "create", "two"], 0, "This is the key"),
    (["key", "list"], 0, "tools:*"),
    (["key", "revoke", "none"], 1, "there is no key of this id"),
    (["grant", "add", "ci", "calculator.*"], 0, "ci may call calculator.*"),
    (["grant", "list"], 0, "permit  ci       *"),
    (["grant", "remove", "none"], 1, "there is no grant of this id"),
    (["secret", "set", "TOKEN"], 1, "there was no value"),
    (["secret", "list"], 0, "TOKEN  everybody  good"),
    (["secret", "remove", "TOKEN", "--yes"], 0, "TOKEN is removed"),
    (["secret", "rotate"], 0, "1 secret sealed anew"),
    (["secret", "key"], 0, "Put it into TOOLHALL_VAULT_KEY"),
    (["account", "providers"], 0, "no provider is set up"),
    (["account", "list"], 0, "no account is connected"),
    (["account", "connect", "acme"], 2, "start 'toolhall serve' and give --url"),
    (["account", "disconnect", "none", "--yes"], 1, "there is no such account"),
    (["task", "list"], 0, "there are no such tasks"),
    (["task", "show", "none"], 1, "there is no such task"),
    (["task", "cancel", "none"], 1, "there is no such task"),
    (["approval", "list"], 0, "nothing waits for you"),
    (["approval", "approve", "none"], 1, "nothing with this id waits for you"),
    (["approval", "deny", "none"], 1, "there is no such approval"),
    (["factor", "add", "totp"], 2, "parameter PERSON requires an argument"),
    (["factor", "list"], 0, "nobody can approve a call by a page yet"),
    (["factor", "remove", "none"], 1, "there is no such factor"),
    (["audit", "tail"], 0, "register calculator"),
    (["audit", "search", "--caller", "nobody"], 0, "no record fits"),
    (["audit", "verify"], 0, "all as they were written"),
    (["audit", "accept"], 0, "nothing to accept"),
    (["audit", "export", "--out", "audit.jsonl"], 0, "records written to audit.jsonl"),
]
OTHERS: list[tuple[list[str], int, str]] = [
    ([], 0, "Usage: toolhall COMMAND"),
    (["--version"], 0, "toolhall 0.1.0"),
    (["nope"], 2, 'Unknown command "nope"'),
    (["serve", "--host", "0.0.0.0"], 78, "use --profile server"),
]
# Times, durations, keys, ids and hints differ from run to run.
_VARYING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|[\d.]+ ms|tk_[\w-]+|g_[\w-]{12}|the key [\w-]{12}|[\w+/]{43}=")


def _name(part: object) -> str | None:
    return "-".join(Path(word).name for word in part[:2]) or "nothing" if isinstance(part, list) else None


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hall that has tools, a key, a grant and a secret, and with a lock."""
    cli = CliRunner(tmp_path_factory.mktemp("prepared"))
    for words in (
        ["tool", "add", CALCULATOR],
        ["tool", "activate", "calculator.add", "--yes"],
        ["key", "create", "ci"],
        ["grant", "add", "ci", "*"],
    ):
        assert cli.run(*words).code == 0
    assert cli.run("secret", "set", "TOKEN", text="hunter2-hunter2").code == 0
    assert cli.run("lock", KIT, "--out", "tools.lock").code == 0
    return cli.folder


@pytest.mark.parametrize(("words", "code", "said"), [*COMMANDS, *OTHERS], ids=_name)
def test_command_in_a_process_matches_the_command_in_this_one(
    tmp_path: Path, prepared: Path, words: list[str], code: int, said: str
) -> None:
    cli = CliRunner(tmp_path / "copy")
    results = []
    for run in (cli.run, cli.run_process):
        shutil.copytree(prepared, cli.folder)
        results.append(run(*words))
        shutil.rmtree(cli.folder)
    here, there = results
    assert there.code == code, there
    assert said in there.out + there.err
    assert comparable(here) == comparable(there)


def test_table_of_processes_names_every_command() -> None:
    top = [name for name in app if not name.startswith("-")]
    every = {name: [each for each in app[name] if not each.startswith("-")] for name in top}
    wanted = {f"{name} {below}".strip() for name, inner in every.items() for below in (inner or [""])}
    known = {" ".join(words[: 2 if every[words[0]] else 1]) for words, _, _ in COMMANDS}
    assert known | {"serve"} == wanted


def comparable(result: CliResult) -> CliResult:
    return CliResult(result.code, _VARYING.sub("…", result.out), _VARYING.sub("…", result.err))
