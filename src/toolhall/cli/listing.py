"""`toolhall list`: the tools as a table, as JSON, or as documents of a dialect."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import CYAN, GREEN, RED, YELLOW, note, print_json
from toolhall.cli.settings import read_named
from toolhall.cli.source import SourceOptions, dialect_named, opened
from toolhall.cli.sources.local import LocalSource
from toolhall.cli.sources.offer import Offer
from toolhall.cli.sources.remote import RemoteSource
from toolhall.cli.tables import print_rows
from toolhall.config import Config
from toolhall.dialects.partition import Unsayable


@dataclass(frozen=True)
class ListOptions(SourceOptions):
    """What `toolhall list` takes.

    Parameters
    ----------
    dialect
        Print the documents of a dialect: mcp (the newest revision), mcp@REVISION, oxp, hub, machine, openapi, openai,
        openai@strict, anthropic, gemini.
    config
        Settings file, for the levels in it. [default: toolhall.toml, if there is one]
    """

    dialect: str | None = None
    config: Path | None = None


_DEFAULTS = ListOptions()
_STYLES = {"reads": GREEN, "writes": YELLOW, "destroys": RED}


def list_tools(
    target: str | None = None, /, *, options: Annotated[ListOptions, Parameter(name="*")] = _DEFAULTS
) -> None:
    """List the tools of a target or of a running server.

    Parameters
    ----------
    target
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    start_logging(None)
    dialect = dialect_named(options.dialect) if options.dialect else None
    if options.url and options.config:
        raise WrongUsage("--config is for a target; a running server has its own settings: leave out --config or --url")
    config = Config() if options.url else Config(levels=read_named(options.config).levels)
    with opened(options, target, config) as source:
        if isinstance(source, LocalSource):
            source.tell_author()
        if dialect:
            shown = source.written(dialect)
            print_json(shown.documents)
            _refuse(shown.refused, dialect)
            return
        offers = source.offers()
        if isinstance(source, RemoteSource):
            offers = source.with_levels(offers)
    if options.json:
        print_json([offer.summary() for offer in offers])
    else:
        print_rows(("name", "version", "level", "effect", "description"), map(_row, offers), _STYLES, first=CYAN)


def _row(offer: Offer) -> tuple[str, ...]:
    first_line = (offer.description or "").strip().partition("\n")[0]
    counts = offer.level if offer.effective_level is None else offer.effective_level
    level = "" if counts is None else str(counts)
    return offer.name, offer.version or "", level, offer.effect or "", first_line


def _refuse(refused: list[Unsayable], dialect: str) -> None:
    for each in refused:
        note(f"{each.tool}: {'; '.join(each.reasons)}")
    if refused:
        names = ", ".join(each.tool for each in refused)
        raise CommandFailed(f"{dialect} cannot say {names}; the others are listed")
