"""The cyclopts application: every command and command group with its help text, imported when it is used."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from cyclopts import App, Group, Parameter
from cyclopts.exceptions import CycloptsError, UnusedCliTokensError

from toolhall.cli.entry import ServeOptions, version_text
from toolhall.cli.errors import UsageError


class CommandSpec(msgspec.Struct, frozen=True):
    """A command of a group; the first word of its example is its name."""

    function: str  # module and function, below toolhall.cli.commands
    help_text: str
    example: str


class CommandGroup(msgspec.Struct, frozen=True):
    """The commands that follow one word, such as `toolhall tool`; `example` is shown with the word alone."""

    name: str
    help_text: str
    example: str
    commands: tuple[CommandSpec, ...]


def command_group(name: str, help_text: str, example: str, *rows: tuple[str, str, str]) -> CommandGroup:
    """A CommandGroup from rows of function, help text and example."""
    return CommandGroup(name, help_text, example, tuple(CommandSpec(*row) for row in rows))


def add_command_groups(app: App, group: Group, exit_codes: str, groups: Iterable[CommandGroup]) -> None:
    """Register the groups; `exit_codes` is the text on exit codes below every help page."""
    for each in groups:
        inner = App(
            name=each.name,
            group=group,
            help=each.help_text,
            help_epilogue=_epilogue(each.name, each.example, exit_codes),
        )
        for command in each.commands:
            inner.command(
                f"toolhall.cli.commands.{command.function}",
                name=command.example.split()[0],
                help=command.help_text,
                help_epilogue=_epilogue(each.name, command.example, exit_codes),
            )
        app.command(inner)


def _epilogue(group: str, example: str, exit_codes: str) -> str:
    return f"Example: toolhall {group} {example}\n\n{exit_codes}"


TOOL_COMMANDS = command_group(
    "tool",
    "Manage the tools that are registered in a hall.",
    "list --url http://127.0.0.1:8000",
    ("tools:add", "Register definitions.", "add tools.json"),
    ("tools:list_tools", "List registered tools.", "list --state quarantined"),
    ("tools:show", "Show a tool, its document and its findings.", "show Kit.tool@1.0.0"),
    ("tools:activate", "Serve a tool.", "activate Kit.tool@1.0.0"),
    ("tools:deactivate", "Stop serving a tool.", "deactivate Kit.tool@1.0.0"),
    ("tools:deprecate", "Mark a tool as deprecated.", "deprecate Kit.tool@1.0.0 --sunset 2027-01-31"),
    ("tools:rollback", "Roll back to the previous version.", "rollback Kit.tool --yes"),
    ("tools:remove", "Remove a tool.", "remove Kit.tool@1.0.0 --url http://127.0.0.1:8000"),
    ("tools:history", "Show the history of tools.", "history Kit.tool@1.0.0"),
    ("tools:callers", "Show who calls a tool.", "callers Kit.tool"),
)
KEY_COMMANDS = command_group(
    "key",
    "Make, list and revoke API keys.",
    "create ci",
    ("access:create_key", "Make a key.", "create ci --expires 30d"),
    ("access:list_keys", "List keys.", "list"),
    ("access:revoke_key", "Revoke a key.", "revoke 4fTz8aQ0xLm1"),
)
GRANT_COMMANDS = command_group(
    "grant",
    "Manage which callers may call which tools.",
    "add ci 'Calendar.*'",
    ("access:add_grant", "Permit or forbid tools to callers.", "add ci 'Calendar.*'"),
    ("access:list_grants", "List grants.", "list"),
    ("access:remove_grant", "Remove a grant.", "remove g_4fTz8aQ0xLm1"),
)
SECRET_COMMANDS = command_group(
    "secret",
    "Manage the secrets that tools use.",
    "set TWILIO_API_KEY",
    ("secrets:set_secret", "Store a secret, typed or from standard input.", "set TWILIO_API_KEY < key.txt"),
    ("secrets:list_secrets", "List secrets, without their values.", "list"),
    ("secrets:remove", "Remove a secret, or all that no key opens.", "remove TWILIO_API_KEY"),
    ("secrets:rotate", "Encrypt every secret again.", "rotate --new"),
    ("secrets:key", "Print a new key for the vault.", "key"),
)
ACCOUNT_COMMANDS = command_group(
    "account",
    "Connect accounts that tools use for you.",
    "connect google --url http://127.0.0.1:8000",
    ("accounts:list_providers", "List the providers of accounts.", "providers"),
    ("accounts:list_accounts", "List accounts, without their tokens.", "list --url http://127.0.0.1:8000"),
    ("accounts:connect", "Connect an account.", "connect google --scopes 'openid email' --device"),
    ("accounts:disconnect", "Revoke and forget an account.", "disconnect 4fTz8aQ0xLm1"),
)
APPROVAL_COMMANDS = command_group(
    "approval",
    "Approve or deny calls that need a person.",
    "list --url http://127.0.0.1:8000",
    ("approvals:list_approvals", "List the calls that wait for you.", "list --url http://127.0.0.1:8000"),
    ("approvals:approve", "Approve one call.", "approve ID --url http://127.0.0.1:8000"),
    ("approvals:deny", "Deny a call.", "deny ID --url http://127.0.0.1:8000"),
)
FACTOR_COMMANDS = command_group(
    "factor",
    "Manage the authenticators and passkeys that people approve calls with.",
    "add totp local",
    ("factors:add", "Add an authenticator or a passkey.", "add totp local"),
    ("factors:list_factors", "List authenticators and passkeys.", "list"),
    ("factors:remove", "Remove an authenticator or a passkey.", "remove 4fTz8aQ0xLm1"),
)
AUDIT_COMMANDS = command_group(
    "audit",
    "Look at the record of all calls, and verify it.",
    "search --caller ci",
    ("audit:tail", "Show the newest records.", "tail -n 50 --follow"),
    ("audit:search", "Find records.", "search --caller ci --level 4 --since 2027-01-31"),
    ("audit:verify", "Check that nothing was changed.", "verify --checkpoints /mnt/elsewhere/audit.checkpoints"),
    ("audit:accept", "Accept an audit log that was cut off or replaced.", "accept --url http://127.0.0.1:8000"),
    ("audit:export", "Write all records as JSON lines.", "export --out audit.jsonl"),
)
_SERVE_DEFAULTS = ServeOptions()


def serve(*targets: str, options: Annotated[ServeOptions, Parameter(name="*")] = _SERVE_DEFAULTS) -> int:
    """Serve tools over HTTP, or over standard input and output.

    Parameters
    ----------
    targets
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    from toolhall.cli.serve import run_serve  # lazy: the settings, for serving only

    return run_serve(targets, options)


