"""`RequestState`: the sealed `requestState` that carries questions and replies through the client.

A state is bound to the caller and the exact call, expires, and is consumed by its first use.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from toolhall.dialects.mcp.protocol import JsonRpcRequest, McpRefusal, invalid_params
from toolhall.model.caller import Caller
from toolhall.model.errors import Limited, Unavailable
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import CallConsent, CallTool
from toolhall.stores.approvals import MemoryUsedStateStore, TooManyStates, UsedStateStore
from toolhall.stores.common import StoreFailed
from toolhall.stores.crypto import SealedBox

MAX_ROUNDS = 5
STATE_SECONDS = 600.0
NO_RESULTS: Mapping[str, bytes] = {}


class _SealedState(msgspec.Struct, frozen=True):
    """The content of a request state, which the client carries but cannot read."""

    replies: JsonObject
    asked: list[str]
    round: int
    expires: float
    consent: CallConsent | None = None
    results: dict[str, bytes] = {}  # of `ctx.once`


class RequestState:
    """Opens the state of a request and seals the next one, bound to the caller and to this exact call."""

    def __init__(self, seal: SealedBox, clock: Callable[[], float]) -> None:
        self._seal = seal
        self._clock = clock
        # Called with what a tool remembered whose next round was refused: an upstream may still wait for it.
        self.on_refused: Callable[[Mapping[str, bytes]], None] = _do_nothing
        self.used_states: UsedStateStore = MemoryUsedStateStore()  # in memory until the store is open
        self._decode = msgspec.json.Decoder(_SealedState).decode

    def replies(self, request: JsonRpcRequest, call: CallTool, caller: Caller) -> Mapping[str, Json]:
        """Return every reply so far; McpRefusal for a state of another call, or an expired one."""
        state, replies = self._state(request, call, caller), request.params.get("inputResponses")
        if replies is None:
            replies = {}
        elif not isinstance(replies, dict):
            raise invalid_params("inputResponses must be an object")
        if state is None:  # the first round has no state to carry, so a client may omit it
            return replies
        return {**state.replies, **{key: reply for key, reply in replies.items() if key in state.asked}}

    def results(self, request: JsonRpcRequest, call: CallTool, caller: Caller) -> dict[str, bytes]:
        """Return what the tool remembered in the rounds before; McpRefusal as for `replies`."""
        state = self._state(request, call, caller)
        return {} if state is None else dict(state.results)

    async def consume(self, request: JsonRpcRequest, call: CallTool, caller: Caller) -> CallConsent | None:
        """Use up the state and return the consent in it; McpRefusal if it was used before."""
        state = self._state(request, call, caller)
        if state is None:
            return None
        try:
            fresh = await self.used_states.consume(_state_id(request), caller.id, state.expires, self._clock())
        except TooManyStates as many:
            raise Limited(many.seconds) from None
        except StoreFailed as failed:
            raise Unavailable("a call cannot go on now: its state cannot be used up", detail=str(failed)) from None
        if not fresh:
            raise invalid_params("requestState was used before, and is good once; start the call again")
        return state.consent

    async def release(self, request: JsonRpcRequest) -> None:
        """Allow the same state once more, because the call did not run."""
        with suppress(StoreFailed):
            await self.used_states.release(_state_id(request))

    def seal_next(
        self,
        request: JsonRpcRequest,
        call: CallTool,
        caller: Caller,
        asked: list[str],
        consent: CallConsent | None = None,
        results: Mapping[str, bytes] = NO_RESULTS,
    ) -> str:
        """Return the state to send with these questions; a consent holds for all rounds that follow."""
        state = self._state(request, call, caller)
        round_number = state.round + 1 if state else 1
        if round_number > MAX_ROUNDS:
            raise invalid_params(f"the tool asked more than {MAX_ROUNDS} times; start the call again")
        replies = dict(self.replies(request, call, caller))
        consent = consent or (state.consent if state else None)
        next_state = _SealedState(replies, asked, round_number, self._clock() + STATE_SECONDS, consent, dict(results))
        return self._seal.seal(encode(next_state), _binding(call, caller))

    def _state(self, request: JsonRpcRequest, call: CallTool, caller: Caller) -> _SealedState | None:
        sealed = request.params.get("requestState")
        if sealed is None:
            return None
        text = self._seal.open(sealed, _binding(call, caller)) if isinstance(sealed, str) else None
        state = self._decode(text) if text is not None else None
        if state is None or state.expires < self._clock():
            raise _invalid_state()
        return state


def _do_nothing(results: Mapping[str, bytes]) -> None:
    """Nothing waits."""


def _state_id(request: JsonRpcRequest) -> str:
    """Return the digest of a state; a state that opens has only one spelling."""
    return hashlib.sha256(str(request.params.get("requestState")).encode()).hexdigest()


def _invalid_state() -> McpRefusal:
    return invalid_params("requestState is not valid for this call, or too old; start the call again")


def _binding(call: CallTool, caller: Caller) -> bytes:
    """Return the digest that a state is sealed to; any other caller, tool or argument has another one."""
    bound = msgspec.json.encode([caller.id, call.kind, call.tool, call.arguments], order="sorted")
    return hashlib.sha256(bound).digest()
