"""`toolhall account disconnect`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.accounts.asked import opened_accounts
from toolhall.cli.failure import CommandFailed
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import note, visible
from toolhall.cli.tools.asking import agree
from toolhall.cli.tools.desk import HallOptions
from toolhall.cli.tools.telling import print_answer


@dataclass(frozen=True)
class DisconnectOptions(HallOptions):
    """What `toolhall account disconnect` takes.

    Parameters
    ----------
    yes
        Do not ask.
    """

    yes: bool = False


_DEFAULTS = DisconnectOptions()


def disconnect(account: str, /, *, options: Annotated[DisconnectOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Tell the provider to revoke an account's tokens, and forget them, whatever it says.

    Parameters
    ----------
    account
        Its id, as toolhall account list shows it.
    """
    start_logging(None)
    with opened_accounts(options, changing=True) as accounts:
        found = next((each for each in accounts.all(None) if each["id"] == account), None)
        if found is None:
            raise CommandFailed("there is no such account; see 'toolhall account list'")
        what = visible(f"{found['provider']} of {found['user']}")
        agree(f"Disconnect {what}? Tools that need it will ask for it again.", yes=options.yes)
        told = accounts.disconnect(account)
    if options.json:
        print_answer(told)
        return
    print(f"{what} is disconnected")
    if told["unrevoked"] is not None:
        note(visible(f"The provider may still honour its tokens ({told['unrevoked']}); revoke them there."))
