"""`toolhall audit verify`: whether every record is as it was written, and which is the first that is not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.cli.audit.folder import anchored, audited
from toolhall.cli.failure import EXIT_FAILED, CommandFailed, WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.progress import counted, progress
from toolhall.cli.screen import note, print_json, visible
from toolhall.stores.audit.findings import Report
from toolhall.stores.audit.reading import size_of
from toolhall.stores.audit.segments import FOLDER
from toolhall.stores.audit.signing import BadKey
from toolhall.stores.audit.verifying import Elsewhere
from toolhall.stores.audit.verifying import verify as verify_folder
from toolhall.stores.base import FILE_NAME
from toolhall.stores.seal import KEY_NAME, exposed_paths


@dataclass(frozen=True)
class VerifyOptions:
    """What `toolhall audit verify` takes.

    Parameters
    ----------
    data
        The data folder of a hall, which may be running. [default: that of this project]
    key
        A copy of audit.pub, instead of the one beside the records.
    checkpoints
        A copy of audit.checkpoints, instead of the one beside the records.
    json
        Print JSON.
    """

    data: Path | None = None
    key: Path | None = None
    checkpoints: Path | None = None
    json: bool = False


_DEFAULTS = VerifyOptions()


def verify(*, options: Annotated[VerifyOptions, Parameter(name="*")] = _DEFAULTS) -> int:
    """Check that no record was changed, removed, added or moved since it was written.

    It names the first that was, in each log, and compares the logs with the newest checkpoints that the hall's store
    knows. It lists calls and changes that were begun and whose end is not recorded, and names keys and folders that
    other users of the machine can open. Somebody who can write to all of the data folder can also sign anew: so keep
    copies of audit.pub and audit.checkpoints where they cannot, and verify with those.
    """
    start_logging(None)
    data = audited(options.data)
    for each in exposed_paths(data):
        note(visible(each))
    for path in (options.key, options.checkpoints):
        if path is not None and not path.is_file():
            raise WrongUsage(f"there is no file {path}")
    moved = not any((data / name).exists() for name in (FILE_NAME, KEY_NAME))
    elsewhere = Elsewhere(options.key, options.checkpoints, anchored(data), moved)
    try:
        with progress(size_of(data), scrolls=False, thing="line") as bar:
            report = verify_folder(data / FOLDER, elsewhere, bar.step)
    except BadKey as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:  # a hall that runs may drop old files meanwhile
        raise CommandFailed(f"{error.filename} cannot be read: {error.strerror}; try again") from None
    if options.json:
        print_json({**msgspec.to_builtins(report), "good": report.good})
    else:
        _tell(report)
    return 0 if report.good else EXIT_FAILED


def _tell(report: Report) -> None:
    for said in report.notes:
        note(visible(said))
    for finding in report.findings:
        print(visible(str(finding)))
    for each in report.unfinished:
        print(visible(f"no outcome: {each}"))
    if report.unfinished:
        note(
            f"{counted(len(report.unfinished), 'intent')} without an outcome: the process was killed, the call still"
            " runs, or its record was lost with a full disk; whether the tool ran to its end cannot be told"
        )
    seen = f"{counted(report.records, 'record')} in {counted(report.logs, 'log')}"
    signed = counted(report.checkpoints, "checkpoint")
    if report.good:
        judged = (
            ""
            if report.outside
            else ", and as the store knows them (a copy given with --checkpoints proves more)"
            if report.anchored
            else ", as far as this folder itself can tell (a copy given with --checkpoints proves more)"
        )
        print(f"{seen}, {signed}: all as they were written{judged}")
    else:
        note(f"{seen} and {signed} were as they were written, up to there")
