"""`toolhall approval approve` and `deny`: the decision, after the call was shown."""

import sys
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.approvals.looking import whole
from toolhall.cli.failure import CommandFailed
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import note
from toolhall.cli.tools.desk import Desk, HallOptions, opened
from toolhall.cli.tools.telling import print_answer
from toolhall.cli.typed import typed_code
from toolhall.model.json import JsonObject
from toolhall.transports.pages.visible import visible

_DEFAULTS = HallOptions()
_NEXT = {
    "approved": "the call may run once when the program asks for it again",
    "denied": "the call will not run",
}


def approve(approval: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Let a call run; it is shown first, and a code of your authenticator is asked for.

    Parameters
    ----------
    approval
        Its id, as toolhall approval list shows it.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        found = _shown(desk, approval)
        if not found["mayApprove"]:
            raise CommandFailed("another person has to approve this call; you can only deny it")
        code = typed_code("Code of your authenticator")
        _tell(desk.manage("POST", "approvals", approval, "approve", body={"code": code}), options)


def deny(approval: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Do not let a call run.

    Parameters
    ----------
    approval
        Its id, as toolhall approval list shows it.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        _tell(desk.manage("POST", "approvals", approval, "deny"), options)


def _shown(desk: Desk, approval: str) -> JsonObject:
    """Nobody approves what they have not been shown."""
    for each in desk.manage("GET", "approvals")["approvals"]:
        if each["id"] == approval:
            note("\n".join(whole(each, sys.stderr)))
            found: JsonObject = each
            return found
    raise CommandFailed("nothing with this id waits for you; see 'toolhall approval list'")


def _tell(told: JsonObject, options: HallOptions) -> None:
    if options.json:
        print_answer(told)
    else:
        print(visible(f"{told['id']} is {told['state']}: {_NEXT.get(told['state'], '')}"))
