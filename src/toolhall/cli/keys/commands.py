"""The commands of `toolhall key`, each imported when it is used."""

from cyclopts import App, Group

_COMMANDS = (
    ("changing:create", "Make a key.", "create ci --expires 30d"),
    ("looking:list_keys", "List keys.", "list"),
    ("changing:revoke", "Make a key good for nothing.", "revoke 4fTz8aQ0xLm1"),
)


def key_commands(group: Group, codes: str) -> App:
    """`toolhall key ...`, for a group of commands; `codes` is what help says of exit codes."""
    app = App(
        name="key",
        group=group,
        help="Make, list and revoke API keys.",
        help_epilogue=f"Example: toolhall key create ci\n\n{codes}",
    )
    for home, says, example in _COMMANDS:
        app.command(
            f"toolhall.cli.keys.{home}",
            name=example.split()[0],
            help=says,
            help_epilogue=f"Example: toolhall key {example}\n\n{codes}",
        )
    return app
