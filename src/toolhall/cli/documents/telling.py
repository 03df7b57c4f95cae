"""What a person is told beside the result: every problem, and a summary of what was lost."""

from toolhall.cli.documents.spotted import Spotted
from toolhall.cli.progress import Progress
from toolhall.cli.screen import note, visible
from toolhall.dialects.catalog import Loss

_MOST_REASONS = 10
_MOST_EXAMPLES = 3
_REASONS_KEPT = 1_000  # a reason may hold words of a document, so there may be one for each
_OTHERS = "for other reasons"


class Telling:
    """Problems at once, losses counted by reason at the end."""

    def __init__(self, progress: Progress, *, losses: bool) -> None:
        self._progress = progress
        self._losses = losses
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def document(self, encoded: bytes) -> None:
        """Not here."""

    def loss(self, index: int, loss: Loss) -> None:
        """Count it."""
        if not self._losses:
            return
        reason = loss.reason.partition("; written as ")[0]  # each name is its own
        if reason not in self._counts and len(self._counts) >= _REASONS_KEPT:
            reason = _OTHERS
        self._counts[reason] = self._counts.get(reason, 0) + 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < _MOST_EXAMPLES:
            examples.append(f"document {index}, {loss.path or '/'}")

    def problem(self, spotted: Spotted) -> None:
        """Say it."""
        self._progress.say(str(spotted))

    def finish(self) -> None:
        """Say what was lost."""
        self._progress.stop()
        if not self._counts:
            return
        note(f"lost on the way: {sum(self._counts.values()):,} (all of them: --json)")
        ranked = sorted(self._counts.items(), key=lambda each: -each[1])
        for reason, count in ranked[:_MOST_REASONS]:
            more = ", ..." if count > _MOST_EXAMPLES else ""
            note(visible(f"  {count:,} x {reason}: {'; '.join(self._examples[reason])}{more}"))
        rest = sum(count for _, count in ranked[_MOST_REASONS:])
        if rest:
            note(f"  {rest:,} x for {len(ranked) - _MOST_REASONS:,} other reasons")
