"""`toolhall grant add`, `list` and `remove`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import GREEN, RED, note, visible, visible_json
from toolhall.cli.tables import print_rows
from toolhall.cli.tools.desk import HallOptions, opened
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import Json, JsonObject


@dataclass(frozen=True)
class AddOptions(HallOptions):
    """What `toolhall grant add` takes.

    Parameters
    ----------
    forbid
        Forbid it, whatever else permits it.
    when
        Only for calls with this argument, such as /repo=main; the same place twice means one of the values, different
        places must all fit. A value is JSON, or else a text.
    """

    forbid: bool = False
    when: tuple[str, ...] = ()


_ADD = AddOptions()
_DEFAULTS = HallOptions()
_STYLES = {"permit": GREEN, "forbid": RED}


def add(callers: str, tools: str, /, *, options: Annotated[AddOptions, Parameter(name="*")] = _ADD) -> None:
    """Permit callers tools, or forbid them; it counts at once.

    Parameters
    ----------
    callers
        A caller's id, such as the name of a key, or a pattern: 'ci-*'.
    tools
        A tool's id, or a pattern: 'Calendar.*'; without a version it means all versions.
    """
    start_logging(None)
    conditions = _conditions(options.when)
    effect = "forbid" if options.forbid else "permit"
    body: JsonObject = {"callers": callers, "tools": tools, "effect": effect, "conditions": conditions}
    with opened(options, changing=True, founding=True) as desk:
        made = desk.manage("POST", "grants", body=body)
    if options.json:
        print_answer(made)
    else:
        print(visible(_said(made)))
        for warning in made.get("warnings", ()):  # a hall of an earlier version tells none
            note(visible(f"warning: {warning}"))


def list_grants(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List every grant; a call is permitted by one that permits it and by none that forbids it."""
    start_logging(None)
    with opened(options) as desk:
        grants = desk.manage("GET", "grants")["grants"]
        if options.json:
            print_answer(grants)
        elif grants:
            rows = [(each["id"], each["effect"], each["callers"], each["tools"], _when(each)) for each in grants]
            print_rows(("id", "effect", "callers", "tools", "when"), rows, _STYLES)
        else:
            note("there are no grants; add one with 'toolhall grant add CALLER TOOLS'")


def remove(grant: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Take a grant back, at once.

    Parameters
    ----------
    grant
        Its id, as toolhall grant list shows it.
    """
    start_logging(None)
    with opened(options, changing=True) as desk:
        told = desk.manage("DELETE", "grants", grant)
    if options.json:
        print_answer(told)
    else:
        print(visible(f"the grant {told['removed']} is removed"))


def _conditions(words: Sequence[str]) -> list[JsonObject]:
    """One for each place; the values of a place are alternatives."""
    places: dict[str, list[Json]] = {}
    for word in words:
        path, mark, text = word.partition("=")
        if not mark or not path.startswith("/"):
            raise WrongUsage(f"--when {word!r} is no condition; write it like /repo=main")
        places.setdefault(path, []).append(_value(text))
    return [{"path": path, "oneOf": values} for path, values in places.items()]


def _value(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _said(grant: JsonObject) -> str:
    when = _when(grant)
    verb = "may not" if grant["effect"] == "forbid" else "may"
    only = f" when {when}" if when else ""
    return f"{grant['id']}: {grant['callers']} {verb} call {grant['tools']}{only}"


def _when(grant: JsonObject) -> str:
    return ", ".join(f"{each['path']} is {_values(each['oneOf'])}" for each in grant["conditions"])


def _values(values: Sequence[Json]) -> str:
    return " or ".join(map(visible_json, values))
