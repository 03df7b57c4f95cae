"""`toolhall approval list`: every call that waits for this person, exactly as it would run."""

import sys
from collections.abc import Iterator
from typing import Annotated, TextIO

from cyclopts import Parameter

from toolhall.cli.logs import start_logging
from toolhall.cli.screen import BOLD, YELLOW, note, styled
from toolhall.cli.tools.desk import HallOptions, opened
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import JsonObject
from toolhall.transports.pages.visible import visible

_DEFAULTS = HallOptions()
_ASKS = {
    "step_up": "to verify that you are there",
    "approval": "your yes to exactly this call",
    "second_person": "the yes of another person to exactly this call",
}


def list_approvals(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List the calls that wait for you: yours, and with the scope approve those of others at level 10."""
    start_logging(None)
    with opened(options) as desk:
        found = desk.manage("GET", "approvals")["approvals"]
        if options.json:
            print_answer(found)
        elif found:
            print("\n\n".join("\n".join(whole(each, sys.stdout)) for each in found))
        else:
            note("nothing waits for you")


def whole(approval: JsonObject, stream: TextIO) -> Iterator[str]:
    """Everything about one, with nothing hidden in its arguments and nothing cut off."""
    yield styled(visible(approval["id"]), BOLD, stream)
    facts: dict[str, str] = {
        "needs": _ASKS.get(str(approval["how"]), "a person"),
        "tool": approval["tool"],
        "level": str(approval["level"]),
        "effect": approval["effect"] or "not stated",
        "caller": f"{approval['caller']}, for {approval['person']}, by {approval['dialect']}",
        "user": approval["actingFor"] or "none",
        "until": approval["expiresAt"],
        "page": approval["url"],
        "sha256": approval["shownSha256"],
    }
    for name, value in facts.items():
        yield f"  {name:<8}{visible(value)}"
    shown = "\n".join(visible(line) for line in approval["shown"].split("\n"))
    yield "  the arguments, exactly as they will run:"
    yield shown
    if "<U+" in shown:
        yield styled("  what cannot be seen, or looks like something else, is written as <U+XXXX>", YELLOW, stream)
