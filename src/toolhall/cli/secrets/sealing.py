"""`toolhall secret rotate` and `key`: the key that seals everything."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.progress import counted
from toolhall.cli.screen import note
from toolhall.cli.secrets.options import opened_folder, opened_vault
from toolhall.cli.tools.desk import HallOptions
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import JsonObject
from toolhall.stores.vault.keys import new_key
from toolhall.stores.vault.places import SETTING


@dataclass(frozen=True)
class RotateOptions(HallOptions):
    """What `toolhall secret rotate` takes.

    Parameters
    ----------
    new
        Make a new key in the data folder, seal everything with that, and drop the old one.
    """

    new: bool = False


@dataclass(frozen=True)
class KeyOptions:
    """How to print.

    Parameters
    ----------
    json
        Print JSON.
    """

    json: bool = False


_ROTATE = RotateOptions()
_KEY = KeyOptions()


def rotate(*, options: Annotated[RotateOptions, Parameter(name="*")] = _ROTATE) -> None:
    """Seal every secret anew, all or none: with the first key that the hall has, or with a new one."""
    start_logging(None)
    told = _rotated_with_new(options) if options.new else _rotated(options)
    if options.json:
        print_answer(told)
        return
    print(f"{counted(told['rotated'], 'secret')} sealed anew")
    if not options.new:
        note("Keys after the first one are not needed any more; backups from before still are opened by them only.")


def _rotated(options: HallOptions) -> JsonObject:
    with opened_vault(options, changing=True) as desk:
        return desk.manage("POST", "secrets", "rotate")


def _rotated_with_new(options: HallOptions) -> JsonObject:
    """Not by a request: a hall that runs changes no key."""
    if options.running or options.key is not None:
        raise WrongUsage("--new needs --data: stop the hall, then rotate in its folder, where its key is kept")
    with opened_folder(options, changing=True, alone=True) as line:
        return {"rotated": line.rotate(new_key())}


def key(*, options: Annotated[KeyOptions, Parameter(name="*")] = _KEY) -> None:
    """Print a new key for the vault; it is kept nowhere else."""
    start_logging(None)
    made = new_key()
    if options.json:
        print_answer({"key": made})
        return
    print(made, flush=True)
    note(f"Put it into {SETTING}, or into a file that {SETTING}_FILE names; without it nothing opens.")
