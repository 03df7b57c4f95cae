"""The commands of `toolhall factor`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "factor",
    "factors",
    "Manage what people prove themselves with when they approve a call.",
    "add totp local",
    ("changing:add", "Add an authenticator or a passkey.", "add totp local"),
    ("changing:list_factors", "List what people prove themselves with.", "list"),
    ("changing:remove", "Forget one.", "remove 4fTz8aQ0xLm1"),
)
