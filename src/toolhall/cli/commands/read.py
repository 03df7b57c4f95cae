"""`toolhall read`: writes what a URI means to the standard output, or to a file."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.block_output import print_text
from toolhall.cli.call_ui import TerminalClient
from toolhall.cli.clients.base import ToolClient, UnknownResource, open_tool_client
from toolhall.cli.clients.descriptions import (
    ReadContent,
    ResourceDescription,
    find_resource,
    nearest,
    plain_result,
    read_contents,
)
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.options import ReadOptions
from toolhall.cli.output import BOLD, note, print_json, styled, visible
from toolhall.cli.parameters import ReadParameters
from toolhall.cli.progress import show_spinner
from toolhall.cli.settings import ensure_data_folder, read_config_with_data
from toolhall.model.json import JsonObject

_DEFAULTS = ReadParameters()
_STDOUT = "-"


def read(
    uri: str, target: str | None = None, /, *, options: Annotated[ReadParameters, Parameter(name="*")] = _DEFAULTS
) -> None:
    """Read a resource of a target or of a running server.

    A text or the bytes of a file go to the standard output as they are; at a terminal only texts do.

    Parameters
    ----------
    uri
        Its URI; for a template, a URI with the values in it.
    target
        file.py, file.py:object, package.module or a folder; the example toolkit when left out.
    """
    start_logging(None)
    if options.timeout <= 0:
        raise UsageError("--timeout must be more than 0 seconds")
    if options.json and options.out:
        raise UsageError("--json prints everything, --out writes the content alone; leave out one of them")
    named = options.target or target
    config = read_config_with_data(targets=[named] if named else [], data=str(options.data) if options.data else None)
    if not options.url:
        ensure_data_folder(config)
    with open_tool_client(options, target, config) as source:
        result = _read(source, uri, options)
    contents = read_contents(result)
    if options.json:
        print_json(plain_result(result))
    elif options.out is not None and str(options.out) != _STDOUT:
        _write_file(contents, uri, options.out)
    else:
        _print(contents, uri, is_stdout_named=options.out is not None)


def _read(source: ToolClient, uri: str, options: ReadOptions) -> JsonObject:
    try:
        with show_spinner(f"Reading {uri}") as spinner:
            ui = TerminalClient(spinner)
            try:
                return source.read_resource(uri, ui, options.timeout)
            finally:
                ui.close()
    except UnknownResource:
        raise CommandError(
            f"there is no resource {visible(uri)!r}; {visible(_hint(source.resources(), uri))}"
        ) from None


def _hint(resources: Sequence[ResourceDescription], uri: str) -> str:
    """What to do about a URI that means nothing."""
    if template := find_resource(resources, uri):
        return f"{template.uri} has nothing by these values"
    near = nearest([each.uri for each in resources], uri)
    return f"did you mean {near!r}?" if near else "see the URIs with 'toolhall list --kind resource'"


def _write_file(contents: Sequence[ReadContent], uri: str, out: Path) -> None:
    if len(contents) > 1:
        raise CommandError(f"{visible(uri)} has {len(contents)} contents, and --out takes one; use --json")
    from toolhall.cli.documents.reader import report_io_errors  # lazy: the dialects
    from toolhall.cli.documents.writers import open_atomic  # lazy: the dialects

    with report_io_errors(), open_atomic(out) as new:
        new.stream.write(_bytes_of(contents[0]))
        new.commit()
    note(f"{visible(uri)} is written to {out} ({visible(contents[0].about)})")


def _print(contents: Sequence[ReadContent], uri: str, *, is_stdout_named: bool) -> None:
    """Print the contents: one as it is, unless it is binary and goes to a terminal; of several each below its URI."""
    if len(contents) > 1:
        for each in contents:
            print(styled(visible(f"--- {each.uri} ({each.about})"), BOLD, sys.stdout))
            print_text(each.content if isinstance(each.content, str) else "[binary; --json prints it]")
        return
    (only,) = contents
    if not sys.stdout.isatty() or is_stdout_named:
        sys.stdout.flush()
        sys.stdout.buffer.write(_bytes_of(only))
        sys.stdout.buffer.flush()
    elif isinstance(only.content, bytes):
        about = visible(f"{uri} is binary ({only.about})")
        raise CommandError(f"{about} and would garble the terminal; write it to a file with --out FILE, or pipe it")
    else:
        print_text(only.content)


def _bytes_of(content: ReadContent) -> bytes:
    return content.content.encode() if isinstance(content.content, str) else content.content
