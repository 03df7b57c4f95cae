"""Which definitions may be registered beside those that are known: names, room, and promises."""

from collections.abc import Collection, Sequence

from toolhall.contracts.changes import Kind
from toolhall.model.errors import Malformed
from toolhall.model.lookalikes import look
from toolhall.model.names import SEARCH_TOOL
from toolhall.model.tool import Tool
from toolhall.registrar.ledger import Ledger
from toolhall.registrar.papers import own_document
from toolhall.registrar.promises import promises, refuse_other_content, refuse_other_spelling, refuse_small_rise
from toolhall.registrar.serving import Serving
from toolhall.registrar.twins import refuse_lookalikes, refuse_twins, refuse_twins_within
from toolhall.stores.base import Kept


class Admission:
    """Reads what is known, changes nothing."""

    def __init__(self, ledger: Ledger, serving: Serving) -> None:
        self._ledger = ledger
        self._serving = serving

    def refuse_taken(self, papers: Sequence[Kept], tools: Sequence[Tool]) -> None:
        """Raise BrokenPromise or Malformed if an id is there already, with other content or with the same."""
        refuse_other_content(tools, self._versions)
        for kept in papers:
            if kept.id in self._ledger:
                raise Malformed(f"{kept.id} is registered already; raise its version, or remove it first")

    def refuse(self, papers: Sequence[Kept], tools: Sequence[Tool], behaviour: Kind | None, *, whole: bool) -> None:
        """Raise Malformed, BadDocument or BrokenPromise unless these may stand beside what is known."""
        for toolkit in {tool.id.toolkit for tool in tools}:
            if look(toolkit) == look(SEARCH_TOOL.toolkit):
                raise Malformed(f"{toolkit!r} is the hall's own name; register under another one")
            if self._serving.has(toolkit):
                raise Malformed(f"{toolkit!r} is served already, from code; register under another name")
        refuse_twins_within(tools)
        refuse_twins(tools, self._ledger.claims)
        refuse_lookalikes(tools, self._serving.own_claims)
        self._ledger.refuse_too_much(len(papers), sum(map(len, {kept.document for kept in papers})))
        refuse_other_spelling(tools, self._versions)
        refuse_small_rise(tools, self._versions, behaviour, whole=whole)

    def held(self, tools: Sequence[Tool], drafts: Collection[str], *, whole: bool) -> list[Tool]:
        """Those of the operator's own tools that are new or changed; BrokenPromise if their versions do not say so.

        What came from outside binds nobody's code, and a draft, whose author stated no version, promises nothing.
        """
        changed = [tool for tool in tools if self.is_changed(tool)]
        stated = [tool for tool in changed if promises(tool.id.version) and str(tool.id) not in drafts]
        touched = {(tool.id.toolkit, tool.id.version) for tool in stated}
        promised = [tool for tool in tools if (tool.id.toolkit, tool.id.version) in touched]
        refuse_other_content(stated, self._own_versions)
        refuse_other_spelling(stated, self._own_versions)
        refuse_small_rise(promised if whole else stated, self._own_versions, None, whole=whole)
        return changed

    def is_changed(self, tool: Tool) -> bool:
        """Whether the papers of the operator's own tool do not say what it says, or there are none."""
        known = self._ledger.get(str(tool.id))
        return known is None or known.kept.document != own_document(tool)

    def _own_versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._ledger.toolkit(toolkit) if listed.kept.origin == "code"]

    def _versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._ledger.toolkit(toolkit)]
