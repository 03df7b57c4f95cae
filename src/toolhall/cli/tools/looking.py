"""`toolhall tool list`, `show`, `history` and `callers`: what is registered, what happened to it, who calls it."""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import DIM, GREEN, YELLOW, note, visible_json
from toolhall.cli.tables import print_rows
from toolhall.cli.tools.desk import HallOptions, opened
from toolhall.cli.tools.telling import ending, print_answer, state_of, whole
from toolhall.model.json import JsonObject

_MOST_EVENTS = 1_000
_COLUMNS = ("id", "state", "from", "by", "changed", "")
_STYLES = {"active": GREEN, "active, not served": YELLOW, "quarantined": YELLOW, "inactive": DIM}


@dataclass(frozen=True)
class ListOptions(HallOptions):
    """What `toolhall tool list` takes.

    Parameters
    ----------
    state
        Only tools in this state.
    toolkit
        Only tools of this toolkit.
    """

    state: Literal["registered", "quarantined", "active", "inactive"] | None = None
    toolkit: str | None = None


@dataclass(frozen=True)
class HistoryOptions(HallOptions):
    """What `toolhall tool history` takes.

    Parameters
    ----------
    limit
        How many events, the newest first.
    """

    limit: int = 100


_LIST = ListOptions()
_DEFAULTS = HallOptions()
_HISTORY = HistoryOptions()


def list_tools(*, options: Annotated[ListOptions, Parameter(name="*")] = _LIST) -> None:
    """List everything that is registered, in whatever state."""
    start_logging(None)
    with opened(options) as desk:
        tools = list(desk.tools({"state": options.state, "toolkit": options.toolkit}))
        if options.json:
            print_answer(tools)
        elif tools:
            print_rows(_COLUMNS, (_row(each, options) for each in tools), _STYLES)
        else:
            note("nothing is registered; add definitions with 'toolhall tool add FILE'")


def show(tool: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show a tool with its document as it came, all that lint says of it, and its other versions.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with opened(options) as desk:
        found = desk.ask("GET", tool)
        if options.json:
            print_answer(found)
        else:
            print("\n".join(whole(found, sys.stdout, running=options.running)))


def history(tool: str | None = None, /, *, options: Annotated[HistoryOptions, Parameter(name="*")] = _HISTORY) -> None:
    """Show what happened to a tool, or to all of them, the newest first; what was removed is still there.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for all versions; all tools when left out.
    """
    start_logging(None)
    if not 1 <= options.limit <= _MOST_EVENTS:
        raise WrongUsage(f"--limit is a number from 1 to {_MOST_EVENTS}")
    with opened(options) as desk:
        events = desk.events(tool, options.limit)
        if options.json:
            print_answer(events)
            return
        rows = [(each["at"], each["what"], each["id"], each["by"], _detail(each["detail"])) for each in events]
        print_rows(("when", "what", "id", "by", ""), rows)


def callers(tool: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show who called a tool, how often, when last, and in which versions and dialects, from the record of calls.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for all versions.
    """
    start_logging(None)
    with opened(options) as desk:
        told = desk.ask("GET", tool, "callers")
        if options.json:
            print_answer(told)
        elif told["callers"]:
            rows = [
                (
                    each["caller"],
                    str(each["calls"]),
                    each["last"],
                    ", ".join(each["versions"]),
                    ", ".join(each["dialects"]),
                )
                for each in told["callers"]
            ]
            print_rows(("caller", "calls", "last", "versions", "dialects"), rows)
            if told["others"]:
                note(f"and {told['others']:,} calls of callers that are not named here")
        else:
            note("nobody has called it")


def _row(tool: JsonObject, options: HallOptions) -> tuple[str, ...]:
    state = state_of(tool, running=options.running)
    return tool["id"], state, tool["origin"], tool["by"], tool["changedAt"], ending(tool)


def _detail(detail: dict[str, object]) -> str:
    said = {name: value for name, value in detail.items() if value is not None}
    return visible_json(said) if said else ""