_EXIT_CODES = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage; 78: serve may not listen there."
app = App(
    name="toolhall",
    help="One hall for every agent's tools: write a tool once, serve it in every dialect.",
    help_epilogue=f"Every command takes --json and --help. {_EXIT_CODES}",
    help_format="plaintext",
    version=version_text,
    suppress_keyboard_interrupt=False,
    # Flags have no `--no-...` form, and the default "off" is not shown.
    default_parameter=Parameter(negative="", show_default=lambda value: value or None),
)
_SERVE_GROUP = Group("Serve tools", help="Example: toolhall serve my_tools.py --reload", sort_key=1)
_INSPECT_GROUP = Group("Look at tools", help="Example: toolhall inspect my_tools.py get_weather", sort_key=2)
_CALL_GROUP = Group("Call tools", help="Example: toolhall call get_weather location=Oslo", sort_key=3)
_CHECK_GROUP = Group("Check definitions", help="Example: toolhall lint tools.json", sort_key=4)
_CREATE_GROUP = Group("Make tools", help="Example: toolhall new my_tools", sort_key=5)
_MANAGE_GROUP = Group("Manage a hall", help="Example: toolhall tool add tools.json", sort_key=6)
app["--help"].group = app["--version"].group = Group("Options", sort_key=9)
for _function, _group, _help, _example in (
    ("app:serve", _SERVE_GROUP, "Serve tools over HTTP or stdio.", "serve my_tools.py --port 0 --json"),
    (
        "commands.install:install",
        _SERVE_GROUP,
        "Write a server into an MCP client's file.",
        "install claude-desktop my_tools.py",
    ),
    ("commands.list:list_tools", _INSPECT_GROUP, "List tools.", "list --url http://127.0.0.1:8000"),
    ("commands.list:inspect", _INSPECT_GROUP, "Show everything about tools.", "inspect my_tools.py get_weather"),
    ("commands.call:call", _CALL_GROUP, "Call one tool, in process or over MCP.", "call Calculator_Add a=1 b=2.5"),
    (
        "commands.convert:convert",
        _CHECK_GROUP,
        "Convert definitions to another dialect.",
        "convert tools.json --to oxp",
    ),
    ("commands.lint:lint", _CHECK_GROUP, "List what is wrong with definitions.", "lint tools.json more.jsonl"),
    ("commands.diff:diff", _CHECK_GROUP, "Name what changed, and check the version.", "diff old.json new.json"),
    ("commands.lock:lock", _CHECK_GROUP, "Write the digests of tools to a lock.", "lock my_tools.py --out tools.lock"),
    (
        "commands.lock:verify",
        _CHECK_GROUP,
        "Check tools against a lock.",
        "verify tools.lock --url http://127.0.0.1:8000",
    ),
    ("commands.replay:replay", _CHECK_GROUP, "Run recorded calls, and compare the answers.", "replay data my_tools.py"),
    ("commands.new:new", _CREATE_GROUP, "Start a toolkit with one tool and one test.", "new my_tools"),
):
    app.command(
        f"toolhall.cli.{_function}",
        name=_example.split()[0],
        group=_group,
        help=_help,
        help_epilogue=f"Example: toolhall {_example}\n\n{_EXIT_CODES}",
    )
add_command_groups(
    app,
    _MANAGE_GROUP,
    _EXIT_CODES,
    (
        TOOL_COMMANDS,
        KEY_COMMANDS,
        GRANT_COMMANDS,
        SECRET_COMMANDS,
        ACCOUNT_COMMANDS,
        APPROVAL_COMMANDS,
        FACTOR_COMMANDS,
        AUDIT_COMMANDS,
    ),
)


def run_app(words: Sequence[str]) -> int:
    """Parse the words, run the command they name, and return its exit code."""
    try:
        code = app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        command = "".join(f"{word} " for word in error.command_chain or ())
        usage_error = UsageError(f"{_error_text(error)} 'toolhall {command}--help'")
        if _serves_stdio(words):
            from toolhall.cli.serve import reply_startup_error  # lazy: only where an MCP client waits

            reply_startup_error(usage_error.message)
        raise usage_error from None
    return code if isinstance(code, int) else 0


def _serves_stdio(words: Sequence[str]) -> bool:
    """Whether an MCP client probably waits for a response on stdout; the command line itself cannot be parsed."""
    other = any(word.partition("=")[0] in ("--dialect", "--join") for word in words)
    return words[:1] == ["serve"] and "--stdio" in words and not other


def _error_text(error: CycloptsError) -> str:
    """The error in one sentence, up to the word `see`."""
    match error:
        case UnusedCliTokensError(unused_tokens=[*words]):
            return f"too many words: {' '.join(words)}; see"
        case _:
            text = str(error).replace(", ...", " and more").rstrip(". ")
            return f"{text} See" if text.endswith("?") else f"{text}; see"
