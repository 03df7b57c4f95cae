"""`toolhall secret set` and `remove`."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.progress import counted
from toolhall.cli.screen import note, visible
from toolhall.cli.secrets.options import OwnedOptions, opened_vault
from toolhall.cli.secrets.typed import read_secret
from toolhall.cli.tools.asking import agree
from toolhall.cli.tools.telling import print_answer
from toolhall.model.errors import Malformed
from toolhall.stores.vault.words import checked_name, checked_user

Lost: TypeAlias = tuple[str, str | None]  # the id of a secret, and whose it was


@dataclass(frozen=True)
class RemoveOptions(OwnedOptions):
    """What `toolhall secret remove` takes.

    Parameters
    ----------
    lost
        Everything in the data folder that no key opens any more, since the vault's key is lost for good.
    all
        With --user: every secret of this user, and the keys that sealed these and the tokens of their accounts.
    yes
        With --lost or --all: do it without being asked.
    """

    lost: bool = False
    all: bool = False
    yes: bool = False


_DEFAULTS = OwnedOptions()
_REMOVE = RemoveOptions()
_TAKEN = ("rotate",)  # where management seals everything anew


def set_secret(secret: str, /, *, options: Annotated[OwnedOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Keep a secret, in place of the one of this id; nobody can read it again, and tools that declare it can use it.

    Its value is typed, or comes on the standard input; never on the command line, which others can read.

    Parameters
    ----------
    secret
        Its id, as tools name it: TWILIO_API_KEY.
    """
    start_logging(None)
    _refuse_unusable(secret, options.user)
    value = read_secret()
    with opened_vault(options, changing=True, founding=True) as desk:
        told = desk.manage("PUT", "secrets", secret, body={"value": value.reveal()}, query={"user": options.user})
    if options.json:
        print_answer(told)
    else:
        print(visible(f"{secret} is kept{_whose(options.user)}"))


def remove(secret: str | None = None, /, *, options: Annotated[RemoveOptions, Parameter(name="*")] = _REMOVE) -> None:
    """Forget a secret, at once; or all of a user with --all, or with --lost all that nobody can open any more.

    Parameters
    ----------
    secret
        Its id, as toolhall secret list shows it.
    """
    start_logging(None)
    if options.lost:
        _remove_lost(secret, options)
        return
    if options.all:
        _remove_all(secret, options)
        return
    if secret is None:
        raise WrongUsage("name the secret, as 'toolhall secret list' shows it")
    with opened_vault(options, changing=True) as desk:
        told = desk.manage("DELETE", "secrets", secret, query={"user": options.user})
    if options.json:
        print_answer(told)
    else:
        print(visible(f"{secret} is removed{_whose(options.user)}"))


def _remove_all(secret: str | None, options: RemoveOptions) -> None:
    if secret is not None or options.user is None:
        raise WrongUsage("--all is about everything of one user: name the user with --user, and no id")
    unrevoked = "Accounts that are still connected cannot be revoked then; 'toolhall account disconnect' comes first."
    agree(f"Forget every secret of {visible(options.user)}? {unrevoked}", yes=options.yes)
    with opened_vault(options, changing=True) as desk:
        told = desk.manage("DELETE", "secrets", query={"user": options.user})
    if options.json:
        print_answer(told)
    else:
        print(visible(f"every secret of {options.user} is removed"))


def _remove_lost(secret: str | None, options: RemoveOptions) -> None:
    if options.running or options.key is not None:
        raise WrongUsage("--lost needs --data: a hall that runs can open all that it has")
    if secret is not None or options.user is not None or options.all:
        raise WrongUsage("--lost is about everything that does not open: leave out the id, --user and --all")
    forget: Callable[[Path | None, Callable[[str], None]], list[Lost]]
    forget = importlib.import_module("toolhall.cli.secrets.lost").forget_lost
    gone = forget(options.data, lambda question: agree(question, yes=options.yes))
    if options.json:
        print_answer({"lost": [{"name": name, "user": user} for name, user in gone]})
    else:
        named = ", ".join(f"{name}{_whose(user)}" for name, user in gone)
        print(visible(f"{counted(len(gone), 'secret')} gone{': ' if named else ''}{named}"))
    note("Set them again with 'toolhall secret set ID'. Accounts that the lost key sealed must be connected anew.")


def _refuse_unusable(secret: str, user: str | None) -> None:
    """Before somebody has typed a long value."""
    if secret in _TAKEN:
        raise WrongUsage(f"no secret can be called {secret}; choose another id")
    try:
        checked_name(secret)
        checked_user(user)
    except Malformed as wrong:
        raise WrongUsage(wrong.message) from None


def _whose(user: str | None) -> str:
    return "" if user is None else f" for {user}"
