"""The way to a dialect whose documents are toolkits: documents that are a tool each are put together again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from toolhall.dialects.catalog import Catalog, Loss
from toolhall.dialects.convert import Original, gather, translate
from toolhall.dialects.converted import Converted
from toolhall.dialects.findings import BadDocument

# A dialect, a toolkit and its version.
_Toolkit: TypeAlias = tuple[str, str, str]
_SECOND = "a document before this one has the same id, toolkit and version; rename one, or raise its version"


class Assembly:
    """Tools of one toolkit and version that come one after the other become one document; with `whole`, all of them."""

    def __init__(self, target: Catalog, *, whole: bool) -> None:
        self._target = target
        self._whole = whole
        # Of tools with one and the same name, the second starts another document, the third one more.
        self._groups: dict[tuple[_Toolkit, int], list[Original]] = {}
        self._times: Counter[tuple[_Toolkit, str]] = Counter()

    @property
    def waits(self) -> bool:
        """Whether a toolkit may still get more tools."""
        return bool(self._groups)

    def convert(self, given: Original) -> Iterator[Converted]:
        """What is known to be complete now; a toolkit that comes as one document is complete itself."""
        known = given.tools[0].id
        toolkit = (given.catalog.name, known.toolkit, known.version)
        if given.catalog.grouped:
            toolkit = ("", str(given.index), "")
        if not self._whole and any(held != toolkit for held, _ in self._groups):
            yield from self.finish()
        number = self._times[toolkit, known.tool]
        self._times[toolkit, known.tool] += 1
        self._groups.setdefault((toolkit, number), []).append(given)
        if given.catalog.grouped and not self._whole:
            yield from self.finish()

    def finish(self) -> Iterator[Converted]:
        """A document for each toolkit that was held back."""
        groups, self._groups = self._groups, {}
        self._times.clear()
        for (_, number), group in groups.items():
            yield from self._together(group, [Loss("", _SECOND)] if number else [])

    def _together(self, group: Sequence[Original], more: list[Loss]) -> Iterator[Converted]:
        if len(group) > 1:
            try:
                document, lost = gather(group, self._target)
            except BadDocument:  # together they make none: whose fault it is, each shows alone
                pass
            else:
                yield Converted(group[0].index, [document], [*more, *lost[0]])
                yield from (Converted(each.index, [], lost[at]) for at, each in enumerate(group) if at)
                return
        for each in group:
            yield self._alone(each, more)

    def _alone(self, given: Original, more: list[Loss]) -> Converted:
        if given.catalog is self._target:
            return Converted(given.index, [given.document], [])
        try:
            written = translate(given, self._target)
        except BadDocument as bad:
            return Converted(given.index, [], [], bad)
        return Converted(given.index, written.documents, [*more, *written.losses])
