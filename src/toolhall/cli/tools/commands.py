"""The commands of `toolhall tool`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "tool",
    "tools",
    "Look at what is registered in a hall, and change it.",
    "list --url http://127.0.0.1:8000",
    ("add:add", "Register definitions.", "add tools.json"),
    ("looking:list_tools", "List what is registered.", "list --state quarantined"),
    ("looking:show", "Show a tool, its document and what lint says of it.", "show Kit.tool@1.0.0"),
    ("states:activate", "Serve a tool.", "activate Kit.tool@1.0.0"),
    ("states:deactivate", "Serve a tool no longer.", "deactivate Kit.tool@1.0.0"),
    ("states:deprecate", "Say that a tool will go.", "deprecate Kit.tool@1.0.0 --sunset 2027-01-31"),
    ("states:rollback", "Go back to the version before.", "rollback Kit.tool --yes"),
    ("states:remove", "Forget a tool.", "remove Kit.tool@1.0.0 --url http://127.0.0.1:8000"),
    ("looking:history", "Show what happened.", "history Kit.tool@1.0.0"),
    ("looking:callers", "Show who calls a tool.", "callers Kit.tool"),
)
