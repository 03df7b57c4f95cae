"""`open_tool_client`: the LocalToolClient or RemoteToolClient that the options of a command name."""

import contextlib
from collections.abc import Generator

from toolhall.cli.clients.base import ToolClient
from toolhall.cli.clients.local import LocalToolClient
from toolhall.cli.clients.remote import RemoteToolClient
from toolhall.cli.errors import UsageError
from toolhall.cli.options import SourceOptions
from toolhall.cli.settings import with_example_services
from toolhall.config import Config
from toolhall.dialects.catalogs import writable_catalog
from toolhall.model.errors import Malformed


@contextlib.contextmanager
def open_tool_client(options: SourceOptions, target: str | None, config: Config) -> Generator[ToolClient, None, None]:
    """The source, closed again at the end; without a target or a URL it is the example toolkit."""
    if options.target and target:
        raise UsageError(f"two targets were given, {options.target!r} and {target!r}; leave out one")
    target = options.target or target
    if options.url and target:
        raise UsageError(f"give a target ({target!r}) or --url, not both")
    if options.key is not None and not options.url:
        raise UsageError("--key is sent to a running server; name it with --url, or leave out --key")
    with contextlib.ExitStack() as until_the_end:
        if options.url:
            source: ToolClient = RemoteToolClient(options.url, options.key)
        else:
            targets = [target] if target else []
            source = LocalToolClient(targets, until_the_end.enter_context(with_example_services(targets, config)))
        until_the_end.callback(source.close)
        yield source


def full_dialect_name(name: str) -> str:
    """A dialect's full name."""
    try:
        return writable_catalog(name).name
    except Malformed as error:
        raise UsageError(f"--dialect: {error.message}") from None
