"""Finds the papers of tools, also of the operator's own code that no store knows of."""

from collections.abc import Callable, Iterator

from toolhall.model.errors import NotFound
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence
from toolhall.registrar.ledger import Ledger, Listed
from toolhall.registrar.papers import Source, own_papers, tool_of
from toolhall.registrar.serving import Serving
from toolhall.registry.entry import Entry
from toolhall.registry.names import key_of
from toolhall.stores.base import Kept, Origin

OPERATOR = "operator"  # who brings code and files


class Lookup:
    """By id, by `Toolkit.tool`, or by published name."""

    def __init__(self, ledger: Ledger, serving: Serving, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._serving = serving
        self._clock = clock
        self._made: dict[str, tuple[Entry, Kept]] = {}  # papers of code that no store has; made once for each

    @property
    def everything(self) -> tuple[Kept, ...]:
        """Everything there is, in whatever state; what code outdoes is not there."""
        unwritten = [self._papers(entry) for entry in self._serving.own if not self._ledger.is_code(entry.id)]
        written = [listed.kept for listed in self._ledger.all if not self._serving.outdoes(listed.kept)]
        return (*written, *unwritten)

    def find(self, name: str) -> Listed:
        """By id, or the newest version of the tool that is called so; raises NotFound."""
        versions = self._exact(name) or self.versions(name) or self.versions(self._key_named(name))
        if not versions:
            raise NotFound(f"{name[:128]} is not registered; 'toolhall tool list' shows what is")
        return max(versions, key=lambda each: precedence(each.kept.version))

    def versions(self, key: str) -> list[Listed]:
        """Every version of a `Toolkit.tool`; one that is the operator's own code by its id, too."""
        written = [each for each in self._ledger.versions(key) if not self._serving.outdoes(each.kept)]
        own = [entry for entry in self._serving.own if key in (entry.id, key_of(entry.tool))]
        unwritten = [entry for entry in own if not self._ledger.is_code(entry.id)]
        return [*written, *(Listed(self._papers(entry), entry.tool) for entry in unwritten)]

    def tool(self, kept: Kept) -> Tool:
        """The tool that these papers are about; of what is known, it need not be read again."""
        listed = self._ledger.get(kept.id) if kept.id in self._ledger else None
        return listed.tool if listed is not None and listed.kept is kept else tool_of(kept)

    def source(self, origin: Origin, detail: str = "") -> Source:
        """What the operator brings now."""
        return Source(origin, OPERATOR, self._clock(), detail)

    def _exact(self, tool_id: str) -> list[Listed]:
        listed = self._ledger.get(tool_id) if tool_id in self._ledger else None
        return [listed] if listed is not None and not self._serving.outdoes(listed.kept) else []

    @property
    def names(self) -> frozenset[str]:
        """The published names of everything, in small letters."""
        return frozenset(tool.name.casefold() for tool in self._tools())

    def _key_named(self, name: str) -> str:
        return next((key_of(tool) for tool in self._tools() if tool.name == name), "")

    def _tools(self) -> Iterator[Tool]:
        yield from (listed.tool for listed in self._ledger.all)
        yield from (entry.tool for entry in self._serving.own)

    def _papers(self, entry: Entry) -> Kept:
        made = self._made.get(entry.id)
        if made is None or made[0] is not entry:
            made = self._made[entry.id] = entry, own_papers(entry.tool, self.source("code"))
        return made[1]
