"""`toolhall key list`: who has a key, what for, until when, and when it was last used."""

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.logs import start_logging
from toolhall.cli.screen import DIM, GREEN, YELLOW, note
from toolhall.cli.tables import print_rows
from toolhall.cli.tools.desk import HallOptions, opened
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import JsonObject

_DEFAULTS = HallOptions()
_COLUMNS = ("id", "name", "state", "scopes", "expires", "last used", "owner")
_STYLES = {"good": GREEN, "expired": YELLOW, "revoked": DIM}


def list_keys(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List every key, also what has expired or was revoked; what is secret is not kept."""
    start_logging(None)
    with opened(options) as desk:
        keys = desk.manage("GET", "keys")["keys"]
        if options.json:
            print_answer(keys)
        elif keys:
            print_rows(_COLUMNS, [_row(each) for each in keys], _STYLES)
        else:
            note("there are no keys; make one with 'toolhall key create NAME'")


def _row(key: JsonObject) -> tuple[str, ...]:
    owner = key["owner"] or ""
    return (
        key["id"],
        f"{key['name']} (shared)" if key["shared"] else key["name"],
        _state(key),
        ", ".join(key["scopes"]),
        key["expiresAt"] or "never",
        key["lastUsedAt"] or "never",
        owner,
    )


def _state(key: JsonObject) -> str:
    if key["revokedAt"]:
        return "revoked"
    expires = key["expiresAt"]
    return "expired" if expires and datetime.fromisoformat(expires) <= datetime.now(UTC) else "good"
