"""The one door: every ask of every dialect comes in here and leaves as an answer, never as an exception."""

import logging
from collections.abc import Callable

from toolhall.model.call import Call
from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, ToolhallError
from toolhall.model.exchange import SILENT, Answer, Ask, Asked, Asking, CallTool, Link
from toolhall.model.tool import Tool
from toolhall.pipeline.authorize import Policy
from toolhall.pipeline.manage import Manage
from toolhall.pipeline.pipeline import Pipeline
from toolhall.registry.registry import Registry
from toolhall.registry.shortlist import Shortlist
from toolhall.registry.snapshot import Snapshot

_log = logging.getLogger("toolhall")


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
        self._new_id = new_id
        self._timer = timer
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
            return Asked(asking.questions)
        except Exception:  # noqa: BLE001 - a fault of ours ends one call, never the server
            _log.exception("internal error while answering %s", type(ask).__name__)
            return Broken()

    def find(self, name: str, caller: Caller) -> Tool | None:
        """The tool that a call by this name would reach, if the caller may see it."""
        entry = self.registry.snapshot.find(name)
        return entry.tool if entry and self.policy.sees(caller, entry.tool) else None

    def _call(self, ask: CallTool, caller: Caller, link: Link) -> Call:
        return Call(self._new_id(), ask.tool, ask.arguments, caller, link, ask.dialect, ask.size, self._timer())

    def view(self, caller: Caller) -> Snapshot:
        """The tools as far as this caller may see them."""
        snapshot = self.registry.snapshot
        if self.policy.sees_everything(caller):
            return snapshot
        return snapshot.only(lambda tool: self.policy.sees(caller, tool))
