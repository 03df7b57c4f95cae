"""`toolhall key create`, `list` and `revoke`: who may call; `toolhall grant add`, `list`, `remove`: who may call what.

A key's secret is printed once, alone on stdout.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.cli.clients.http import KEY_VARIABLE
from toolhall.cli.clients.management import open_management
from toolhall.cli.errors import UsageError
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import DIM, GREEN, RED, YELLOW, note, print_answer_json, print_rows, visible, visible_json
from toolhall.model.caller import TRUSTED_SERVER
from toolhall.model.json import Json, JsonObject

_DEFAULTS = HallOptions()
_KEY_COLUMNS = ("id", "name", "state", "scopes", "expires", "last used", "owner")
_KEY_STYLES = {"good": GREEN, "expired": YELLOW, "revoked": DIM}


def list_keys(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List every key, also expired and revoked ones; the keys themselves are not stored."""
    start_logging(None)
    with open_management(options) as client:
        keys = client.request("GET", "keys")["keys"]
        if options.json:
            print_answer_json(keys)
        elif keys:
            print_rows(_KEY_COLUMNS, [_key_row(each) for each in keys], _KEY_STYLES)
        else:
            note("there are no keys; make one with 'toolhall key create NAME'")


def _key_row(key: JsonObject) -> tuple[str, ...]:
    owner = key["owner"] or ""
    return (
        key["id"],
        f"{key['name']} (shared)" if key["shared"] else key["name"],
        _key_state(key),
        ", ".join(key["scopes"]),
        key["expiresAt"] or "never",
        key["lastUsedAt"] or "never",
        owner,
    )


def _key_state(key: JsonObject) -> str:
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
        Joined by commas: tools:* or tools:TOOLKIT, admin, observe, approve, act_as, serve:TOOLKIT, trusted.
        [default: tools:*]
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


def create_key(name: str, /, *, options: Annotated[KeyCreateOptions, Parameter(name="*")] = _CREATE_DEFAULTS) -> None:
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


def revoke_key(key: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
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


@dataclass(frozen=True)
class GrantAddOptions(HallOptions):
    """Options of `toolhall grant add`.

    Parameters
    ----------
    forbid
        Forbid it, whatever else permits it.
    when
        Only for calls with this argument, such as /repo=main; several values of one path are alternatives, different
        paths must all match. A value is JSON, or else text.
    """

    forbid: bool = False
    when: tuple[str, ...] = ()


_ADD_DEFAULTS = GrantAddOptions()
_EFFECT_STYLES = {"permit": GREEN, "forbid": RED}


def add_grant(
    callers: str, tools: str, /, *, options: Annotated[GrantAddOptions, Parameter(name="*")] = _ADD_DEFAULTS
) -> None:
    """Permit or forbid tools to callers; it takes effect at once.

    Parameters
    ----------
    callers
        A caller's id, such as the name of a key, or a pattern: 'ci-*'.
    tools
        A tool's id, or a pattern: 'Calendar.*'; without a version it means all versions.
    """
    start_logging(None)
    conditions = _parse_conditions(options.when)
    effect = "forbid" if options.forbid else "permit"
    body: JsonObject = {"callers": callers, "tools": tools, "effect": effect, "conditions": conditions}
    with open_management(options, write=True, create=True) as client:
        made = client.request("POST", "grants", body=body)
    if options.json:
        print_answer_json(made)
    else:
        print(visible(_grant_text(made)))
        for warning in made.get("warnings", ()):  # an older hall sends none
            note(visible(f"warning: {warning}"))


def list_grants(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List every grant; a call is permitted by one that permits it and by none that forbids it."""
    start_logging(None)
    with open_management(options) as client:
        grants = client.request("GET", "grants")["grants"]
        if options.json:
            print_answer_json(grants)
        elif grants:
            rows = [
                (each["id"], each["effect"], each["callers"], each["tools"], _conditions_text(each)) for each in grants
            ]
            print_rows(("id", "effect", "callers", "tools", "when"), rows, _EFFECT_STYLES)
        else:
            note("there are no grants; add one with 'toolhall grant add CALLER TOOLS'")


def remove_grant(grant: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Remove a grant, at once.

    Parameters
    ----------
    grant
        Its id, as toolhall grant list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        answer = client.request("DELETE", "grants", grant)
    if options.json:
        print_answer_json(answer)
    else:
        print(visible(f"the grant {answer['removed']} is removed"))


def _parse_conditions(words: Sequence[str]) -> list[JsonObject]:
    """One condition for each path; several values of a path are alternatives."""
    values_by_path: dict[str, list[Json]] = {}
    for word in words:
        path, mark, text = word.partition("=")
        if not mark or not path.startswith("/"):
            raise UsageError(f"--when {word!r} is no condition; write it like /repo=main")
        values_by_path.setdefault(path, []).append(_parse_value(text))
    return [{"path": path, "oneOf": values} for path, values in values_by_path.items()]


def _parse_value(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _grant_text(grant: JsonObject) -> str:
    when = _conditions_text(grant)
    verb = "may not" if grant["effect"] == "forbid" else "may"
    only = f" when {when}" if when else ""
    return f"{grant['id']}: {grant['callers']} {verb} call {grant['tools']}{only}"


def _conditions_text(grant: JsonObject) -> str:
    return ", ".join(f"{each['path']} is {_values_text(each['oneOf'])}" for each in grant["conditions"])


def _values_text(values: Sequence[Json]) -> str:
    return " or ".join(map(visible_json, values))
