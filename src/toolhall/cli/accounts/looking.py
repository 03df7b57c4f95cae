"""`toolhall account providers` and `list`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.accounts.asked import opened_accounts
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import GREEN, YELLOW, note
from toolhall.cli.tables import print_rows
from toolhall.cli.tools.desk import HallOptions
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import JsonObject


@dataclass(frozen=True)
class ListOptions(HallOptions):
    """What `toolhall account list` takes.

    Parameters
    ----------
    user
        Only what this user has connected.
    """

    user: str | None = None


_DEFAULTS = HallOptions()
_LIST = ListOptions()
_COLUMNS = ("id", "user", "provider", "state", "connected", "scopes")
_STYLES = {"connected": GREEN, "broken": YELLOW}


def list_providers(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List where accounts can be connected, as the hall's configuration says."""
    start_logging(None)
    with opened_accounts(options) as accounts:
        found = accounts.providers()
        if options.json:
            print_answer(found)
        elif found:
            print_rows(("name", "issuer", "redirect address", "always asked for"), [_provider(each) for each in found])
        else:
            note("no provider is set up; the operator adds one to 'providers' in toolhall.toml")


def list_accounts(*, options: Annotated[ListOptions, Parameter(name="*")] = _LIST) -> None:
    """List your accounts, or with the scope admin everybody's; one that is broken has to be connected again."""
    start_logging(None)
    with opened_accounts(options) as accounts:
        found = accounts.all(options.user)
        if options.json:
            print_answer(found)
        elif found:
            print_rows(_COLUMNS, [_row(each) for each in found], _STYLES)
        else:
            note("no account is connected; connect one with 'toolhall account connect PROVIDER'")


def _provider(provider: JsonObject) -> tuple[str, ...]:
    back = provider["redirect_uri"] or "not known now"
    return provider["name"], provider["issuer"] or "", back, " ".join(provider["scopes"])


def _row(account: JsonObject) -> tuple[str, ...]:
    return (
        account["id"],
        account["user"],
        account["provider"],
        account["state"],
        account["createdAt"],
        " ".join(account["scopes"]),
    )
