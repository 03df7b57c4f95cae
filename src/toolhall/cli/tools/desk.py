"""Where management is asked: at a running hall, or in the folder of one that does not run, by the same requests."""

import contextlib
import importlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.screen import visible
from toolhall.cli.sources.credential import refusal
from toolhall.cli.tools.remote import RemoteDesk
from toolhall.model.json import Json, JsonObject

MOST_PAGES = 10_000

Query: TypeAlias = Mapping[str, str | None]
NO_QUERY: Query = {}


@dataclass(frozen=True)
class HallOptions:
    """Which hall, and how to print.

    Parameters
    ----------
    url
        A running hall: its base URL, or its /mcp URL.
    data
        The data folder of a hall that does not run. [default: that of this project]
    json
        Print JSON.
    key
        The API key or token to send to --url; better put it into TOOLHALL_KEY, because others can read command lines.
    """

    url: str | None = None
    data: Path | None = None
    json: bool = False
    key: str | None = None

    @property
    def running(self) -> bool:
        """Whether a hall is asked that runs."""
        return self.url is not None


class Refused(CommandFailed):
    """The hall said no; `problems` are all its reasons, each with a path, a rule and a fix."""

    outcome = "refused"

    def __init__(self, status: int, message: str, problems: list[JsonObject]) -> None:
        self.status = status
        self.problems = problems
        super().__init__(visible(message))


class Line(Protocol):
    """One way to reach a hall."""

    sends_key: bool

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """The status and the value of the reply."""
        ...

    def bringing(self, detail: str) -> None:
        """What is registered from now on comes from there."""
        ...

    def close(self) -> None:
        """Nothing more will be asked."""
        ...


class Desk:
    """Asks for management, and reads the answers."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.bringing = line.bringing

    def ask(self, method: str, *place: str, body: JsonObject | None = None, query: Query = NO_QUERY) -> JsonObject:
        """The answer, or Refused; `place` is an id, and what is below it."""
        return self.manage(method, "tools", *place, body=body, query=query)

    def manage(self, method: str, *place: str, body: JsonObject | None = None, query: Query = NO_QUERY) -> JsonObject:
        """The answer of what is anywhere below /api, or Refused."""
        path = "/".join(["/api", *(quote(part, safe="") for part in place)])
        return self._answer(method, path, body, query)

    def events(self, tool: str | None, limit: int) -> list[JsonObject]:
        """What happened to one tool, or to all."""
        query = {"limit": str(limit)}
        told = (
            self.manage("GET", "history", query=query)
            if tool is None
            else self.ask("GET", tool, "history", query=query)
        )
        found: list[JsonObject] = told["events"]
        return found

    def _answer(self, method: str, path: str, body: JsonObject | None, query: Query) -> JsonObject:
        given = {name: value for name, value in query.items() if value is not None}
        status, said = self._line.send(method, f"{path}?{urlencode(given)}" if given else path, body)
        match said:
            case dict() if status < 400:
                return said
            case _ if status == 401:
                raise Refused(status, refusal(status, sent=self._line.sends_key), [])
            case {"error": {"message": str(message)} as error}:
                raise Refused(status, message, _problems(error))
            case _:
                raise CommandFailed(f"this is no hall that can be managed: it answered with HTTP status {status}")

    def tools(self, query: Query) -> Iterator[JsonObject]:
        """Every summary, page after page."""
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = self.ask("GET", query={**query, "cursor": cursor})
            yield from page["tools"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return
        raise CommandFailed(f"the list has more than {MOST_PAGES} pages")


@contextlib.contextmanager
def opened(options: HallOptions, *, changing: bool = False, founding: bool = False) -> Generator[Desk, None, None]:
    """The desk of the hall that was named, closed again at the end.

    Only who changes it needs a folder alone, and only who brings the first tools may find none there.
    """
    if options.url and options.data:
        raise WrongUsage("give --url or --data, not both: a running hall, or the folder of one that does not run")
    if options.key is not None and not options.url:
        raise WrongUsage("--key is sent to a running hall; name it with --url, or leave out --key")
    line: Line
    line = (
        RemoteDesk(options.url, options.key)
        if options.url
        else _local(options.data, changing=changing, founding=founding)
    )
    try:
        yield Desk(line)
    except (KeyError, TypeError, msgspec.ValidationError):
        raise CommandFailed("the answer is not one of a hall; is this the right URL?") from None
    finally:
        line.close()


def _local(folder: Path | None, *, changing: bool, founding: bool) -> Line:
    """A whole hall takes longer to import than a running one takes to answer."""
    home = importlib.import_module("toolhall.cli.tools.local")
    line: Line = home.LocalDesk(home.hall_in(folder, founding=founding), changing=changing)
    return line


def _problems(error: dict[Any, Any]) -> list[JsonObject]:
    match error:
        case {"details": {"problems": list(problems)}}:
            return [each for each in problems if isinstance(each, dict)]
        case _:
            return []
