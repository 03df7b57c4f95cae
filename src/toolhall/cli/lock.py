"""`toolhall lock`: writes down what every tool says and promises, so that a later change is seen."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.documents.opening import failing_in_words
from toolhall.cli.documents.replacing import new_file
from toolhall.cli.logs import start_logging
from toolhall.cli.pinning import locked_now
from toolhall.cli.progress import counted
from toolhall.cli.screen import note, print_json
from toolhall.cli.source import SourceOptions, opened
from toolhall.config import Config
from toolhall.contracts.lockfile import document_of, write_lock


@dataclass(frozen=True)
class LockOptions(SourceOptions):
    """What `toolhall lock` takes.

    Parameters
    ----------
    out
        The file to write.
    """

    out: Annotated[Path, Parameter(alias="-o")] = Path("tools.lock")


_DEFAULTS = LockOptions()


def lock(target: str | None = None, /, *, options: Annotated[LockOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Write the digests of every tool of a target or of a running server to a file; look at the tools first.

    Parameters
    ----------
    target
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    start_logging(None)
    with opened(options, target, Config()) as source:
        found = locked_now(source)
    with failing_in_words(), new_file(options.out) as new:
        new.stream.write(write_lock(found))
        new.keep()
    if options.json:
        print_json(document_of(found))
    else:
        note(f"locked {counted(len(found), 'tool')} in {options.out}; check them with 'toolhall verify {options.out}'")
