"""`toolhall secret set` and `remove`."""

from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import visible
from toolhall.cli.secrets.options import OwnedOptions, opened_vault
from toolhall.cli.secrets.typed import read_secret
from toolhall.cli.tools.telling import print_answer
from toolhall.model.errors import Malformed
from toolhall.stores.vault.words import checked_name, checked_user

_DEFAULTS = OwnedOptions()


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
        print(visible(f"{secret} is kept{_whose(options)}"))


def remove(secret: str, /, *, options: Annotated[OwnedOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Forget a secret, at once.

    Parameters
    ----------
    secret
        Its id, as toolhall secret list shows it.
    """
    start_logging(None)
    with opened_vault(options, changing=True) as desk:
        told = desk.manage("DELETE", "secrets", secret, query={"user": options.user})
    if options.json:
        print_answer(told)
    else:
        print(visible(f"{secret} is removed{_whose(options)}"))


def _refuse_unusable(secret: str, user: str | None) -> None:
    """Before somebody has typed a long value."""
    try:
        checked_name(secret)
        checked_user(user)
    except Malformed as wrong:
        raise WrongUsage(wrong.message) from None


def _whose(options: OwnedOptions) -> str:
    return "" if options.user is None else f" for {options.user}"
