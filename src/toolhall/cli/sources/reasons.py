"""Why a running hall does not offer a tool that it knows: its state, its end, what to call instead."""

import shlex
import time
from urllib.parse import quote

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import visible
from toolhall.cli.sources.wire import Endpoint, Exchange

_MCP_PATH = "/mcp"
_SECONDS = 10.0
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
    sunset: str | None = None
    successor: str | None = None


def why_not(endpoint: Endpoint, wanted: str) -> str | None:
    """The hall's reason, and what to do; None from a server that knows no such tool, or cannot be asked."""
    known = _ask(endpoint, wanted)
    if known is None:
        return None
    instead = f"; call {known.successor} instead" if known.successor else ""
    gone = f", and gone from {known.sunset} on" if known.sunset else ""
    if known.sunset and known.sunset <= time.strftime("%Y-%m-%d", time.gmtime()):
        return visible(f"{known.id} was retired on {known.sunset}{instead}")
    if known.state in _NEXT:
        # An id is what somebody else wrote; in a command it must stay one word.
        then = _NEXT[known.state].format(f"{shlex.quote(known.id)} --url {_base(endpoint)}")
        return visible(f"{known.id} is {known.state}{gone}; {then}{instead}")
    if not known.served:
        return visible(f"{known.id} is {known.state}, but it is not among what is served there{gone}{instead}")
    return None


def _ask(endpoint: Endpoint, wanted: str) -> _Known | None:
    base = endpoint.path.partition("?")[0].removesuffix(_MCP_PATH).rstrip("/")
    place = msgspec.structs.replace(endpoint, path=f"{base}/api/tools/{quote(wanted, safe='')}")
    try:
        with Exchange(place, _SECONDS) as exchange:
            status = exchange.send("GET", {"Accept": "application/json"})
            said = next(exchange.messages(), None)
        return msgspec.convert(said, _Known) if status == 200 else None
    except (CommandFailed, msgspec.ValidationError):  # another kind of server
        return None


def _base(endpoint: Endpoint) -> str:
    return str(endpoint).removesuffix(_MCP_PATH)
