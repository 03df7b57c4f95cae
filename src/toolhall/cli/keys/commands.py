"""The commands of `toolhall key`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "key",
    "keys",
    "Make, list and revoke API keys.",
    "create ci",
    ("changing:create", "Make a key.", "create ci --expires 30d"),
    ("looking:list_keys", "List keys.", "list"),
    ("changing:revoke", "Make a key good for nothing.", "revoke 4fTz8aQ0xLm1"),
)
