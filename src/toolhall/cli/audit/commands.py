"""The commands of `toolhall audit`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "audit",
    "audit",
    "Look at the record of all calls, and verify it.",
    "search --caller ci",
    ("looking:tail", "Show the newest records.", "tail -n 50 --follow"),
    ("looking:search", "Find records.", "search --caller ci --level 4 --since 2027-01-31"),
    ("verify:verify", "Check that nothing was changed.", "verify --checkpoints /mnt/elsewhere/audit.checkpoints"),
    ("accept:accept", "Take an audit that was cut off or replaced as it is.", "accept --url http://127.0.0.1:8000"),
    ("export:export", "Write all records as JSON lines.", "export --out audit.jsonl"),
)
