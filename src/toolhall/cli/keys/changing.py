"""`toolhall key create` and `revoke`: a key's secret is printed once, alone on the standard output."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.logs import start_logging
from toolhall.cli.screen import note, visible
from toolhall.cli.sources.credential import VARIABLE
from toolhall.cli.tools.desk import HallOptions, opened
from toolhall.cli.tools.telling import print_answer
from toolhall.model.caller import TRUSTED
from toolhall.model.json import JsonObject


@dataclass(frozen=True)
class CreateOptions(HallOptions):
    """What `toolhall key create` takes.

    Parameters
    ----------
    scopes
        Joined by commas: tools:* or tools:TOOLKIT, admin, approve, act_as, serve:TOOLKIT, trusted. [default: tools:*]
    owner
        The person who answers for it, if that is not of the same name.
    shared
        Several programs will hold it; it then proves less.
    expires
        A time from now such as 90d or 12h, or never.
    """

    scopes: str | None = None
    owner: str | None = None
    shared: bool = False
    expires: str = "90d"


_CREATE = CreateOptions()
_DEFAULTS = HallOptions()


def create(name: str, /, *, options: Annotated[CreateOptions, Parameter(name="*")] = _CREATE) -> None:
    """Make a key; it is printed once, and cannot be shown again.

    Parameters
    ----------
    name
        The caller that its holder is; a second key of a name is for the same caller.
    """
    start_logging(None)
    body: JsonObject = {"name": name, "owner": options.owner, "shared": options.shared, "expires": options.expires}
    if options.scopes is not None:
        body["scopes"] = [scope for scope in map(str.strip, options.scopes.split(",")) if scope]
    with opened(options, changing=True, founding=True) as desk:
        made = desk.manage("POST", "keys", body=body)
    if made["expiresAt"] is None:
        note("This key never expires: whoever finds it can use it until you revoke it.")
    if options.json:
        print_answer({"id": made["id"], "name": made["name"], "secret": made["secret"], "expires": made["expiresAt"]})
        return
    print(made["secret"], flush=True)
    _explain(made)


def revoke(key: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Make a key good for nothing, at once.

    Parameters
    ----------
    key
        Its id, as toolhall key list shows it.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        told = desk.manage("DELETE", "keys", key)
    if options.json:
        print_answer(told)
    else:
        print(visible(f"the key {told['id']} of {told['name']} is revoked"))


def _explain(made: JsonObject) -> None:
    scopes = ", ".join(made["scopes"]) or "nothing"
    until = f"until {made['expiresAt']}" if made["expiresAt"] else "for ever"
    note(visible(f"This is the key {made['id']} of the caller {made['name']}, for {scopes}, {until}."))
    note(f"It is not kept and cannot be shown again. Send it as 'Authorization: Bearer', or put it into {VARIABLE}.")
    if any(scope.startswith("tools:") for scope in made["scopes"]):
        note(visible(f"From level 4 up it needs a grant, too: toolhall grant add {made['name']} 'Toolkit.*'"))
    if any(scope.startswith("serve:") for scope in made["scopes"]) and TRUSTED not in made["scopes"]:
        note("What joins with it is called once somebody has looked at it: toolhall tool activate Toolkit.tool")
