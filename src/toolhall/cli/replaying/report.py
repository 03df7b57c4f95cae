"""What a replay found, call by call, and in numbers for each tool."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from toolhall.contracts.answers import Difference
from toolhall.model.json import Json, JsonObject

Kind: TypeAlias = Literal["same", "changed", "refused", "failed", "gone", "skipped"]
KINDS: tuple[Kind, ...] = ("same", "changed", "refused", "failed", "gone", "skipped")


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How one call went: `tool` is without its version, `recorded` the id that answered then."""

    kind: Kind
    tool: str
    recorded: str
    arguments: Json = None
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    hidden: int = 0  # places that could not be compared


class Report:
    """Collects."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Kind]] = {}
        self.notable: dict[str, list[Replayed]] = {}
        self.grouped: Counter[tuple[Kind, str, str]] = Counter()
        self.hidden = 0

    def add(self, replayed: Replayed) -> None:
        """One call more; those that did not run are only counted, with why."""
        self.counts.setdefault(replayed.tool, Counter())[replayed.kind] += 1
        self.hidden += replayed.hidden
        if replayed.kind in ("gone", "skipped"):
            self.grouped[replayed.kind, replayed.tool, replayed.reason] += 1
        elif replayed.kind != "same":
            self.notable.setdefault(replayed.tool, []).append(replayed)

    def total(self, *kinds: Kind) -> int:
        """How many calls of all tools ended like this."""
        return sum(counts[kind] for counts in self.counts.values() for kind in kinds)

    @property
    def ok(self) -> bool:
        """Whether everything that could be compared is as it was, and something could."""
        return self.total("same") > 0 and not self.total("changed", "refused", "failed", "gone")

    def document(self) -> JsonObject:
        """What `replay --json` prints of it."""
        return {
            "same": self.total("same"),
            "hidden": self.hidden,
            "changed": [{**_about(each), "differences": each.differences} for each in self._of("changed")],
            "refused": [{**_about(each), "reason": each.reason} for each in self._of("refused")],
            "failed": [{**_about(each), "reason": each.reason} for each in self._of("failed")],
            "gone": [{"tool": tool, "calls": count} for (_, tool, _), count in self.did_not_run("gone")],
            "skipped": [
                {"tool": tool, "calls": count, "reason": reason}
                for (_, tool, reason), count in self.did_not_run("skipped")
            ],
        }

    def did_not_run(self, kind: Kind) -> Iterator[tuple[tuple[Kind, str, str], int]]:
        """Tools and reasons, with how many calls."""
        return (item for item in self.grouped.items() if item[0][0] == kind)

    def _of(self, kind: Kind) -> Iterator[Replayed]:
        return (each for several in self.notable.values() for each in several if each.kind == kind)


def _about(replayed: Replayed) -> JsonObject:
    return {"tool": replayed.tool, "recorded": replayed.recorded, "arguments": replayed.arguments}
