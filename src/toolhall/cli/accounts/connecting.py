"""`toolhall account connect`: says where the person goes, and waits until that is done."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.accounts.providers import is_safe
from toolhall.cli.accounts.asked import Accounts, How, opened_accounts
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import YELLOW, note, person_present, styled, visible
from toolhall.cli.terminal import forget_typed, prompt
from toolhall.cli.tools.desk import HallOptions
from toolhall.cli.tools.telling import print_answer
from toolhall.cli.waiting import waiting
from toolhall.model.json import JsonObject

_PAUSE = 1.0
_MOST_SECONDS = 900.0  # longer than any link is good
_MOST_PASTED = 16_384


@dataclass(frozen=True)
class ConnectOptions(HallOptions):
    """What `toolhall account connect` takes.

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


_DEFAULTS = ConnectOptions()


def connect(provider: str, /, *, options: Annotated[ConnectOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Connect an account at a provider; you agree there, and no password is typed here.

    Nothing is opened by itself: the address is printed, for you to look at first.

    Parameters
    ----------
    provider
        Its name, as toolhall account providers shows it.
    """
    start_logging(None)
    ways = _ways(options)
    scopes = [scope for scope in re.split(r"[\s,]+", options.scopes) if scope]
    with opened_accounts(options, changing=True) as accounts:
        how, link = _begun(accounts, provider, scopes, ways)
        _show(how, link, note if options.json else _print)
        if how == "paste":
            accounts.paste(link["id"], _pasted())
        _wait(accounts, link["id"])
        mine = [each for each in accounts.all(None) if each["provider"] == provider]
    newest = max(mine, key=lambda each: str(each["refreshedAt"] or each["createdAt"]), default=None)
    if options.json:
        print_answer({"status": "completed", "account": newest})
    else:
        granted = f" with {' '.join(newest['scopes'])}" if newest and newest["scopes"] else ""
        print(visible(f"{provider} is connected{granted}"))


def _ways(options: ConnectOptions) -> tuple[How, ...]:
    if options.device + options.paste + options.no_browser > 1:
        raise WrongUsage("give one of --device, --paste and --no-browser")
    if options.no_browser:
        return ("device", "paste")
    if options.device or options.paste:
        return ("device",) if options.device else ("paste",)
    if options.url is None and options.key is None:
        raise WrongUsage(
            "a browser comes back to a hall that runs: start 'toolhall serve' and give --url;"
            " without one, use --device or --paste"
        )
    return ("browser",)


def _begun(accounts: Accounts, provider: str, scopes: list[str], ways: tuple[How, ...]) -> tuple[How, JsonObject]:
    """By the first way that the provider has."""
    for how in ways[:-1]:
        try:
            return how, accounts.begin(provider, scopes, how)
        except CommandFailed:
            continue  # the last way says what is wrong, if it is not this
    return ways[-1], accounts.begin(provider, scopes, ways[-1])


def _show(how: How, link: JsonObject, say: Callable[[str], None]) -> None:
    if how == "device":
        device = link["device"]
        say(_address(device["verification_uri"]))
        say(visible(device["user_code"]))
        note("Open this address on any device, and enter this code there.")
    elif how == "paste":
        say(_address(link["authorize_url"]))
        note("Open this address in a browser and agree there. In the end the browser is sent to an address that may")
        note("not load: copy it whole, and paste it here.")
    else:
        say(_address(link["url"]))
        note("Open this page in a browser and agree there.")


def _address(url: str) -> str:
    """Nobody is sent to anything but a plain address of the web, or of this machine."""
    if not is_safe(url):
        raise CommandFailed("the hall answered with an address that no browser should open; is this the right URL?")
    return visible(url)


def _pasted() -> str:
    if person_present():
        forget_typed()
        prompt(styled("Address: ", YELLOW, sys.stderr))
    line = sys.stdin.readline(_MOST_PASTED).strip() if sys.stdin is not None else ""
    if not line:
        raise CommandFailed("nothing was connected: there was no address; paste it, or send it on the standard input")
    return line


def _wait(accounts: Accounts, link: str) -> None:
    with waiting("Waiting until you have agreed"):
        status, waited = accounts.status(link, 0.0), 0.0
        while status == "pending" and waited < _MOST_SECONDS:
            status, waited = accounts.status(link, _PAUSE), waited + _PAUSE
    if status == "pending":
        raise CommandFailed("nothing was connected: nobody has agreed in time; start again")
    if status != "completed":
        raise CommandFailed("nothing was connected: it was refused, or took too long; start again")


def _print(line: str) -> None:
    print(line, flush=True)
