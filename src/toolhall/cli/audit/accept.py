"""`toolhall audit accept`: an operator takes an audit as it is that is behind what the store knows of it."""

from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.logs import start_logging
from toolhall.cli.screen import note, visible
from toolhall.cli.tools.desk import HallOptions, opened
from toolhall.cli.tools.telling import print_answer

_DEFAULTS = HallOptions()


def accept(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Take the audit as it is, although the store knows more of it, so that calls of level 4 and up run again.

    A log that was cut off, put back or replaced stays as it is: look at toolhall audit verify first, and keep a copy of
    the folder. Who accepted it, and what was missing, is recorded, and every later verify says so.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        answer = desk.manage("POST", "audit", "accept")
    if options.json:
        print_answer(answer)
        return
    for each in answer["accepted"]:
        print(visible(each))
    note("accepted as it is" if answer["accepted"] else "nothing to accept: the audit is what the store knows of it")
