"""`toolhall grant add`, `list` and `remove`: who may call what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.cli.clients.management import open_management
from toolhall.cli.errors import UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.options import HallOptions
from toolhall.cli.output import GREEN, RED, note, print_answer_json, print_rows, visible, visible_json
from toolhall.model.json import Json, JsonObject


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
_DEFAULTS = HallOptions()
_STYLES = {"permit": GREEN, "forbid": RED}


def add(
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
            print_rows(("id", "effect", "callers", "tools", "when"), rows, _STYLES)
        else:
            note("there are no grants; add one with 'toolhall grant add CALLER TOOLS'")


def remove(grant: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
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
