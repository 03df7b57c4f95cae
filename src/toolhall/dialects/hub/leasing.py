"""What a tool server says to join a hall, to stay and to leave, and how it reads what the hall says to that."""

import msgspec

from toolhall.dialects.hub.messages import RequestId
from toolhall.dialects.hub.remote import ErrorSaid, Responded, read_report
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject

JOIN, HEARTBEAT, LEAVE = "join", "heartbeat", "leave"
METHODS = frozenset({JOIN, HEARTBEAT, LEAVE})
QUARANTINED = "quarantined"
LEASE_UNKNOWN = "LEASE_UNKNOWN"
UNAUTHENTICATED = "UNAUTHENTICATED"
# The hall may say yes to the very same message a little later.
_PASSING = ("UNAVAILABLE", "RATE_LIMITED", "INTERNAL_ERROR", "TIMEOUT", "CIRCUIT_OPEN")
_MOST_PROBLEMS = 5
_SLOWEST, _FASTEST = 60.0, 0.05


class _Envelope(msgspec.Struct):
    type: str = ""
    method: str = ""


_envelope = msgspec.json.Decoder(_Envelope)


class Place(msgspec.Struct, frozen=True):
    """Where the hall reaches a tool server that listens, and what it must bring along."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Place({self.url!r})"


class Held(msgspec.Struct, frozen=True):
    """A lease: what it is called, how often to say that one is still there, and what became of each tool."""

    lease: str
    heartbeat: float = 5.0
    tools: dict[str, str] = {}

    @property
    def seconds(self) -> float:
        """Between two heartbeats, within reason."""
        return min(max(self.heartbeat, _FASTEST), _SLOWEST)


class Refusal(Exception):
    """The hall says no; the message is its own."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class LeaseUnknown(Refusal):
    """It does not know the lease (any more): join again."""


class NotProven(Refusal):
    """It does not know who asks."""


class NotNow(Refusal):
    """It could not answer; the same may work later."""


def is_about_a_lease(body: bytes) -> bool:
    """Whether a message is one of these; it may still be one that cannot be read."""
    try:
        said = _envelope.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return said.type == "request" and said.method in METHODS


def write_join(server: str, replica: str, declarations: list[JsonObject], place: Place | None) -> JsonObject:
    """The params of `join`; a server that is called over its own socket is at no place."""
    where = {} if place is None else {"url": place.url, "token": place.token}
    return {"server": server, "replica": replica, **where, "tools": declarations}


def write_heartbeat(lease: str, status: str) -> JsonObject:
    """The params of `heartbeat`."""
    return {"lease": lease, "status": status}


def write_leave(lease: str) -> JsonObject:
    """The params of `leave`."""
    return {"lease": lease}


def read_held(result: Json) -> Held:
    """The lease that `join` gave; NotNow for what is none."""
    try:
        return msgspec.convert(result, Held)
    except msgspec.ValidationError as error:
        raise NotNow(f"its answer to {JOIN!r} cannot be read: {error}") from None


def read_tools(result: Json) -> dict[str, str]:
    """What became of each tool, as the answer to `heartbeat` says; nothing where it does not say."""
    tools = result.get("tools") if isinstance(result, dict) else None
    return {str(name): str(state) for name, state in tools.items()} if isinstance(tools, dict) else {}


def read_result(body: bytes, request_id: RequestId) -> Json:
    """The result of a request; raises the Refusal that it was answered with, NotNow where it is no answer."""
    try:
        said = read_report(body)
    except Malformed:
        raise NotNow("its answer cannot be read; is it a hall?") from None
    if not isinstance(said, Responded) or said.id not in (request_id, None):
        raise NotNow("it answers something else; is it a hall?")
    return result_of(said)


def result_of(said: Responded) -> Json:
    """The same of a response that was read."""
    if said.error is None:
        return said.result
    if said.error.code == LEASE_UNKNOWN:
        raise LeaseUnknown(said.error.message)
    if said.error.code == UNAUTHENTICATED:
        raise NotProven(_told(said.error))
    raise (NotNow if said.error.code in _PASSING else Refusal)(_told(said.error))


def _told(error: ErrorSaid) -> str:
    """The hall's words, with the first few things that are wrong, unless it named them already."""
    listed = (error.details or {}).get("problems")
    problems = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    fixes = [(each.get("path", ""), str(each.get("fix", each.get("reason", "")))) for each in problems]
    said = [f"{path}: {fix}" for path, fix in fixes if fix not in error.message]
    more = [] if len(said) <= _MOST_PROBLEMS else [f"and {len(said) - _MOST_PROBLEMS} more"]
    return "; ".join([error.message or error.code, *said[:_MOST_PROBLEMS], *more])
