"""SECTIONS: every command of the program with its help text and an example, as the parser and the help page show them.

It imports nothing but `typing`, so that the help page does not wait for the parser.
"""

from typing import NamedTuple

SUMMARY = "One hall for every agent's tools: write a tool once, serve it in every dialect."
EXIT_CODES = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage; 78: serve may not listen there."
EPILOGUE = f"Every command takes --json and --help. {EXIT_CODES}"


class Command(NamedTuple):
    """A command; the first word of its example is its name."""

    function: str  # module and function, below toolhall.cli
    help_text: str
    example: str

    @property
    def name(self) -> str:
        """The word that names it."""
        return self.example.split()[0]


class CommandGroup(NamedTuple):
    """The commands that follow one word, such as `toolhall tool`; `example` is shown with the word alone."""

    name: str
    help_text: str
    example: str
    commands: tuple[Command, ...]


class Section(NamedTuple):
    """A part of the program's help page."""

    title: str
    example: str
    entries: tuple[Command | CommandGroup, ...]


def _group(name: str, help_text: str, example: str, *rows: tuple[str, str, str]) -> CommandGroup:
    """A CommandGroup from rows of function, help text and example; the functions are below cli.commands."""
    commands = tuple(Command(f"commands.{function}", text, words) for function, text, words in rows)
    return CommandGroup(name, help_text, example, commands)


