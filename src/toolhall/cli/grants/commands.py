"""The commands of `toolhall grant`, each imported when it is used."""

from cyclopts import App, Group

_COMMANDS = (
    ("rules:add", "Permit callers tools, or forbid them.", "add ci 'Calendar.*'"),
    ("rules:list_grants", "List grants.", "list"),
    ("rules:remove", "Take a grant back.", "remove g_4fTz8aQ0xLm1"),
)


def grant_commands(group: Group, codes: str) -> App:
    """`toolhall grant ...`, for a group of commands; `codes` is what help says of exit codes."""
    app = App(
        name="grant",
        group=group,
        help="Say who may call what.",
        help_epilogue=f"Example: toolhall grant add ci 'Calendar.*'\n\n{codes}",
    )
    for home, says, example in _COMMANDS:
        app.command(
            f"toolhall.cli.grants.{home}",
            name=example.split()[0],
            help=says,
            help_epilogue=f"Example: toolhall grant {example}\n\n{codes}",
        )
    return app
