"""What is looked for in the audit, and what is told of each record: the same over HTTP and at the command line."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from toolhall.model.json import JsonObject
from toolhall.stores.audit.reading import Found, Wanted

FILTERS = ("caller", "tool", "outcome", "level", "since", "until")


class BadQuestion(ValueError):
    """What was asked for cannot be; the message says what to write."""


def wanted_of(asked: Mapping[str, str | None]) -> Wanted:
    """The filters as they were written; raises BadQuestion."""
    level = asked.get("level")
    if level is not None and not (level.isascii() and level.isdigit() and len(level) <= 2 and int(level) <= 10):
        raise BadQuestion("level is a number from 0 to 10")
    return Wanted(
        caller=asked.get("caller"),
        tool=asked.get("tool"),
        outcome=asked.get("outcome"),
        level=None if level is None else int(level),
        since=_seconds("since", asked.get("since")),
        until=_seconds("until", asked.get("until")),
    )


def document(found: Found) -> JsonObject:
    """A record and where it stands, without what it does not say."""
    told: JsonObject = {"log": found.log, "number": found.number, "at": _moment(found.record.time)}
    for name, value in msgspec.structs.asdict(found.record).items():
        if name != "time" and value is not None:
            told[_camel(name)] = value
    return told


def _seconds(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise BadQuestion(f"{name} is a day or a time, such as 2027-01-31 or 2027-01-31T08:30:00Z") from None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