_TOOL_COMMANDS = _group(
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
_UPSTREAM_COMMANDS = _group(
    "upstream",
    "Manage the MCP servers of others whose tools a hall offers.",
    "check Docs",
    ("upstreams:list_upstreams", "List upstreams with their state.", "list --url http://127.0.0.1:8000"),
    ("upstreams:show", "Show an upstream.", "show Docs"),
    ("upstreams:check", "Check an upstream step by step.", "check Docs"),
    ("upstreams:review", "Look at new and changed definitions, and serve them.", "review Docs"),
    ("upstreams:sync", "Fetch the lists of an upstream now.", "sync Docs --url http://127.0.0.1:8000"),
    ("upstreams:off", "Switch an upstream off.", "off Docs"),
    ("upstreams:on", "Switch an upstream on again.", "on Docs"),
    ("upstreams:remove", "Remove an upstream with its tools.", "remove Docs --yes"),
)
_KEY_COMMANDS = _group(
    "key",
    "Make, list and revoke API keys.",
    "create ci",
    ("access:create_key", "Make a key.", "create ci --expires 30d"),
    ("access:list_keys", "List keys.", "list"),
    ("access:revoke_key", "Revoke a key.", "revoke 4fTz8aQ0xLm1"),
)
_GRANT_COMMANDS = _group(
    "grant",
    "Manage which callers may call which tools.",
    "add ci 'Calendar.*'",
    ("access:add_grant", "Permit or forbid tools to callers.", "add ci 'Calendar.*'"),
    ("access:list_grants", "List grants.", "list"),
    ("access:remove_grant", "Remove a grant.", "remove g_4fTz8aQ0xLm1"),
)
_SECRET_COMMANDS = _group(
    "secret",
    "Manage the secrets that tools use.",
    "set TWILIO_API_KEY",
    ("secrets:set_secret", "Store a secret, typed or from standard input.", "set TWILIO_API_KEY < key.txt"),
    ("secrets:list_secrets", "List secrets, without their values.", "list"),
    ("secrets:remove", "Remove a secret, or all that no key opens.", "remove TWILIO_API_KEY"),
    ("secrets:rotate", "Encrypt every secret again.", "rotate --new"),
    ("secrets:key", "Print a new key for the vault.", "key"),
)
_ACCOUNT_COMMANDS = _group(
    "account",
    "Connect accounts that tools use for you.",
    "connect google --url http://127.0.0.1:8000",
    ("accounts:list_providers", "List the providers of accounts.", "providers"),
    ("accounts:list_accounts", "List accounts, without their tokens.", "list --url http://127.0.0.1:8000"),
    ("accounts:connect", "Connect an account.", "connect google --scopes 'openid email' --device"),
    ("accounts:disconnect", "Revoke and forget an account.", "disconnect 4fTz8aQ0xLm1"),
)
_TASK_COMMANDS = _group(
    "task",
    "Look at long calls, and cancel them.",
    "list --state open",
    ("tasks:list_tasks", "List everybody's long calls.", "list --state open --url http://127.0.0.1:8000"),
    ("tasks:show", "Show a long call.", "show 7f3a5b1c9d2e4f60817263544a5b6c7d"),
    ("tasks:cancel", "Cancel a long call.", "cancel ID --url http://127.0.0.1:8000"),
)
_APPROVAL_COMMANDS = _group(
    "approval",
    "Approve or deny calls that need a person.",
    "list --url http://127.0.0.1:8000",
    ("approvals:list_approvals", "List the calls that wait for you.", "list --url http://127.0.0.1:8000"),
    ("approvals:approve", "Approve one call.", "approve ID --url http://127.0.0.1:8000"),
    ("approvals:deny", "Deny a call.", "deny ID --url http://127.0.0.1:8000"),
)
_FACTOR_COMMANDS = _group(
    "factor",
    "Manage the authenticators and passkeys that people approve calls with.",
    "add totp local",
    ("factors:add", "Add an authenticator or a passkey.", "add totp local"),
    ("factors:list_factors", "List authenticators and passkeys.", "list"),
    ("factors:remove", "Remove an authenticator or a passkey.", "remove 4fTz8aQ0xLm1"),
)
_AUDIT_COMMANDS = _group(
    "audit",
    "Look at the record of all calls, and verify it.",
    "search --caller ci",
    ("audit:tail", "Show the newest records.", "tail -n 50 --follow"),
    ("audit:search", "Find records.", "search --caller ci --level 4 --since 2027-01-31"),
    ("audit:verify", "Check that nothing was changed.", "verify --checkpoints /mnt/elsewhere/audit.checkpoints"),
    ("audit:accept", "Accept an audit log that was cut off or replaced.", "accept --url http://127.0.0.1:8000"),
    ("audit:export", "Write all records as JSON lines.", "export --out audit.jsonl"),
)
SECTIONS = (
    Section(
        "Serve tools",
        "serve my_tools.py --reload",
        (
            Command("app:serve", "Serve tools over HTTP or stdio.", "serve my_tools.py --port 0 --json"),
            Command(
                "commands.install:install",
                "Write a server into an MCP client's file.",
                "install claude-desktop my_tools.py",
            ),
        ),
    ),
    Section(
        "Look at tools",
        "inspect my_tools.py get_weather",
        (
            Command("app:list_tools", "List tools, resources and prompts.", "list --url http://127.0.0.1:8000"),
            Command(
                "app:inspect", "Show everything about tools, resources and prompts.", "inspect my_tools.py get_weather"
            ),
        ),
    ),
    Section(
        "Call tools",
        "call get_weather location=Oslo",
        (
            Command("app:call", "Call one tool, in process or over MCP.", "call Calculator_Add a=1 b=2.5"),
            Command("commands.read:read", "Read a resource.", "read shop://orders/17 shop.py --out order.json"),
            Command("commands.prompt:prompt", "Get the messages of a prompt.", "prompt Shop_refund number=17 shop.py"),
        ),
    ),
    Section(
        "Check definitions",
        "lint tools.json",
        (
            Command(
                "commands.convert:convert", "Convert definitions to another dialect.", "convert tools.json --to oxp"
            ),
            Command("commands.lint:lint", "List what is wrong with definitions.", "lint tools.json more.jsonl"),
            Command("commands.diff:diff", "Name what changed, and check the version.", "diff old.json new.json"),
            Command("commands.lock:lock", "Write the digests of tools to a lock.", "lock my_tools.py --out tools.lock"),
            Command(
                "commands.lock:verify", "Check tools against a lock.", "verify tools.lock --url http://127.0.0.1:8000"
            ),
            Command(
                "commands.replay:replay", "Run recorded calls, and compare the answers.", "replay data my_tools.py"
            ),
        ),
    ),
    Section(
        "Make tools",
        "new my_tools",
        (Command("commands.new:new", "Start a toolkit with one tool and one test.", "new my_tools"),),
    ),
    Section(
        "Manage a hall",
        "tool add tools.json",
        (
            Command(
                "commands.add:add",
                "Add an MCP server whose tools are offered.",
                "add https://mcp.example.com/mcp --name Docs",
            ),
            _UPSTREAM_COMMANDS,
            _TOOL_COMMANDS,
            _KEY_COMMANDS,
            _GRANT_COMMANDS,
            _SECRET_COMMANDS,
            _ACCOUNT_COMMANDS,
            _TASK_COMMANDS,
            _APPROVAL_COMMANDS,
            _FACTOR_COMMANDS,
            _AUDIT_COMMANDS,
        ),
    ),
)
