"""`toolhall secret list`: which secrets there are, and nothing of their values."""

from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.logs import start_logging
from toolhall.cli.screen import GREEN, RED, note
from toolhall.cli.secrets.options import opened_vault
from toolhall.cli.tables import print_rows
from toolhall.cli.tools.desk import HallOptions
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import JsonObject

_DEFAULTS = HallOptions()
_COLUMNS = ("id", "for", "state", "hint", "changed", "by")
_STYLES = {"good": GREEN, "damaged": RED}


def list_secrets(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List every secret; a hint is another one when the value is another, and says nothing else of it."""
    start_logging(None)
    with opened_vault(options) as desk:
        found = desk.manage("GET", "secrets")["secrets"]
    if options.json:
        print_answer(found)
    elif found:
        print_rows(_COLUMNS, [_row(each) for each in found], _STYLES)
    else:
        note("there are no secrets; keep one with 'toolhall secret set ID'")


def _row(secret: JsonObject) -> tuple[str, ...]:
    state = "good" if secret["usable"] else "damaged"
    return secret["name"], secret["user"] or "everybody", state, secret["hint"], secret["changedAt"], secret["by"]
