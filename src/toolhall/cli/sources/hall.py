"""What a running hall says of its tools beside MCP: which there are, and why one is not offered."""

import shlex
import time

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import visible
from toolhall.cli.tools.desk import HallOptions, opened

_NEXT = {
    "quarantined": "look at it with 'toolhall tool show {0}', then serve it with 'toolhall tool activate {0}'",
    "registered": "'toolhall tool activate {0}' serves it",
    "inactive": "'toolhall tool activate {0}' serves it again",
}


class _Known(msgspec.Struct):
    """What management tells of a tool, as far as it matters here."""

    id: str
    state: str
    served: bool = True
    effectiveLevel: int | None = None  # noqa: N815 - as it is written
    sunset: str | None = None
    successor: str | None = None


def why_not(hall: HallOptions, wanted: str) -> str | None:
    """The hall's reason, and what to do; None from a server that knows no such tool, or cannot be asked."""
    known = _ask(hall, wanted)
    if known is None:
        return None
    instead = f"; call {known.successor} instead" if known.successor else ""
    gone = f", and gone from {known.sunset} on" if known.sunset else ""
    if known.sunset and known.sunset <= time.strftime("%Y-%m-%d", time.gmtime()):
        return visible(f"{known.id} was retired on {known.sunset}{instead}")
    if known.state in _NEXT:
        # An id is what somebody else wrote: in a command it must stay one word. A query could hold a secret.
        where = (hall.url or "").partition("?")[0]
        then = _NEXT[known.state].format(f"{shlex.quote(known.id)} --url {shlex.quote(where)}")
        return visible(f"{known.id} is {known.state}{gone}; {then}{instead}")
    if not known.served:
        return visible(f"{known.id} is {known.state}, but it is not among what is served there{gone}{instead}")
    return None


def _ask(hall: HallOptions, wanted: str) -> _Known | None:
    try:
        with opened(hall) as desk:
            return msgspec.convert(desk.ask("GET", wanted), _Known)
    except CommandFailed:  # another kind of server
        return None


def served_ids(hall: HallOptions) -> set[str]:
    """The ids of everything that a hall serves; none from a server that cannot be asked."""
    return {known.id for known in _active(hall) if known.served}


def levels_by_id(hall: HallOptions) -> dict[str, int]:
    """The levels that count for the tools of a hall; none from a server that cannot be asked."""
    return {known.id: known.effectiveLevel for known in _active(hall) if known.effectiveLevel is not None}


def _active(hall: HallOptions) -> list[_Known]:
    try:
        with opened(hall) as desk:
            return msgspec.convert([*desk.tools({"state": "active"})], list[_Known])
    except (CommandFailed, msgspec.ValidationError, LookupError, TypeError):  # another kind of server
        return []
