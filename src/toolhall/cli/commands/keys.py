"""`toolhall key create`, `list` and `revoke`; a key's secret is printed once, alone on stdout."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.clients.http import KEY_VARIABLE
from toolhall.cli.clients.management import open_management
from toolhall.cli.logs import start_logging
from toolhall.cli.options import HallOptions
from toolhall.cli.output import DIM, GREEN, YELLOW, note, print_answer_json, print_rows, visible
from toolhall.model.caller import TRUSTED_SERVER
from toolhall.model.json import JsonObject

_DEFAULTS = HallOptions()
_COLUMNS = ("id", "name", "state", "scopes", "expires", "last used", "owner")
_STYLES = {"good": GREEN, "expired": YELLOW, "revoked": DIM}


def list_keys(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List every key, also expired and revoked ones; the keys themselves are not stored."""
    start_logging(None)
    with open_management(options) as client:
        keys = client.request("GET", "keys")["keys"]
        if options.json:
            print_answer_json(keys)
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


@dataclass(frozen=True)
class KeyCreateOptions(HallOptions):
    """Options of `toolhall key create`.

    Parameters
    ----------
    scopes
        Joined by commas: tools:* or tools:TOOLKIT, admin, approve, act_as, serve:TOOLKIT, trusted. [default: tools:*]
    owner
        The person responsible for it, if that is not the person of the same name.
    shared
        Several programs will hold it; it then proves less.
    expires
        A time from now such as 90d or 12h, or never.
    """

    scopes: str | None = None
    owner: str | None = None
    shared: bool = False
    expires: str = "90d"


_CREATE_DEFAULTS = KeyCreateOptions()


def create(name: str, /, *, options: Annotated[KeyCreateOptions, Parameter(name="*")] = _CREATE_DEFAULTS) -> None:
    """Make a key; it is printed once, and cannot be shown again.

    Parameters
    ----------
    name
        The caller that the key stands for; a second key with this name is for the same caller.
    """
    start_logging(None)
    body: JsonObject = {"name": name, "owner": options.owner, "shared": options.shared, "expires": options.expires}
    if options.scopes is not None:
        body["scopes"] = [scope for scope in map(str.strip, options.scopes.split(",")) if scope]
    with open_management(options, write=True, create=True) as client:
        made = client.request("POST", "keys", body=body)
    if made["expiresAt"] is None:
        note("This key never expires: whoever finds it can use it until you revoke it.")
    if options.json:
        print_answer_json(
            {"id": made["id"], "name": made["name"], "secret": made["secret"], "expires": made["expiresAt"]}
        )
        return
    print(made["secret"], flush=True)
    _print_key_notes(made)


def revoke(key: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Revoke a key, at once.

    Parameters
    ----------
    key
        Its id, as toolhall key list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        answer = client.request("DELETE", "keys", key)
    if options.json:
        print_answer_json(answer)
    else:
        print(visible(f"the key {answer['id']} of {answer['name']} is revoked"))


def _print_key_notes(made: JsonObject) -> None:
    scopes = ", ".join(made["scopes"]) or "nothing"
    until = f"until {made['expiresAt']}" if made["expiresAt"] else "for ever"
    note(visible(f"This is the key {made['id']} of the caller {made['name']}, for {scopes}, {until}."))
    note(
        f"It is not kept and cannot be shown again. Send it as 'Authorization: Bearer', or put it into {KEY_VARIABLE}."
    )
    if any(scope.startswith("tools:") for scope in made["scopes"]):
        note(visible(f"From level 4 up it needs a grant, too: toolhall grant add {made['name']} 'Toolkit.*'"))
    if any(scope.startswith("serve:") for scope in made["scopes"]) and TRUSTED_SERVER not in made["scopes"]:
        note("What joins with it is called once somebody has looked at it: toolhall tool activate Toolkit.tool")
