"""The commands of `toolhall approval`, each imported when it is used."""

from cyclopts import App, Group

_COMMANDS = (
    ("looking:list_approvals", "List what waits for you.", "list --url http://127.0.0.1:8000"),
    ("deciding:approve", "Let one call run.", "approve ID --url http://127.0.0.1:8000"),
    ("deciding:deny", "Do not let a call run.", "deny ID --url http://127.0.0.1:8000"),
)


def approval_commands(group: Group, codes: str) -> App:
    """`toolhall approval ...`, for a group of commands; `codes` is what help says of exit codes."""
    app = App(
        name="approval",
        group=group,
        help="Say yes or no to calls that need a person.",
        help_epilogue=f"Example: toolhall approval list --url http://127.0.0.1:8000\n\n{codes}",
    )
    for home, says, example in _COMMANDS:
        app.command(
            f"toolhall.cli.approvals.{home}",
            name=example.split()[0],
            help=says,
            help_epilogue=f"Example: toolhall approval {example}\n\n{codes}",
        )
    return app
