"""Who still calls a tool, from the records of its calls."""

from dataclasses import dataclass, field

from toolhall.model.json import JsonObject
from toolhall.model.record import Record
from toolhall.model.versions import precedence
from toolhall.transports.api.summaries import moment

MOST_CALLERS = 1_000
MOST_WORDS = 100  # versions or dialects of one caller
_MANAGEMENT = "/management"
_NOT_FOUND = {"NotFound", "NotActive"}


@dataclass
class Tally:
    """What one caller did."""

    calls: int = 0
    last: float = 0.0
    versions: set[str] = field(default_factory=set)
    dialects: set[str] = field(default_factory=set)


class Callers:
    """Counts calls by caller; however many there are, it remembers a thousand or two, those who came last."""

    def __init__(self) -> None:
        self._tallies: dict[str, Tally] = {}
        self._others = 0

    def take(self, record: Record) -> None:
        """Count one record, if it is one of a call that found the tool; a refused one counts too."""
        if record.dialect.endswith(_MANAGEMENT) or not _found(record):
            return
        tally = self._tallies.setdefault(record.caller, Tally())
        tally.calls += 1
        tally.last = max(tally.last, record.time)
        _note(tally.versions, record.tool.rpartition("@")[2])
        _note(tally.dialects, record.dialect)
        if len(self._tallies) > 2 * MOST_CALLERS:
            self._forget()

    def document(self) -> JsonObject:
        """Those who called last first; `others` is how many calls came from callers that are not named."""
        self._forget()
        return {"callers": [_written(caller, tally) for caller, tally in self._tallies.items()], "others": self._others}

    def _forget(self) -> None:
        ranked = sorted(self._tallies.items(), key=lambda each: -each[1].last)
        self._tallies = dict(ranked[:MOST_CALLERS])
        self._others += sum(tally.calls for _, tally in ranked[MOST_CALLERS:])


def _found(record: Record) -> bool:
    """Whether the record's tool is an id: what was never found is only called as somebody called it."""
    return record.grant is not None or record.outcome not in _NOT_FOUND


def _note(words: set[str], word: str) -> None:
    if len(words) < MOST_WORDS:
        words.add(word)


def _written(caller: str, tally: Tally) -> JsonObject:
    return {
        "caller": caller,
        "calls": tally.calls,
        "last": moment(tally.last),
        "versions": sorted(tally.versions, key=precedence, reverse=True),
        "dialects": sorted(tally.dialects),
    }
