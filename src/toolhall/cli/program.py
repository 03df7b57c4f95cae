"""The commands of `toolhall` in groups, each imported when it is used."""

from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, Group, Parameter
from cyclopts.exceptions import CycloptsError, UnusedCliTokensError

from toolhall.cli.accounts.commands import COMMANDS as ACCOUNT
from toolhall.cli.approvals.commands import COMMANDS as APPROVAL
from toolhall.cli.audit.commands import COMMANDS as AUDIT
from toolhall.cli.factors.commands import COMMANDS as FACTOR
from toolhall.cli.failure import WrongUsage
from toolhall.cli.grants.commands import COMMANDS as GRANT
from toolhall.cli.keys.commands import COMMANDS as KEY
from toolhall.cli.secrets.commands import COMMANDS as SECRET
from toolhall.cli.serving.start import tell_stdio_client
from toolhall.cli.subcommands import add_subcommands
from toolhall.cli.tools.commands import COMMANDS as TOOL


def _version() -> str:
    return f"toolhall {version('toolhall')}"


_CODES = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage; 78: serve may not listen there."

app = App(
    name="toolhall",
    help="One hall for every agent's tools: write a tool once, serve it in every dialect.",
    help_epilogue=f"Every command takes --json and --help. {_CODES}",
    help_format="plaintext",
    version=_version,
    suppress_keyboard_interrupt=False,
    # Flags have no `--no-...` twin, and a default that means "off" says nothing.
    default_parameter=Parameter(negative="", show_default=lambda value: value or None),
)

_SERVE = Group("Serve tools", help="Example: toolhall serve my_tools.py --reload", sort_key=1)
_LOOK = Group("Look at tools", help="Example: toolhall inspect my_tools.py get_weather", sort_key=2)
_CALL = Group("Call tools", help="Example: toolhall call get_weather location=Oslo", sort_key=3)
_CHECK = Group("Check definitions", help="Example: toolhall lint tools.json", sort_key=4)
_MAKE = Group("Make tools", help="Example: toolhall new my_tools", sort_key=5)
_MANAGE = Group("Manage a hall", help="Example: toolhall tool add tools.json", sort_key=6)
app["--help"].group = app["--version"].group = Group("Options", sort_key=9)

for _home, _group, _help, _example in (
    ("serve:serve", _SERVE, "Serve tools over HTTP or stdio.", "serve my_tools.py --port 0 --json"),
    ("install:install", _SERVE, "Write a server into an MCP client's file.", "install claude-desktop my_tools.py"),
    ("listing:list_tools", _LOOK, "List tools.", "list --url http://127.0.0.1:8000"),
    ("inspection:inspect", _LOOK, "Show everything about tools.", "inspect my_tools.py get_weather"),
    ("call:call", _CALL, "Call one tool, in process or over MCP.", "call Calculator_Add a=1 b=2.5"),
    ("convert:convert", _CHECK, "Convert definitions to another dialect.", "convert tools.json --to oxp"),
    ("lint:lint", _CHECK, "List what is wrong with definitions.", "lint tools.json more.jsonl"),
    ("diff:diff", _CHECK, "Name what changed, and check the version.", "diff old.json new.json"),
    ("lock:lock", _CHECK, "Write the digests of tools to a lock.", "lock my_tools.py --out tools.lock"),
    ("verify:verify", _CHECK, "Check tools against a lock.", "verify tools.lock --url http://127.0.0.1:8000"),
    ("replay:replay", _CHECK, "Run recorded calls, and compare the answers.", "replay data my_tools.py"),
    ("new:new", _MAKE, "Start a toolkit with one tool and one test.", "new my_tools"),
):
    app.command(
        f"toolhall.cli.{_home}",
        name=_example.split()[0],
        group=_group,
        help=_help,
        help_epilogue=f"Example: toolhall {_example}\n\n{_CODES}",
    )
add_subcommands(app, _MANAGE, _CODES, (TOOL, KEY, GRANT, SECRET, ACCOUNT, APPROVAL, FACTOR, AUDIT))


def run(words: Sequence[str]) -> int:
    """Parse the words, run the command they name, and return its exit code."""
    try:
        code = app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        command = "".join(f"{word} " for word in error.command_chain or ())
        wrong = WrongUsage(f"{_said(error)} 'toolhall {command}--help'")
        if _serves_stdio(words):
            tell_stdio_client(wrong.message)
        raise wrong from None
    return code if isinstance(code, int) else 0


def _serves_stdio(words: Sequence[str]) -> bool:
    """Whether an MCP client waits for an answer on standard output, as far as a wrong command line can tell."""
    other = any(word.partition("=")[0] in ("--dialect", "--join") for word in words)
    return words[:1] == ["serve"] and "--stdio" in words and not other


def _said(error: CycloptsError) -> str:
    """What was wrong, up to the word `see`."""
    match error:
        case UnusedCliTokensError(unused_tokens=[*words]):
            return f"too many words: {' '.join(words)}; see"
        case _:
            said = str(error).replace(", ...", " and more").rstrip(". ")
            return f"{said} See" if said.endswith("?") else f"{said}; see"
