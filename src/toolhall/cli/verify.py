"""`toolhall verify`: whether every tool is still what it was when it was locked."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.pinning import locked_both
from toolhall.cli.progress import counted
from toolhall.cli.screen import note, print_json, visible
from toolhall.cli.source import SourceOptions, opened
from toolhall.config import Config
from toolhall.contracts.lockfile import Drift, Kind, Lock, compare, read_lock
from toolhall.dialects.findings import BadDocument

_DEFAULTS = SourceOptions()
_SAID: dict[Kind, str] = {
    "added": "it was not there",
    "removed": "it is gone",
    "shown": "what the model reads changed",
    "contract": "what it promises or demands changed",
    "both": "what the model reads and what it promises or demands changed",
}


def verify(
    file: Path,
    target: str | None = None,
    /,
    *,
    options: Annotated[SourceOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Compare every tool of a target or of a running server with a lock; exit 1 if any is not what it was.

    Parameters
    ----------
    file
        The lock, as 'toolhall lock' wrote it.
    target
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    start_logging(None)
    lock = _read(file)
    with opened(options, target, Config()) as source:
        drifts = compare(lock, *locked_both(source))
    if options.json:
        print_json({"ok": not drifts, "drifts": drifts})
    else:
        for drift in drifts:
            print(_line(drift))
    if drifts:
        raise CommandFailed(f"{counted(len(drifts), 'tool')} drifted from {file}; look at each before you lock it anew")
    note(f"{counted(len(lock), 'tool')} as locked in {file}")


def _line(drift: Drift) -> str:
    return f"{visible(drift.tool)}: {drift.kind}: {_SAID[drift.kind]}"


def _read(file: Path) -> Lock:
    if file.is_dir() or not file.exists():
        what = "is a folder" if file.is_dir() else "is not there"
        raise WrongUsage(f"the lock {file} {what}; make one with 'toolhall lock --out FILE'")
    try:
        return read_lock(file.read_bytes())
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from None
    except BadDocument as bad:
        raise CommandFailed(f"{file}: {visible(bad.message)}") from None
