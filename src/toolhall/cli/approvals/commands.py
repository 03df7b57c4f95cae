"""The commands of `toolhall approval`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "approval",
    "approvals",
    "Say yes or no to calls that need a person.",
    "list --url http://127.0.0.1:8000",
    ("looking:list_approvals", "List what waits for you.", "list --url http://127.0.0.1:8000"),
    ("deciding:approve", "Let one call run.", "approve ID --url http://127.0.0.1:8000"),
    ("deciding:deny", "Do not let a call run.", "deny ID --url http://127.0.0.1:8000"),
)
