"""`toolhall account providers`, `list`, `connect` and `disconnect`."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.clients.management import AccountsClient, LinkMethod, open_accounts_client
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import GREEN, YELLOW, is_interactive, note, print_answer_json, print_rows, styled, visible
from toolhall.cli.progress import show_spinner
from toolhall.cli.prompts import confirm, discard_typed_input, print_prompt
from toolhall.model.json import JsonObject
from toolhall.oauth.providers import is_safe_url


@dataclass(frozen=True)
class AccountListOptions(HallOptions):
    """Options of `toolhall account list`.

    Parameters
    ----------
    user
        Only what this user has connected.
    """

    user: str | None = None


_DEFAULTS = HallOptions()
_LIST_DEFAULTS = AccountListOptions()
_COLUMNS = ("id", "user", "provider", "state", "connected", "scopes")
_STYLES = {"connected": GREEN, "broken": YELLOW}
_POLL_SECONDS = 1.0
_MAX_WAIT_SECONDS = 900.0  # longer than any link is valid
_MAX_URL_LENGTH = 16_384


def list_providers(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List the providers at which accounts can be connected, by the hall's configuration."""
    start_logging(None)
    with open_accounts_client(options) as accounts:
        found = accounts.providers()
        if options.json:
            print_answer_json(found)
        elif found:
            print_rows(
                ("name", "issuer", "redirect address", "always asked for"), [_provider_row(each) for each in found]
            )
        else:
            note("no provider is set up; the operator adds one to 'providers' in toolhall.toml")


def list_accounts(*, options: Annotated[AccountListOptions, Parameter(name="*")] = _LIST_DEFAULTS) -> None:
    """List your accounts, or with the scope admin all accounts; a broken one must be connected again."""
    start_logging(None)
    with open_accounts_client(options) as accounts:
        found = accounts.list_accounts(options.user)
        if options.json:
            print_answer_json(found)
        elif found:
            print_rows(_COLUMNS, [_account_row(each) for each in found], _STYLES)
        else:
            note("no account is connected; connect one with 'toolhall account connect PROVIDER'")


def _provider_row(provider: JsonObject) -> tuple[str, ...]:
    back = provider["redirect_uri"] or "not known now"
    return provider["name"], provider["issuer"] or "", back, " ".join(provider["scopes"])


def _account_row(account: JsonObject) -> tuple[str, ...]:
    return (
        account["id"],
        account["user"],
        account["provider"],
        account["state"],
        account["linkedAt"],
        " ".join(account["scopes"]),
    )


@dataclass(frozen=True)
class ConnectOptions(HallOptions):
    """Options of `toolhall account connect`.

    Parameters
    ----------
    scopes
        What tools may do there, as the provider spells it, separated by blanks: 'openid email'.
    device
        Enter a code on another device; not every provider has this.
    paste
        Paste the address that the browser was sent to in the end, where that browser cannot reach the hall.
    no_browser
        There is no browser here: as with --device where the provider has that, else as with --paste.
    """

    scopes: str = ""
    device: bool = False
    paste: bool = False
    no_browser: bool = False


_CONNECT_DEFAULTS = ConnectOptions()


def connect(provider: str, /, *, options: Annotated[ConnectOptions, Parameter(name="*")] = _CONNECT_DEFAULTS) -> None:
    """Connect an account at a provider; you agree there, and no password is typed here.

    Nothing is opened by itself: the address is printed, for you to look at first.

    Parameters
    ----------
    provider
        Its name, as toolhall account providers shows it.
    """
    start_logging(None)
    methods = _link_methods(options)
    scopes = [scope for scope in re.split(r"[\s,]+", options.scopes) if scope]
    with open_accounts_client(options, write=True) as accounts:
        how, link = _begin_link(accounts, provider, scopes, methods)
        _print_link(how, link, note if options.json else _print_flushed)
        if how == "paste":
            accounts.finish_with_url(link["id"], _prompt_url())
        _wait_until_linked(accounts, link["id"])
        mine = [each for each in accounts.list_accounts(None) if each["provider"] == provider]
    newest = max(mine, key=lambda each: str(each["refreshedAt"] or each["linkedAt"]), default=None)
    if options.json:
        print_answer_json({"status": "completed", "account": newest})
    else:
        granted = f" with {' '.join(newest['scopes'])}" if newest and newest["scopes"] else ""
        print(visible(f"{provider} is connected{granted}"))


