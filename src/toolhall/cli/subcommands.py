"""Commands below one word, such as `toolhall tool ...`: told as data, and each imported when it is used."""

from collections.abc import Iterable

import msgspec
from cyclopts import App, Group


class Subcommand(msgspec.Struct, frozen=True):
    """One of them; its example begins with its name."""

    home: str  # module and function, below the group's package
    says: str
    example: str


class Subcommands(msgspec.Struct, frozen=True):
    """All that follow one word; `example` is shown with the word alone."""

    word: str
    package: str  # below toolhall.cli
    says: str
    example: str
    commands: tuple[Subcommand, ...]


def subcommands(word: str, package: str, says: str, example: str, *rows: tuple[str, str, str]) -> Subcommands:
    """The commands of a word, from rows of home, help and example."""
    return Subcommands(word, package, says, example, tuple(Subcommand(*row) for row in rows))


def add_subcommands(app: App, group: Group, codes: str, groups: Iterable[Subcommands]) -> None:
    """Make them commands of a program; `codes` is what help says of exit codes."""
    for each in groups:
        inner = App(name=each.word, group=group, help=each.says, help_epilogue=_shown(each.word, each.example, codes))
        for command in each.commands:
            inner.command(
                f"toolhall.cli.{each.package}.{command.home}",
                name=command.example.split()[0],
                help=command.says,
                help_epilogue=_shown(each.word, command.example, codes),
            )
        app.command(inner)


def _shown(word: str, example: str, codes: str) -> str:
    return f"Example: toolhall {word} {example}\n\n{codes}"
