"""The commands of `toolhall tool`, each imported when it is used."""

from cyclopts import App, Group

_COMMANDS = (
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


def tool_commands(group: Group, codes: str) -> App:
    """`toolhall tool ...`, for a group of commands; `codes` is what help says of exit codes."""
    app = App(
        name="tool",
        group=group,
        help="Look at what is registered in a hall, and change it.",
        help_epilogue=f"Example: toolhall tool list --url http://127.0.0.1:8000\n\n{codes}",
    )
    for home, says, example in _COMMANDS:
        app.command(
            f"toolhall.cli.tools.{home}",
            name=example.split()[0],
            help=says,
            help_epilogue=f"Example: toolhall tool {example}\n\n{codes}",
        )
    return app
