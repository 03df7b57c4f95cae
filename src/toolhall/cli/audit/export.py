"""`toolhall audit export`: every record, as JSON lines."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import Parameter

from toolhall.cli.audit.folder import audited
from toolhall.cli.failure import CommandFailed
from toolhall.cli.logs import start_logging
from toolhall.cli.progress import counted, progress
from toolhall.cli.screen import note, print_json
from toolhall.model.json import encode
from toolhall.stores.audit.asking import document
from toolhall.stores.audit.reading import oldest_first, size_of


@dataclass(frozen=True)
class ExportOptions:
    """What `toolhall audit export` takes.

    Parameters
    ----------
    data
        The data folder of a hall, which may be running. [default: that of this project]
    out
        The file to write, readable by its owner only; the standard output when left out.
    json
        With --out: print what was written as JSON.
    """

    data: Path | None = None
    out: Path | None = None
    json: bool = False


_DEFAULTS = ExportOptions()


def export(*, options: Annotated[ExportOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Write the records of all processes in the order of their time, one JSON document on each line."""
    start_logging(None)
    data = audited(options.data)
    if options.out is None:
        sys.stdout.flush()
        _write(data, sys.stdout.buffer)
        return
    try:
        opened = os.open(options.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "wb") as file:
            count = _write(data, file)
    except OSError as error:
        raise CommandFailed(f"{options.out} cannot be written: {error.strerror}") from None
    if options.json:
        print_json({"records": count, "out": str(options.out)})
    else:
        note(f"{counted(count, 'record')} written to {options.out}")


def _write(data: Path, file: BinaryIO) -> int:
    count = 0
    with progress(size_of(data), scrolls=file.isatty(), thing="record") as bar:
        for found in oldest_first(data, bar.step):
            file.write(encode(document(found)) + b"\n")
            count += 1
    file.flush()
    return count
