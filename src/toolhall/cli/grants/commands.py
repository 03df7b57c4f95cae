"""The commands of `toolhall grant`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "grant",
    "grants",
    "Say who may call what.",
    "add ci 'Calendar.*'",
    ("rules:add", "Permit callers tools, or forbid them.", "add ci 'Calendar.*'"),
    ("rules:list_grants", "List grants.", "list"),
    ("rules:remove", "Take a grant back.", "remove g_4fTz8aQ0xLm1"),
)
