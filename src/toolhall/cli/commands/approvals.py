"""`toolhall approval list`, `approve` and `deny`: shows each waiting call exactly as it would run."""

import sys
from collections.abc import Iterator
from typing import Annotated, TextIO

from cyclopts import Parameter

from toolhall.cli.clients.management import ManagementClient, open_management
from toolhall.cli.errors import CommandError
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import BOLD, YELLOW, note, print_answer_json, styled
from toolhall.cli.prompts import prompt_code
from toolhall.model.json import JsonObject
from toolhall.web.html import reveal_hidden

_DEFAULTS = HallOptions()
_CONSEQUENCE = {
    "approved": "the call may run once when the program asks for it again",
    "denied": "the call will not run",
}
_NEEDS_TEXT = {
    "step_up": "to verify that you are there",
    "approval": "your yes to exactly this call",
    "second_person": "the yes of another person to exactly this call",
}


def list_approvals(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List the calls that wait for you: yours, and with the scope approve those of others at level 10."""
    start_logging(None)
    with open_management(options) as client:
        found = client.request("GET", "approvals")["approvals"]
        if options.json:
            print_answer_json(found)
        elif found:
            print("\n\n".join("\n".join(approval_details(each, sys.stdout)) for each in found))
        else:
            note("nothing waits for you")


def approval_details(approval: JsonObject, stream: TextIO) -> Iterator[str]:
    """The lines about one approval, with its whole arguments and invisible characters made visible."""
    yield styled(reveal_hidden(approval["id"]), BOLD, stream)
    facts: dict[str, str] = {
        "needs": _NEEDS_TEXT.get(str(approval["how"]), "a person"),
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
        yield f"  {name:<8}{reveal_hidden(value)}"
    shown = "\n".join(reveal_hidden(line) for line in approval["shown"].split("\n"))
    yield "  the arguments, exactly as they will run:"
    yield shown
    if "<U+" in shown:
        yield styled("  what cannot be seen, or looks like something else, is written as <U+XXXX>", YELLOW, stream)


def approve(approval: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Approve a call; it is shown first, and a code of your authenticator is asked for.

    Parameters
    ----------
    approval
        Its id, as toolhall approval list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        found = _show_approval(client, approval)
        if not found["mayApprove"]:
            raise CommandError("another person has to approve this call; you can only deny it")
        code = prompt_code("Code of your authenticator")
        _print_decision(client.request("POST", "approvals", approval, "approve", body={"code": code}), options)


def deny(approval: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Deny a call.

    Parameters
    ----------
    approval
        Its id, as toolhall approval list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        _print_decision(client.request("POST", "approvals", approval, "deny"), options)


def _show_approval(client: ManagementClient, approval: str) -> JsonObject:
    """Print and return a pending approval; raises CommandError if there is none of this id."""
    for each in client.request("GET", "approvals")["approvals"]:
        if each["id"] == approval:
            note("\n".join(approval_details(each, sys.stderr)))
            found: JsonObject = each
            return found
    raise CommandError("nothing with this id waits for you; see 'toolhall approval list'")


def _print_decision(answer: JsonObject, options: HallOptions) -> None:
    if options.json:
        print_answer_json(answer)
    else:
        print(reveal_hidden(f"{answer['id']} is {answer['state']}: {_CONSEQUENCE.get(answer['state'], '')}"))
