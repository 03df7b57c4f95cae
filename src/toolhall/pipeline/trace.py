"""How far a call came and how it ended: what its record is made of."""

from asyncio import CancelledError

from toolhall.model.content import Result
from toolhall.model.errors import Retired, ToolhallError
from toolhall.model.exchange import Asking
from toolhall.pipeline.audit import Reached
from toolhall.pipeline.record import Begun
from toolhall.registry.entry import Entry
from toolhall.runners.redactor import Redactor


class Trace:
    """Filled in by the pipeline, stage by stage."""

    __slots__ = ("ended", "entry", "kept", "outcome", "ran", "reached", "redactor", "size")

    def __init__(self) -> None:
        self.reached: Reached = None  # or the id of what is no more
        self.outcome = "Broken"
        self.ran = False  # whether the run stage was reached
        self.size = 0
        self.ended: BaseException | None = None
        self.kept: Begun | None = None
        self.entry: Entry | None = None  # what was found: no other name is worth counting
        self.redactor: Redactor | None = None

    def finish(self, result: Result) -> None:
        """It ran to its end; what is kept of it is clean, as the caller gets it."""
        self.outcome, self.size = "tool_error" if result.is_error else "ok", len(result.encoded or b"")
        if self.kept is not None:
            self.kept.end(result)

    def end(self, ended: BaseException) -> None:
        """It was refused, it failed, or nobody wants it any more."""
        self.ended = ended
        self.outcome = outcome_of(type(ended))
        if isinstance(ended, ToolhallError):
            ended.reached_tool = self.ran  # always: a tool may raise any error, with any attribute
        if isinstance(ended, Retired):  # who still calls it is worth knowing
            self.reached = ended.tool
        if self.kept is not None:
            self.kept.end(ended)


_OUTCOMES: dict[type[BaseException], str] = {CancelledError: "Cancelled", Asking: "asked"}


def outcome_of(kind: type[BaseException]) -> str:
    """The name of the error, or of the nearest that everybody knows: a record has no names of ours alone."""
    known = _OUTCOMES.get(kind)
    if known is None:
        told = next((each for each in kind.__mro__ if each.__module__ == ToolhallError.__module__), kind)
        known = _OUTCOMES[kind] = told.__name__
    return known
