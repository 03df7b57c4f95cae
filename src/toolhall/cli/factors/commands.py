"""The commands of `toolhall factor`, each imported when it is used."""

from cyclopts import App, Group

_COMMANDS = (
    ("changing:add", "Add an authenticator or a passkey.", "add totp local"),
    ("changing:list_factors", "List what people prove themselves with.", "list"),
    ("changing:remove", "Forget one.", "remove 4fTz8aQ0xLm1"),
)


def factor_commands(group: Group, codes: str) -> App:
    """`toolhall factor ...`, for a group of commands; `codes` is what help says of exit codes."""
    app = App(
        name="factor",
        group=group,
        help="Manage what people prove themselves with when they approve a call.",
        help_epilogue=f"Example: toolhall factor add totp local\n\n{codes}",
    )
    for home, says, example in _COMMANDS:
        app.command(
            f"toolhall.cli.factors.{home}",
            name=example.split()[0],
            help=says,
            help_epilogue=f"Example: toolhall factor {example}\n\n{codes}",
        )
    return app
