"""Lease messages of a tool server: writes join, heartbeat and leave, reads the hall's results and refusals."""

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
# The hall may accept the same message later.
_RETRYABLE_CODES = ("UNAVAILABLE", "RATE_LIMITED", "INTERNAL_ERROR", "TIMEOUT", "CIRCUIT_OPEN")
_MAX_PROBLEMS = 5
_MAX_HEARTBEAT_SECONDS, _MIN_HEARTBEAT_SECONDS = 60.0, 0.05


class _Envelope(msgspec.Struct):
    type: str = ""
    method: str = ""


_envelope_decoder = msgspec.json.Decoder(_Envelope)


class ToolServerEndpoint(msgspec.Struct, frozen=True):
    """The URL at which the hall calls a tool server, and the token it must present there."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"ToolServerEndpoint({self.url!r})"


class JoinResult(msgspec.Struct, frozen=True):
    """A granted lease: its id, the heartbeat interval, and the state of each tool."""

    lease: str
    heartbeat: float = 5.0
    tools: dict[str, str] = {}

    @property
    def heartbeat_seconds(self) -> float:
        """The heartbeat interval, limited to 0.05 to 60 seconds."""
        return min(max(self.heartbeat, _MIN_HEARTBEAT_SECONDS), _MAX_HEARTBEAT_SECONDS)


class HubRefusal(Exception):
    """The hall refused the request; the message is the hall's."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class LeaseUnknown(HubRefusal):
    """The hall does not know the lease (any more): join again."""


class CredentialRefused(HubRefusal):
    """The hall does not accept the credential."""


class RetryableRefusal(HubRefusal):
    """The hall could not answer; the same request may succeed later."""


def is_lease_message(body: bytes) -> bool:
    """True if the envelope is a request of one of METHODS; its params may still be unreadable."""
    try:
        envelope = _envelope_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return envelope.type == "request" and envelope.method in METHODS


def write_join(
    server: str, replica: str, declarations: list[JsonObject], endpoint: ToolServerEndpoint | None
) -> JsonObject:
    """The params of `join`; a server that is called over its own WebSocket has no endpoint."""
    location = {} if endpoint is None else {"url": endpoint.url, "token": endpoint.token}
    return {"server": server, "replica": replica, **location, "tools": declarations}


def write_heartbeat(lease: str, status: str) -> JsonObject:
    """The params of `heartbeat`."""
    return {"lease": lease, "status": status}


def write_leave(lease: str) -> JsonObject:
    """The params of `leave`."""
    return {"lease": lease}


def read_join_result(result: Json) -> JoinResult:
    """The lease that `join` granted; raises RetryableRefusal if it cannot be read."""
    try:
        return msgspec.convert(result, JoinResult)
    except msgspec.ValidationError as error:
        raise RetryableRefusal(f"its response to {JOIN!r} cannot be read: {error}") from None


def read_tool_states(result: Json) -> dict[str, str]:
    """The state of each tool in the result of `heartbeat`; empty if there is none."""
    tools = result.get("tools") if isinstance(result, dict) else None
    return {str(name): str(state) for name, state in tools.items()} if isinstance(tools, dict) else {}


def read_result(body: bytes, request_id: RequestId) -> Json:
    """The result of a request; raises the HubRefusal in it, or RetryableRefusal if it is no response to it."""
    try:
        message = read_tool_server_message(body)
    except Malformed:
        raise RetryableRefusal("its response cannot be read; is it a hall?") from None
    if not isinstance(message, ResponseMessage) or message.id not in (request_id, None):
        raise RetryableRefusal("it responded to another request; is it a hall?")
    return response_result(message)


def response_result(response: ResponseMessage) -> Json:
    """The result of a decoded response; raises the HubRefusal in it."""
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
    """The hall's message, with the first few problems unless the message names them already."""
    listed = (error.details or {}).get("problems")
    problems = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    fixes = [(each.get("path", ""), str(each.get("fix", each.get("reason", "")))) for each in problems]
    problem_texts = [f"{path}: {fix}" for path, fix in fixes if fix not in error.message]
    more = [] if len(problem_texts) <= _MAX_PROBLEMS else [f"and {len(problem_texts) - _MAX_PROBLEMS} more"]
    return "; ".join([error.message or error.code, *problem_texts[:_MAX_PROBLEMS], *more])
