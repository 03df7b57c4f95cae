"""Dispatcher: the one entry for requests of every dialect; answers each, with an error instead of an exception."""

import logging
import secrets
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, ToolhallError
from toolhall.model.messages import (
    NULL_LINK,
    Answer,
    Call,
    CallTool,
    ClientLink,
    DispatchRequest,
    InputRequired,
    InputRequiredSignal,
)
from toolhall.model.tool import Tool
from toolhall.pipeline.access_rules import AccessRules
from toolhall.pipeline.admin import AdminExecutor
from toolhall.pipeline.pipeline import Pipeline
from toolhall.pipeline.policy import LevelPolicy
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Shortlist, Snapshot

_log = logging.getLogger("toolhall")
T = TypeVar("T")
MAX_CACHED_CALLERS = 256  # the caches of the least recent caller are dropped


class Dispatcher:
    """Answers requests; raises nothing but cancellation."""

    def __init__(
        self,
        registry: Registry,
        policy: LevelPolicy,
        pipeline: Pipeline,
        *,
        new_id: Callable[[], str],
        timer: Callable[[], float],
        shortlist: Shortlist | None = None,
    ) -> None:
        self.registry = registry
        self.shortlist = shortlist or Shortlist()
        self.policy = policy
        self._pipeline = pipeline
        self.audit = pipeline.audit
        self._new_id = new_id
        self._timer = timer
        self._caller_caches: dict[Hashable, _CallerCache] = {}
        self.admin = AdminExecutor(policy, pipeline.audit, new_id=new_id, timer=timer)

    async def answer(self, request: DispatchRequest, caller: Caller, link: ClientLink = NULL_LINK) -> Answer:
        """Return a page of tools, a completed call, questions that the caller must answer, or an error."""
        try:
            if isinstance(request, CallTool):
                return await self._pipeline(self._new_call(request, caller, link))
            return self.visible_snapshot(caller).page(request.cursor)
        except ToolhallError as error:
            if error.detail:
                _log.warning("%s: %s", type(error).__name__, error.detail)
            return error
        except InputRequiredSignal as signal:
            return InputRequired(signal.questions, signal.consent)
        except Exception:  # noqa: BLE001 - a fault of ours ends one call, never the server
            _log.exception("internal error while answering %s", type(request).__name__)
            return Broken()

    def refuse(self, request: CallTool, caller: Caller, error: ToolhallError) -> ToolhallError:
        """Record and count a call that its dialect rejects; returns the error, or Limited after too many."""
        return self._pipeline.refuse(self._new_call(request, caller, NULL_LINK), error)

    def record_refusal(self, request: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record a call that was rejected and has been counted."""
        self._pipeline.record_refusal(self._new_call(request, caller, NULL_LINK), error)

    async def record_repeat(self, request: CallTool, caller: Caller) -> ToolhallError | None:
        """Record a call that gets the stored answer of an equal one; returns the error if it would be refused now."""
        try:
            await self._pipeline.record_repeat(self._new_call(request, caller, NULL_LINK))
        except ToolhallError as error:
            return error
        return None

    def set_rules(self, rules: AccessRules) -> None:
        """Replace the access rules, and notify clients that their tool list may have changed."""
        self.policy.set_rules(rules)
        self._caller_caches.clear()
        self.registry.notify_visibility_changed()

    def find(self, name: str, caller: Caller) -> Tool | None:
        """Return the tool that a call by this name would reach, if the caller may see it."""
        entry = self.registry.snapshot.find(name)
        return entry.tool if entry and self.policy.can_see(caller, entry.tool) else None

    def _new_call(self, request: CallTool, caller: Caller, link: ClientLink) -> Call:
        # By position, which is faster than by keyword.
        return Call(
            self._new_id(),
            request.tool,
            request.arguments,
            caller,
            link,
            request.dialect,
            request.size,
            self._timer(),
            request.caller_credentials,
            None,
            request.requested_name,
            request.consent,
        )

    def visible_snapshot(self, caller: Caller) -> Snapshot:
        """Return a snapshot with only the tools that this caller may see."""
        if self.policy.can_see_all(caller):
            return self.registry.snapshot
        return self.cached_for(
            caller, "view", lambda: self.registry.snapshot.filtered(lambda tool: self.policy.can_see(caller, tool))
        )

    def cached_for(self, caller: Caller, key: Hashable, create: Callable[[], T]) -> T:
        """Return the caller's cached value of a key; it is created again once the tools or decisions change."""
        snapshot, cache_key = self.registry.snapshot, (caller.id, self.policy.cache_key(caller))
        cache = self._caller_caches.pop(cache_key, None)
        if cache is None or cache.snapshot is not snapshot:
            cache = _CallerCache(snapshot)
        self._caller_caches[cache_key] = cache  # the latest goes last
        if len(self._caller_caches) > MAX_CACHED_CALLERS:
            del self._caller_caches[next(iter(self._caller_caches))]
        if key not in cache.values:
            cache.values[key] = create()
        value: T = cache.values[key]
        return value


class _CallerCache(msgspec.Struct, frozen=True):
    """The cached values of one caller for one snapshot."""

    snapshot: Snapshot
    values: dict[Hashable, Any] = {}


def call_id_generator() -> Callable[[], str]:
    """Return a generator of ids that never repeat: a random prefix of this process, then a counter."""
    prefix, count = secrets.token_hex(6), iter(range(1, 2**63))
    return lambda: f"{prefix}-{next(count)}"
