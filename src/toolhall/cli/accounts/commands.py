"""The commands of `toolhall account`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "account",
    "accounts",
    "Connect accounts that tools use for you.",
    "connect google --url http://127.0.0.1:8000",
    ("looking:list_providers", "List where accounts can be connected.", "providers"),
    ("looking:list_accounts", "List accounts, without their tokens.", "list --url http://127.0.0.1:8000"),
    ("connecting:connect", "Connect an account.", "connect google --scopes 'openid email' --device"),
    ("disconnecting:disconnect", "Revoke and forget an account.", "disconnect 4fTz8aQ0xLm1"),
)
