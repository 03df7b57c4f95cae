"""Lease messages of a tool server: writes join, heartbeat and leave, and reads the hall's results and refusals."""

import msgspec

from toolhall.dialects.hub.call_messages import ErrorPayload, ResponseMessage, read_tool_server_message
from toolhall.dialects.hub.messages import RequestId
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject

JOIN, HEARTBEAT, LEAVE = "join", "heartbeat", "leave"
METHODS = frozenset({JOIN, HEARTBEAT, LEAVE})
QUARANTINED = "quarantined"
LEASE_UNKNOWN = "LEASE_UNKNOWN"
UNAUTHENTICATED = "UNAUTHENTICATED"
# The hall may say yes to the very same message a little later.
_RETRYABLE_CODES = ("UNAVAILABLE", "RATE_LIMITED", "INTERNAL_ERROR", "TIMEOUT", "CIRCUIT_OPEN")
_MAX_PROBLEMS = 5
_MAX_HEARTBEAT_SECONDS, _MIN_HEARTBEAT_SECONDS = 60.0, 0.05


class _Envelope(msgspec.Struct):
    type: str = ""
    method: str = ""


_envelope_decoder = msgspec.json.Decoder(_Envelope)


class ToolServerEndpoint(msgspec.Struct, frozen=True):
    """Where the hall reaches a tool server that listens, and what it must bring along."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"ToolServerEndpoint({self.url!r})"


class JoinResult(msgspec.Struct, frozen=True):
    """A lease: what it is called, how often to say that one is still there, and what became of each tool."""

    lease: str
    heartbeat: float = 5.0
    tools: dict[str, str] = {}

    @property
    def heartbeat_seconds(self) -> float:
        """Between two heartbeats, within reason."""
        return min(max(self.heartbeat, _MIN_HEARTBEAT_SECONDS), _MAX_HEARTBEAT_SECONDS)


class HubRefusal(Exception):
    """The hall says no; the message is its own."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class LeaseUnknown(HubRefusal):
    """It does not know the lease (any more): join again."""


class CredentialRefused(HubRefusal):
    """It does not know who asks."""


class RetryableRefusal(HubRefusal):
    """It could not answer; the same may work later."""


def is_lease_message(body: bytes) -> bool:
    """Whether a message is one of these; it may still be one that cannot be read."""
    try:
        said = _envelope_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return said.type == "request" and said.method in METHODS


def write_join(
    server: str, replica: str, declarations: list[JsonObject], endpoint: ToolServerEndpoint | None
) -> JsonObject:
    """The params of `join`; a server that is called over its own socket is at no place."""
    where = {} if endpoint is None else {"url": endpoint.url, "token": endpoint.token}
    return {"server": server, "replica": replica, **where, "tools": declarations}


def write_heartbeat(lease: str, status: str) -> JsonObject:
    """The params of `heartbeat`."""
    return {"lease": lease, "status": status}


def write_leave(lease: str) -> JsonObject:
    """The params of `leave`."""
    return {"lease": lease}


def read_join_result(result: Json) -> JoinResult:
    """The lease that `join` gave; NotNow for what is none."""
    try:
        return msgspec.convert(result, JoinResult)
    except msgspec.ValidationError as error:
        raise RetryableRefusal(f"its answer to {JOIN!r} cannot be read: {error}") from None


def read_tool_states(result: Json) -> dict[str, str]:
    """What became of each tool, as the answer to `heartbeat` says; nothing where it does not say."""
    tools = result.get("tools") if isinstance(result, dict) else None
    return {str(name): str(state) for name, state in tools.items()} if isinstance(tools, dict) else {}


def read_result(body: bytes, request_id: RequestId) -> Json:
    """The result of a request; raises the Refusal that it was answered with, NotNow where it is no answer."""
    try:
        said = read_tool_server_message(body)
    except Malformed:
        raise RetryableRefusal("its answer cannot be read; is it a hall?") from None
    if not isinstance(said, ResponseMessage) or said.id not in (request_id, None):
        raise RetryableRefusal("it answers something else; is it a hall?")
    return response_result(said)


def response_result(response: ResponseMessage) -> Json:
    """The same of a response that was read."""
    if response.error is None:
        return response.result
    if response.error.code == LEASE_UNKNOWN:
        raise LeaseUnknown(response.error.message)
    if response.error.code == UNAUTHENTICATED:
        raise CredentialRefused(_refusal_message(response.error))
    raise (RetryableRefusal if response.error.code in _RETRYABLE_CODES else HubRefusal)(
        _refusal_message(response.error)
    )


def _refusal_message(error: ErrorPayload) -> str:
    """The hall's words, with the first few things that are wrong, unless it named them already."""
    listed = (error.details or {}).get("problems")
    problems = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    fixes = [(each.get("path", ""), str(each.get("fix", each.get("reason", "")))) for each in problems]
    said = [f"{path}: {fix}" for path, fix in fixes if fix not in error.message]
    more = [] if len(said) <= _MAX_PROBLEMS else [f"and {len(said) - _MAX_PROBLEMS} more"]
    return "; ".join([error.message or error.code, *said[:_MAX_PROBLEMS], *more])
