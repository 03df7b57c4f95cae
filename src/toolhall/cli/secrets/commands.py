"""The commands of `toolhall secret`, each imported when it is used."""

from toolhall.cli.subcommands import subcommands

COMMANDS = subcommands(
    "secret",
    "secrets",
    "Keep what tools need and nobody may read.",
    "set TWILIO_API_KEY",
    ("changing:set_secret", "Keep a secret, typed or from the standard input.", "set TWILIO_API_KEY < key.txt"),
    ("looking:list_secrets", "List secrets, without their values.", "list"),
    ("changing:remove", "Forget a secret, or what is lost.", "remove TWILIO_API_KEY"),
    ("sealing:rotate", "Seal every secret anew.", "rotate --new"),
    ("sealing:key", "Print a new key for the vault.", "key"),
)