def _link_methods(options: ConnectOptions) -> tuple[LinkMethod, ...]:
    if options.device + options.paste + options.no_browser > 1:
        raise UsageError("give one of --device, --paste and --no-browser")
    if options.no_browser:
        return ("device", "paste")
    if options.device or options.paste:
        return ("device",) if options.device else ("paste",)
    if options.url is None and options.key is None:
        raise UsageError(
            "a browser comes back to a hall that runs: start 'toolhall serve' and give --url;"
            " without one, use --device or --paste"
        )
    return ("browser",)


def _begin_link(
    accounts: AccountsClient, provider: str, scopes: list[str], methods: tuple[LinkMethod, ...]
) -> tuple[LinkMethod, JsonObject]:
    """Begin a link by the first method that the provider supports."""
    for how in methods[:-1]:
        try:
            return how, accounts.begin_link(provider, scopes, how)
        except CommandError:
            continue  # the last method raises the error
    return methods[-1], accounts.begin_link(provider, scopes, methods[-1])


def _print_link(method: LinkMethod, link: JsonObject, print_line: Callable[[str], None]) -> None:
    if method == "device":
        device = link["device"]
        print_line(_checked_url(device["verification_uri"]))
        print_line(visible(device["user_code"]))
        note("Open this address on any device, and enter this code there.")
    elif method == "paste":
        print_line(_checked_url(link["authorize_url"]))
        note("Open this address in a browser and agree there. In the end the browser is sent to an address that may")
        note("not load: copy it whole, and paste it here.")
    else:
        print_line(_checked_url(link["url"]))
        note("Open this page in a browser and agree there.")


def _checked_url(url: str) -> str:
    """The URL for printing; raises CommandError unless it is https, or http on this machine."""
    if not is_safe_url(url):
        raise CommandError("the hall answered with an address that no browser should open; is this the right URL?")
    return visible(url)


def _prompt_url() -> str:
    if is_interactive():
        discard_typed_input()
        print_prompt(styled("Address: ", YELLOW, sys.stderr))
    line = sys.stdin.readline(_MAX_URL_LENGTH).strip() if sys.stdin is not None else ""
    if not line:
        raise CommandError("nothing was connected: there was no address; paste it, or send it on the standard input")
    return line


def _wait_until_linked(accounts: AccountsClient, link: str) -> None:
    with show_spinner("Waiting until you have agreed"):
        status, waited = accounts.link_status(link, 0.0), 0.0
        while status == "pending" and waited < _MAX_WAIT_SECONDS:
            status, waited = accounts.link_status(link, _POLL_SECONDS), waited + _POLL_SECONDS
    if status == "pending":
        raise CommandError("nothing was connected: nobody has agreed in time; start again")
    if status != "completed":
        raise CommandError("nothing was connected: it was refused, or took too long; start again")


def _print_flushed(line: str) -> None:
    print(line, flush=True)


@dataclass(frozen=True)
class DisconnectOptions(HallOptions):
    """Options of `toolhall account disconnect`.

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


_DISCONNECT_DEFAULTS = DisconnectOptions()


def disconnect(
    account: str | None = None, /, *, options: Annotated[DisconnectOptions, Parameter(name="*")] = _DISCONNECT_DEFAULTS
) -> None:
    """Revoke an account's tokens at the provider, and delete them even if that fails; with --all, of all of a user.

    Parameters
    ----------
    account
        Its id, as toolhall account list shows it.
    """
    start_logging(None)
    if options.all != (account is None) or options.all != (options.user is not None):
        raise UsageError("name one account, as 'toolhall account list' shows it, or a user with --user USER --all")
    with open_accounts_client(options, write=True) as accounts:
        found = [each for each in accounts.list_accounts(options.user) if options.all or each["id"] == account]
        if not found:
            raise CommandError("there is no such account; see 'toolhall account list'")
        names = [visible(f"{each['provider']} of {each['user']}") for each in found]
        confirm(f"Disconnect {', '.join(names)}? Tools that need it will ask for it again.", yes=options.yes)
        answer = []
        for each, name in zip(found, names, strict=True):
            answer.append(accounts.disconnect(each["id"]))
            if not options.json:
                _print_disconnected(name, answer[-1])
    if options.json:
        print_answer_json(answer if options.all else answer[0])


def _print_disconnected(name: str, answer: JsonObject) -> None:
    """Print the result of one disconnect at once: the next one may fail."""
    print(f"{name} is disconnected")
    if answer["unrevoked"] is not None:
        note(visible(f"The provider may still honour its tokens ({answer['unrevoked']}); revoke them there."))
