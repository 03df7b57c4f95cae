"""`toolhall tool activate`, `deactivate`, `deprecate`, `rollback` and `remove`: changes of one registered tool."""

import sys
from dataclasses import dataclass
from datetime import date
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import note, visible
from toolhall.cli.tools.asking import agree
from toolhall.cli.tools.desk import HallOptions, opened
from toolhall.cli.tools.telling import one_line, print_answer, whole
from toolhall.model.json import JsonObject


@dataclass(frozen=True)
class AskingOptions(HallOptions):
    """What commands take that ask before they do it.

    Parameters
    ----------
    yes
        Do it without being asked.
    """

    yes: bool = False


@dataclass(frozen=True)
class DeprecateOptions(HallOptions):
    """What `toolhall tool deprecate` takes.

    Parameters
    ----------
    sunset
        The first day without the tool (UTC), such as 2027-01-31; today takes it away at once.
    successor
        The id of what to call instead.
    """

    sunset: str | None = None
    successor: str | None = None


_DEFAULTS = HallOptions()
_ASKING = AskingOptions()
_DEPRECATE = DeprecateOptions()


def activate(tool: str, /, *, options: Annotated[AskingOptions, Parameter(name="*")] = _ASKING) -> None:
    """Serve a tool; what is quarantined is shown first, with all that lint says of it.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        found = desk.ask("GET", tool)
        if found["state"] == "quarantined":
            note("\n".join(whole(found, sys.stderr, running=options.running)))
            agree(f"Serve {visible(found['id'])} with this text?", yes=options.yes)
        # What was shown is what is activated, or nothing is.
        _tell(desk.ask("POST", found["id"], "activate", body={"seen": found["digests"]["document"]}), options)


def deactivate(tool: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Serve a tool no longer; it can be activated again.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        _tell(desk.ask("POST", tool, "deactivate"), options)


def deprecate(tool: str, /, *, options: Annotated[DeprecateOptions, Parameter(name="*")] = _DEPRECATE) -> None:
    """Say that a tool will go, when, and what to call instead; to activate it takes that back.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    body: JsonObject = {}
    if options.sunset is not None:
        body["sunset"] = _day(options.sunset)
    if options.successor is not None:
        body["successor"] = options.successor
    with opened(options, changing=True) as desk:
        _tell(desk.ask("POST", tool, "deprecate", body=body), options)


def rollback(tool: str, /, *, options: Annotated[AskingOptions, Parameter(name="*")] = _ASKING) -> None:
    """Serve the version before again, and the newer ones no longer.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        found = desk.ask("GET", tool)
        agree(f"Serve the version before {visible(_active(found))} again, and that one no longer?", yes=options.yes)
        told = desk.ask("POST", found["id"], "rollback")
        if options.json:
            print_answer(told["tools"])
        else:
            print("\n".join(one_line(each, running=options.running) for each in told["tools"]))


def remove(tool: str, /, *, options: Annotated[AskingOptions, Parameter(name="*")] = _ASKING) -> None:
    """Forget a tool; its history stays.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        found = desk.ask("GET", tool)
        agree(f"Remove {visible(found['id'])}, which is {found['state']}?", yes=options.yes)
        told = desk.ask("DELETE", found["id"])
        if options.json:
            print_answer(told)
        else:
            print(f"{visible(told['removed'])} is removed")


def _active(tool: JsonObject) -> str:
    """The newest version that is active, which is what is rolled back."""
    return str(next((each["id"] for each in tool["versions"] if each["state"] == "active"), tool["id"]))


def _tell(tool: JsonObject, options: HallOptions) -> None:
    if options.json:
        print_answer(tool)
    else:
        print(one_line(tool, running=options.running))


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise WrongUsage(f"--sunset {text!r} is no date; write it like 2027-01-31") from None
