"""What the commands of `toolhall secret` take, and the hall that they and those of `toolhall account` ask."""

import contextlib
import importlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

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


class FolderLine(Line, Protocol):
    """The hall in a folder, which can do more for whoever has the folder."""

    def wait(self, seconds: float) -> None:
        """Meanwhile the hall goes on with what it does by itself."""
        ...

    def rotate(self, new: str) -> int:
        """Seal everything with a new key."""
        ...


@contextlib.contextmanager
def opened_vault(
    options: HallOptions, *, changing: bool = False, founding: bool = False
) -> Generator[Desk, None, None]:
    """The desk of the hall that was named."""
    if options.running or options.key is not None:
        with opened(options) as desk:
            yield desk
    else:
        with opened_folder(options, changing=changing, founding=founding) as line:
            yield Desk(line)


@contextlib.contextmanager
def opened_folder(
    options: HallOptions, *, changing: bool, founding: bool = False, alone: bool = False
) -> Generator[FolderLine, None, None]:
    """The hall in a folder; whoever changes what is sealed there needs a key, and a server's is not made here."""
    home = importlib.import_module("toolhall.cli.tools.local")
    config = home.hall_in(options.data, founding=founding)
    if changing:
        home.refuse_unkeyed(config)
    line: FolderLine = home.LocalDesk(config, changing=changing, alone=alone)
    try:
        yield line
    finally:
        line.close()
