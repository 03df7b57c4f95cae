"""`toolhall inspect`: everything about one tool, with every dialect's view beside the others."""

from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import drawing, print_json
from toolhall.cli.settings import read_named
from toolhall.cli.source import SourceOptions, opened
from toolhall.cli.sources.remote import RemoteSource
from toolhall.cli.targets import looks_like_target
from toolhall.cli.views import inspected
from toolhall.cli.wanted import wanted_offer
from toolhall.config import Config

_DEFAULTS = SourceOptions()


def inspect(*words: str, options: Annotated[SourceOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show everything about one tool, or about all of them briefly.

    Parameters
    ----------
    words
        [TARGET] [TOOL]: where the tools are (the example toolkit when left out), and the name or id of one.
    """
    start_logging(None)
    target, tool = _sort(words, options)
    config = Config() if options.url else Config(levels=read_named().levels)
    with opened(options, target, config) as source:
        offers = source.offers()
        wanted = [wanted_offer(source, offers, tool)] if tool else offers
        found = inspected(source, source.with_levels(wanted) if isinstance(source, RemoteSource) else wanted)
    if options.json:
        print_json(found[0].document() if tool else [each.document() for each in found])
    elif tool:
        drawing().print_whole(found[0])
    else:
        drawing().print_briefly(found)


def _sort(words: tuple[str, ...], options: SourceOptions) -> tuple[str | None, str | None]:
    """Which word is the target and which the tool."""
    has_source = bool(options.url or options.target)
    match words:
        case ():
            return None, None
        case (word,) if not has_source and looks_like_target(word):
            return word, None
        case (word,):
            return None, word
        case (first, second) if not has_source:
            swapped = looks_like_target(second) and not looks_like_target(first)
            return (second, first) if swapped else (first, second)
        case _:
            raise WrongUsage("too many words; write: toolhall inspect [TARGET or --url URL] [TOOL]")
