"""`toolhall account disconnect`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.accounts.asked import opened_accounts
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import note, visible
from toolhall.cli.tools.asking import agree
from toolhall.cli.tools.desk import HallOptions
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import JsonObject


@dataclass(frozen=True)
class DisconnectOptions(HallOptions):
    """What `toolhall account disconnect` takes.

    Parameters
    ----------
    user
        With --all: whose.
    all
        Every account of this user.
    yes
        Do not ask.
    """

    user: str | None = None
    all: bool = False
    yes: bool = False


_DEFAULTS = DisconnectOptions()


def disconnect(
    account: str | None = None, /, *, options: Annotated[DisconnectOptions, Parameter(name="*")] = _DEFAULTS
) -> None:
    """Tell the provider to revoke an account's tokens, and forget them, whatever it says; or with --all a user's.

    Parameters
    ----------
    account
        Its id, as toolhall account list shows it.
    """
    start_logging(None)
    if options.all != (account is None) or options.all != (options.user is not None):
        raise WrongUsage("name one account, as 'toolhall account list' shows it, or a user with --user USER --all")
    with opened_accounts(options, changing=True) as accounts:
        found = [each for each in accounts.all(options.user) if options.all or each["id"] == account]
        if not found:
            raise CommandFailed("there is no such account; see 'toolhall account list'")
        names = [visible(f"{each['provider']} of {each['user']}") for each in found]
        agree(f"Disconnect {', '.join(names)}? Tools that need it will ask for it again.", yes=options.yes)
        told = []
        for each, name in zip(found, names, strict=True):
            told.append(accounts.disconnect(each["id"]))
            if not options.json:
                _tell(name, told[-1])
    if options.json:
        print_answer(told if options.all else told[0])


def _tell(name: str, told: JsonObject) -> None:
    """At once: of several, each one that is gone stays so whatever becomes of the next."""
    print(f"{name} is disconnected")
    if told["unrevoked"] is not None:
        note(visible(f"The provider may still honour its tokens ({told['unrevoked']}); revoke them there."))
