"""Dispatcher: the one entry for requests of every dialect; answers each, with an error instead of an exception."""

import itertools
import logging
import secrets
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

import msgspec

from toolhall.model.caller import ANONYMOUS, STEP_UP_FROM, Caller
from toolhall.model.errors import BadArguments, Broken, ToolhallError
from toolhall.model.messages import (
    NOT_FRESH,
    NULL_LINK,
    Answer,
    Call,
    CallTool,
    ClientLink,
    Complete,
    Completion,
    DispatchRequest,
    Freshness,
    ListTools,
)
from toolhall.model.tool import Tool
from toolhall.pipeline.access_rules import AccessRules
from toolhall.pipeline.admin import AdminExecutor
from toolhall.pipeline.complete import Completer
from toolhall.pipeline.file_lists import FileLists
from toolhall.pipeline.pipeline import Pipeline
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.resource_tools import ResourceTools, ToolRead, as_tool_answer
from toolhall.pipeline.tasks.engine import StoredTasks
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
        self.stages = pipeline.stages
        self.changes = pipeline.stages.changes
        self.files = FileLists(registry, self.changes)
        self._completer = Completer(registry, pipeline.stages, self.new_call)
        self._resource_tools = ResourceTools(registry, policy, self.resolve) if registry.resources_as_tools else None
        self._new_id = new_id
        self._timer = timer
        self._caller_caches: dict[Hashable, _CallerCache] = {}
        self.tasks = StoredTasks(pipeline, registry, new_call=self.new_call, policy=policy)
        self.admin = AdminExecutor(policy, pipeline.audit, new_id=new_id, timer=timer)

    def answer(
        self,
        request: DispatchRequest,
        caller: Caller,
        link: ClientLink = NULL_LINK,
        on_suspend: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, Answer]:
        """Return a page of tools, a completed call, questions that the caller must answer, or an error.

        `on_suspend` is called when a call first has to wait; it may be called again.
        """
        if isinstance(request, CallTool):
            if request.kind != "tool":
                request = self.resolve(request, caller)
            elif self._resource_tools is not None:
                return self._answer_tool(self._resource_tools, request, caller, link, on_suspend)
            return self._pipeline.answer(self.new_call(request, caller, link, on_suspend))
        return self._page(request, caller)

    async def _answer_tool(
        self,
        resource_tools: ResourceTools,
        request: CallTool,
        caller: Caller,
        link: ClientLink,
        on_suspend: Callable[[], None] | None,
    ) -> Answer:
        """Answer a call of a tool, which may stand for the read of a resource."""
        read = resource_tools.to_read(request, caller)
        match read:
            case None:
                return await self._pipeline.answer(self.new_call(request, caller, link, on_suspend))
            case BadArguments():
                return self.refuse(request, caller, read)
            case _:
                answer = await self._pipeline.answer(self.new_call(read.request, caller, link, on_suspend))
                return as_tool_answer(answer, read.tool)

    async def _page(self, request: ListTools, caller: Caller) -> Answer:
        try:
            return self.visible_snapshot(caller).page(request.cursor)
        except ToolhallError as error:
            return error
        except Exception:  # noqa: BLE001 - a fault of ours ends one request, never the server
            _log.exception("internal error while answering ListTools")
            return Broken()

    def resolve(self, request: CallTool, caller: Caller) -> CallTool:
        """Return the request for the resource that a URI means to this caller, or with a prompt's arguments as values.

        What the caller may not see is not looked at. Where nothing is found, the find stage says so.
        """
        if request.kind == "prompt":
            entry = self.registry.snapshot.prompts.find(request.tool) if request.arguments else None
            if entry is None or entry.read_texts is None:
                return request
            if not self.policy.can_see(caller, entry.tool):
                return request
            values = entry.read_texts(request.arguments)
            return msgspec.structs.replace(request, arguments=values, encoded_arguments=None)
        match = self.visible_snapshot(caller).resources.match(request.tool)
        if match is None:
            uri = request.tool
            # The stages find a resource by its id. An id has no colon, and every URI has one: an id is no URI.
            return request if ":" in uri else msgspec.structs.replace(request, tool=f":{uri}", requested_name=uri)
        entry, texts = match.value, match.variables
        if texts and entry.read_texts is not None:
            values = entry.read_texts(texts)
            return msgspec.structs.replace(
                request, tool=entry.id, arguments=values, requested_name=request.tool, encoded_arguments=None
            )
        # By position, which is faster than `replace`: most resources have no variables.
        return CallTool(
            entry.id,
            request.arguments,
            request.dialect,
            request.size,
            request.caller_credentials,
            request.tool,
            request.consent,
            request.encoded_arguments,
            request.kind,
        )

    def freshness(self, tool: Tool) -> Freshness:
        """Return how long what was read of a resource may be kept, and by whom.

        `shared` alone is not enough for caches of several callers: it says that all read the same, not that all may.
        """
        info = tool.resource
        if info is None or not (info.fresh or info.shared):
            return NOT_FRESH
        if self.policy.level_of(tool) >= STEP_UP_FROM:  # a person agrees to each read
            return Freshness(keepable=False)
        return Freshness(info.fresh, info.shared and self.policy.can_see(ANONYMOUS, tool))

    async def complete(self, request: Complete, caller: Caller) -> Completion | ToolhallError:
        """Return completions of an argument, or the error for a name, an argument or a caller that has none."""
        return await self._completer.complete(request, caller)

    def completion_count(self) -> float:
        """Return the number of completions that were answered."""
        return float(self._completer.count)

    def refuse(self, request: CallTool, caller: Caller, error: ToolhallError) -> ToolhallError:
        """Record and count a call that its dialect rejects; returns the error, or Limited after too many."""
        return self._pipeline.refuse(self.new_call(request, caller), error)

    def record_refusal(self, request: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record a call that was rejected and has been counted."""
        self._pipeline.record_refusal(self.new_call(request, caller), error)

    async def record_repeat(self, request: CallTool, caller: Caller) -> ToolhallError | None:
        """Record a call that gets the stored answer of an equal one; returns the error if it would be refused now."""
        read = None if self._resource_tools is None else self._resource_tools.to_read(request, caller)
        if isinstance(read, ToolRead):
            request = read.request
        try:
            await self._pipeline.record_repeat(self.new_call(request, caller))
        except ToolhallError as error:
            return error
        return None

    def watch_calls(self, *, watched: bool) -> None:
        """Take the stage times of every call, because somebody watches them, or only of a few."""
        self._pipeline.timed.watch(watched=watched)

    @property
    def running_calls(self) -> int:
        """The number of calls of this process that were admitted and have not ended."""
        return self._pipeline.running_calls

    def set_rules(self, rules: AccessRules) -> None:
        """Replace the access rules, and notify clients that their tool list may have changed."""
        self.policy.set_rules(rules)
        self._caller_caches.clear()
        self.registry.notify_visibility_changed()

    def find(self, name: str, caller: Caller) -> Tool | None:
        """Return the tool that a call by this name would reach, if the caller may see it."""
        entry = self.registry.snapshot.find(name)
        return entry.tool if entry and self.policy.can_see(caller, entry.tool) else None

    def new_call(
        self,
        request: CallTool,
        caller: Caller,
        link: ClientLink = NULL_LINK,
        on_suspend: Callable[[], None] | None = None,
    ) -> Call:
        """Return the call of a request, which begins now."""
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
            request.encoded_arguments,
            on_suspend,
            request.kind,
        )

    def visible_snapshot(self, caller: Caller) -> Snapshot:
        """Return a snapshot with only the tools, resources and prompts that this caller may see."""
        snapshot = self.registry.snapshot
        if self.shortlist.pins:
            snapshot = self.shortlist.for_snapshot(snapshot).with_pinned_beside
        if self.policy.can_see_all(caller):
            return snapshot
        return self.cached_for(
            caller, "view", lambda: snapshot.filtered(lambda tool: self.policy.can_see(caller, tool))
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
    return map(f"{secrets.token_hex(6)}-%d".__mod__, itertools.count(1)).__next__
