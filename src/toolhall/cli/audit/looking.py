"""`toolhall audit tail` and `search`: records of calls, in a folder or at a hall that runs."""

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Protocol

from cyclopts import Parameter

from toolhall.cli.audit.folder import audited
from toolhall.cli.audit.telling import print_records
from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import note
from toolhall.cli.tools.desk import Desk, HallOptions, opened
from toolhall.model.json import JsonObject
from toolhall.stores.audit.asking import BadQuestion, document, wanted_of
from toolhall.stores.audit.reading import search as search_folder

MOST = 1_000
_AGAIN_SECONDS = 0.5
_REMEMBERED = 10_000
_SLACK = timedelta(seconds=5)


@dataclass(frozen=True)
class TailOptions(HallOptions):
    """What `toolhall audit tail` takes.

    Parameters
    ----------
    number
        How many records, the newest last.
    follow
        Go on with what comes, until it is interrupted.
    """

    number: Annotated[int, Parameter(name=("--number", "-n"))] = 20
    follow: Annotated[bool, Parameter(name=("--follow", "-f"))] = False


@dataclass(frozen=True)
class SearchOptions(HallOptions):
    """What `toolhall audit search` takes.

    Parameters
    ----------
    caller
        Only what this caller did.
    tool
        Only what was done with this tool: its id, or Toolkit.tool for all versions.
    outcome
        Only what ended like this: ok, tool_error, or the name of an error, such as Denied.
    level
        Only from this level up.
    since
        Not before this day or time; without a zone it is UTC.
    until
        Before this day or time.
    limit
        How many records, the newest first.
    """

    caller: str | None = None
    tool: str | None = None
    outcome: str | None = None
    level: int | None = None
    since: str | None = None
    until: str | None = None
    limit: int = 100


class Records(Protocol):
    """Where records are looked for."""

    def __call__(self, asked: Mapping[str, str | None], limit: int) -> list[JsonObject]:
        """The newest that fit, the newest first."""
        ...


_TAIL = TailOptions()
_SEARCH = SearchOptions()


def tail(*, options: Annotated[TailOptions, Parameter(name="*")] = _TAIL) -> None:
    """Show the newest records, the newest last."""
    start_logging(None)
    _refuse_limit("--number", options.number)
    with _records(options) as records:
        found = records({}, MOST if options.follow else options.number)
        print_records(found[: options.number][::-1], json=options.json, lines=options.follow)
        if options.follow:
            for more in _following(records, found):
                print_records(more, json=options.json, lines=True)


def search(*, options: Annotated[SearchOptions, Parameter(name="*")] = _SEARCH) -> None:
    """Find records by who called what, when, and how it ended; the newest first."""
    start_logging(None)
    _refuse_limit("--limit", options.limit)
    asked = {
        "caller": options.caller,
        "tool": options.tool,
        "outcome": options.outcome,
        "level": None if options.level is None else str(options.level),
        "since": options.since,
        "until": options.until,
    }
    with _records(options) as records:
        found = records(asked, options.limit)
    print_records(found, json=options.json)
    if not found and not options.json:
        note("no record fits")


@contextmanager
def _records(options: HallOptions) -> Generator[Records, None, None]:
    if options.url is None:
        data = audited(options.data)
        yield lambda asked, limit: _in_folder(data, asked, limit)
        return
    with opened(options) as desk:
        yield lambda asked, limit: _at_hall(desk, asked, limit)


def _in_folder(data: Path, asked: Mapping[str, str | None], limit: int) -> list[JsonObject]:
    try:
        wanted = wanted_of(asked)
    except BadQuestion as error:
        raise WrongUsage(f"--{error}") from None
    return [document(found) for found in search_folder(data, wanted, limit)]


def _at_hall(desk: Desk, asked: Mapping[str, str | None], limit: int) -> list[JsonObject]:
    found: list[JsonObject] = desk.manage("GET", "audit", query={**asked, "limit": str(limit)})["records"]
    return found


def _following(records: Records, found: list[JsonObject]) -> Iterator[list[JsonObject]]:
    """What is new, again and again; a record can be a little older than one that was there before it."""
    seen = {(each["log"], each["number"]): None for each in found[::-1]}
    newest = found[0]["at"] if found else None
    while True:
        time.sleep(_AGAIN_SECONDS)
        lately = records({"since": newest and _shortly_before(newest)}, MOST)
        new = [each for each in lately if (each["log"], each["number"]) not in seen]
        newest = lately[0]["at"] if lately else newest
        seen |= dict.fromkeys((each["log"], each["number"]) for each in new)
        for old in list(seen)[:-_REMEMBERED]:
            del seen[old]
        if new:
            yield new[::-1]


def _shortly_before(at: str) -> str:
    return (datetime.fromisoformat(at) - _SLACK).isoformat()


def _refuse_limit(name: str, limit: int) -> None:
    if not 1 <= limit <= MOST:
        raise WrongUsage(f"{name} is a number from 1 to {MOST}")
