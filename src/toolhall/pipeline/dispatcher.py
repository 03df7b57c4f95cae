"""Dispatcher: the one entry for requests of every dialect; answers each, with an error instead of an exception."""

import logging
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
from toolhall.pipeline.admin import AdminExecutor
from toolhall.pipeline.authorize import Policy
from toolhall.pipeline.pipeline import Pipeline
from toolhall.pipeline.policy import AccessRules
from toolhall.registry.listing import Shortlist
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Snapshot

_log = logging.getLogger("toolhall")
T = TypeVar("T")
MAX_CACHED_CALLERS = 256  # callers; a list for another one is made again


class Dispatcher:
    """Answers asks; only a cancellation passes through."""

    def __init__(
        self,
        registry: Registry,
        policy: Policy,
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
        """The answer to an ask: a page, a finished call, questions to come back with, or an error."""
        try:
            if isinstance(request, CallTool):
                return await self._pipeline(self._new_call(request, caller, link))
            return self.visible_snapshot(caller).page(request.cursor)
        except ToolhallError as error:
            if error.detail:
                _log.warning("%s: %s", type(error).__name__, error.detail)
            return error
        except InputRequiredSignal as asking:
            return InputRequired(asking.questions, asking.consent)
        except Exception:  # noqa: BLE001 - a fault of ours ends one call, never the server
            _log.exception("internal error while answering %s", type(request).__name__)
            return Broken()

    def refuse(self, request: CallTool, caller: Caller, error: ToolhallError) -> ToolhallError:
        """Record and count a call that its dialect refuses already; the error, or Limited, is the answer."""
        return self._pipeline.refuse(self._new_call(request, caller, NULL_LINK), error)

    def record_refusal(self, request: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record what was refused and counted before."""
        self._pipeline.record_refusal(self._new_call(request, caller, NULL_LINK), error)

    async def record_repeat(self, request: CallTool, caller: Caller) -> ToolhallError | None:
        """Record a call whose answer is known; the error if a new call would be refused now."""
        try:
            await self._pipeline.record_repeat(self._new_call(request, caller, NULL_LINK))
        except ToolhallError as error:
            return error
        return None

    def set_rules(self, rules: AccessRules) -> None:
        """From now on these rules say who may call what; clients hear that their list may be another."""
        self.policy.set_rules(rules)
        self._caller_caches.clear()
        self.registry.notify_visibility_changed()

    def find(self, name: str, caller: Caller) -> Tool | None:
        """The tool that a call by this name would reach, if the caller may see it."""
        entry = self.registry.snapshot.find(name)
        return entry.tool if entry and self.policy.can_see(caller, entry.tool) else None

    def _new_call(self, request: CallTool, caller: Caller, link: ClientLink) -> Call:
        new, started = self._new_id(), self._timer()
        tool, name = request.tool, request.requested_name
        brought, consent = request.caller_credentials, request.consent
        return Call(
            new,
            tool,
            request.arguments,
            caller,
            link,
            request.dialect,
            request.size,
            started,
            brought,
            None,
            name,
            consent,
        )

    def visible_snapshot(self, caller: Caller) -> Snapshot:
        """The tools as far as this caller may see them."""
        if self.policy.can_see_all(caller):
            return self.registry.snapshot
        return self.cached_for(
            caller, "view", lambda: self.registry.snapshot.filtered(lambda tool: self.policy.can_see(caller, tool))
        )

    def cached_for(self, caller: Caller, key: Hashable, create: Callable[[], T]) -> T:
        """What is made for one caller, kept for as long as neither the tools nor what it sees of them change."""
        snapshot, place = self.registry.snapshot, (caller.id, self.policy.cache_key(caller))
        shelf = self._caller_caches.pop(place, None)
        if shelf is None or shelf.snapshot is not snapshot:
            shelf = _CallerCache(snapshot)
        self._caller_caches[place] = shelf  # the latest goes last
        if len(self._caller_caches) > MAX_CACHED_CALLERS:
            del self._caller_caches[next(iter(self._caller_caches))]
        if key not in shelf.values:
            shelf.values[key] = create()
        made: T = shelf.values[key]
        return made


class _CallerCache(msgspec.Struct, frozen=True):
    """Everything made for one caller."""

    snapshot: Snapshot
    values: dict[Hashable, Any] = {}
