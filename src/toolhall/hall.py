"""The one door: every ask of every dialect comes in here and leaves as an answer, never as an exception."""

import logging
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import msgspec

from toolhall.model.call import Call
from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, ToolhallError
from toolhall.model.exchange import SILENT, Answer, Ask, Asked, Asking, CallTool, Link
from toolhall.model.tool import Tool
from toolhall.pipeline.authorize import Policy
from toolhall.pipeline.manage import Manage
from toolhall.pipeline.pipeline import Pipeline
from toolhall.pipeline.rulings import Rules
from toolhall.registry.registry import Registry
from toolhall.registry.shortlist import Shortlist
from toolhall.registry.snapshot import Snapshot

_log = logging.getLogger("toolhall")
T = TypeVar("T")
MOST_SHELVES = 256  # callers; a list for another one is made again


class Hall:
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
        self._shelves: dict[Hashable, _Shelf] = {}
        self.manage = Manage(policy, pipeline.audit, new_id=new_id, timer=timer)

    async def answer(self, ask: Ask, caller: Caller, link: Link = SILENT) -> Answer:
        """The answer to an ask: a page, a finished call, questions to come back with, or an error."""
        try:
            if isinstance(ask, CallTool):
                return await self._pipeline(self._call(ask, caller, link))
            return self.view(caller).page(ask.cursor)
        except ToolhallError as error:
            if error.detail:
                _log.warning("%s: %s", type(error).__name__, error.detail)
            return error
        except Asking as asking:
            return Asked(asking.questions, asking.consent)
        except Exception:  # noqa: BLE001 - a fault of ours ends one call, never the server
            _log.exception("internal error while answering %s", type(ask).__name__)
            return Broken()

    def refuse(self, ask: CallTool, caller: Caller, error: ToolhallError) -> ToolhallError:
        """Record and count a call that its dialect refuses already; the error, or Limited, is the answer."""
        return self._pipeline.refuse(self._call(ask, caller, SILENT), error)

    def note(self, ask: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record what was refused and counted before."""
        self._pipeline.note(self._call(ask, caller, SILENT), error)

    async def repeat(self, ask: CallTool, caller: Caller) -> ToolhallError | None:
        """Record a call whose answer is known; the error if a new call would be refused now."""
        try:
            await self._pipeline.repeat(self._call(ask, caller, SILENT))
        except ToolhallError as error:
            return error
        return None

    def follow(self, rules: Rules) -> None:
        """From now on these rules say who may call what; clients hear that their list may be another."""
        self.policy.follow(rules)
        self._shelves.clear()
        self.registry.tell_sight()

    def find(self, name: str, caller: Caller) -> Tool | None:
        """The tool that a call by this name would reach, if the caller may see it."""
        entry = self.registry.snapshot.find(name)
        return entry.tool if entry and self.policy.sees(caller, entry.tool) else None

    def _call(self, ask: CallTool, caller: Caller, link: Link) -> Call:
        new, started = self._new_id(), self._timer()
        tool, name = ask.tool, ask.asked_name
        brought, consent = ask.brought, ask.consent
        return Call(
            new, tool, ask.arguments, caller, link, ask.dialect, ask.size, started, brought, None, name, consent
        )

    def view(self, caller: Caller) -> Snapshot:
        """The tools as far as this caller may see them."""
        if self.policy.sees_everything(caller):
            return self.registry.snapshot
        return self.once(
            caller, "view", lambda: self.registry.snapshot.only(lambda tool: self.policy.sees(caller, tool))
        )

    def once(self, caller: Caller, what: Hashable, make: Callable[[], T]) -> T:
        """What is made for one caller, kept for as long as neither the tools nor what it sees of them change."""
        snapshot, place = self.registry.snapshot, (caller.id, self.policy.epoch(caller))
        shelf = self._shelves.pop(place, None)
        if shelf is None or shelf.snapshot is not snapshot:
            shelf = _Shelf(snapshot)
        self._shelves[place] = shelf  # the latest goes last
        if len(self._shelves) > MOST_SHELVES:
            del self._shelves[next(iter(self._shelves))]
        if what not in shelf.made:
            shelf.made[what] = make()
        made: T = shelf.made[what]
        return made


class _Shelf(msgspec.Struct, frozen=True):
    """Everything made for one caller."""

    snapshot: Snapshot
    made: dict[Hashable, Any] = {}
