"""The commands of `toolhall audit`, each imported when it is used."""

from cyclopts import App, Group

_COMMANDS = (
    ("looking:tail", "Show the newest records.", "tail -n 50 --follow"),
    ("looking:search", "Find records.", "search --caller ci --level 4 --since 2027-01-31"),
    ("verify:verify", "Check that nothing was changed.", "verify --checkpoints /mnt/elsewhere/audit.checkpoints"),
    ("export:export", "Write all records as JSON lines.", "export --out audit.jsonl"),
)


def audit_commands(group: Group, codes: str) -> App:
    """`toolhall audit ...`, for a group of commands; `codes` is what help says of exit codes."""
    app = App(
        name="audit",
        group=group,
        help="Look at the record of all calls, and verify it.",
        help_epilogue=f"Example: toolhall audit search --caller ci\n\n{codes}",
    )
    for home, says, example in _COMMANDS:
        app.command(
            f"toolhall.cli.audit.{home}",
            name=example.split()[0],
            help=says,
            help_epilogue=f"Example: toolhall audit {example}\n\n{codes}",
        )
    return app
