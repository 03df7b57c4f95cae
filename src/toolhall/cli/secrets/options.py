"""What the commands of `toolhall secret` take, and the hall that they ask."""

import contextlib
import importlib
from collections.abc import Generator
from dataclasses import dataclass

from toolhall.cli.tools.desk import Desk, HallOptions, Line, opened


@dataclass(frozen=True)
class OwnedOptions(HallOptions):
    """Which hall, and whose secret.

    Parameters
    ----------
    user
        The user whose own it is; without this, it is the hall's, for everybody who has none.
    """

    user: str | None = None


@contextlib.contextmanager
def opened_vault(
    options: HallOptions, *, changing: bool = False, founding: bool = False
) -> Generator[Desk, None, None]:
    """The desk of the hall that was named; a folder's vault is opened with the settings of that hall."""
    if options.running or options.key is not None:
        with opened(options) as desk:
            yield desk
        return
    home = importlib.import_module("toolhall.cli.secrets.folder")
    line: Line = home.VaultLine(home.hall_in(options.data, founding=founding), changing=changing)
    try:
        yield Desk(line)
    finally:
        line.close()
