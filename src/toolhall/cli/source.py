"""Which tools a command is about: the options that every one of them takes, and the source they lead to."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.beside import started_beside
from toolhall.cli.failure import WrongUsage
from toolhall.cli.sources.local import LocalSource
from toolhall.cli.sources.offer import Source
from toolhall.cli.sources.remote import RemoteSource
from toolhall.config import Config
from toolhall.dialects.catalogs import writable
from toolhall.model.errors import Malformed


@dataclass(frozen=True)
class SourceOptions:
    """Where the tools are, and how to print.

    Parameters
    ----------
    url
        A running server: its base URL, or its /mcp URL.
    target
        TARGET, where the bare word could be taken for something else.
    json
        Print JSON.
    key
        The API key or token to send to --url; better put it into TOOLHALL_KEY, because others can read command lines.
    """

    url: str | None = None
    target: Annotated[str | None, Parameter(alias="-t")] = None
    json: bool = False
    key: str | None = None


@contextlib.contextmanager
def opened(options: SourceOptions, target: str | None, config: Config) -> Generator[Source, None, None]:
    """The source, closed again at the end; without a target or a URL it is the example toolkit."""
    if options.target and target:
        raise WrongUsage(f"two targets were given, {options.target!r} and {target!r}; leave out one")
    target = options.target or target
    if options.url and target:
        raise WrongUsage(f"give a target ({target!r}) or --url, not both")
    if options.key is not None and not options.url:
        raise WrongUsage("--key is sent to a running server; name it with --url, or leave out --key")
    with contextlib.ExitStack() as until_the_end:
        if options.url:
            source: Source = RemoteSource(options.url, options.key)
        else:
            targets = [target] if target else []
            source = LocalSource(targets, until_the_end.enter_context(started_beside(targets, config)))
        until_the_end.callback(source.close)
        yield source


def dialect_named(name: str) -> str:
    """A dialect's full name."""
    try:
        return writable(name).name
    except Malformed as error:
        raise WrongUsage(f"--dialect: {error.message}") from None
