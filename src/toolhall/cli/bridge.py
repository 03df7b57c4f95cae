"""The bridge: `toolhall serve mcp.json --join URL` makes the tools of upstreams those of a tool server.

Commands run on this machine, which has the files. A hall in this process reaches the upstreams, keeps their definitions
with computed versions in the project's data folder, and holds what changed until somebody looked; what it serves is
declared to the hall that is joined. Secrets and headers are those of this machine: none is asked of the other hall.

A call that comes over the bridge cannot be asked a question: the hall that was joined would repeat the call with the
answer, and whatever it did before at its upstream would be done twice.
"""

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from toolhall.app import Toolhall
from toolhall.app.data_dir import OpenOptions
from toolhall.authoring.context import PausableDeadline
from toolhall.cli.errors import CommandError
from toolhall.cli.output import note, visible
from toolhall.cli.upstream_files import UpstreamFile, give_upstreams, wait_listed
from toolhall.config import Config
from toolhall.model.errors import Unsupported
from toolhall.model.json import JsonObject
from toolhall.model.messages import Answered, Call, CallEvent, ClientLink, Question, required_feature
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Entry, Runner


@asynccontextmanager
async def bridged(files: Sequence[UpstreamFile], config: Config) -> AsyncGenerator[list[Entry]]:
    """Reach the upstreams of these files, and yield what they offer; raises CommandError if that is nothing."""
    if not files:
        yield []
        return
    with Toolhall(config=config) as hall:
        hall.without_pages()
        for problem in give_upstreams(hall, files):
            note(visible(problem))
        await hall.open(OpenOptions(role="peer", tools_optional=True))
        try:
            await wait_listed(hall)
            yield _entries(hall)
        finally:
            await hall.settle()


def _entries(hall: Toolhall) -> list[Entry]:
    offered = hall.upstreams.offered
    found = [each for each in hall.registry.snapshot.all_entries if each.tool.id.toolkit in offered]
    served = [_bridged_entry(each) for each in found if each.held is None and not _needs_account(hall, each)]
    for each in found:
        if each.held is not None:
            note(visible(f"{each.id} is left out: {each.held}; 'toolhall upstream review {each.tool.id.toolkit}'"))
    if not served:
        raise CommandError("none of the servers offers a tool now; 'toolhall upstream check NAME' says what is wrong")
    return served


def _needs_account(hall: Toolhall, entry: Entry) -> bool:
    settings = hall.upstreams.settings_of(entry.tool.id.toolkit)
    if settings is None or settings.auth != "oauth":
        return False
    note(visible(f"{entry.id} is left out: accounts of users are not passed on; name its URL in the other hall"))
    return True


def _bridged_entry(entry: Entry) -> Entry:
    tool = msgspec.structs.replace(entry.tool, requirements=None)
    return msgspec.structs.replace(entry, tool=tool, runner=_BridgedRunner(entry.runner), requirements=None)


class _BridgedRunner:
    """Runs a tool of an upstream for a call that came over the bridge."""

    is_interactive = True

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Run it; the caller hears its events and is not asked."""
        link = _EventsLink(call.link)
        return self._runner.run(tool, msgspec.structs.replace(call, link=link), arguments, deadline)


class _EventsLink:
    """Passes events on, and asks nothing."""

    def __init__(self, link: ClientLink) -> None:
        self._link = link

    def emit(self, event: CallEvent) -> None:
        """ClientLink: tell the hall that was joined."""
        self._link.emit(event)

    def can(self, feature: str) -> bool:  # noqa: ARG002 - whatever it is
        """ClientLink: nothing can be asked."""
        return False

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """ClientLink: refuse."""
        raise Unsupported(next(map(required_feature, questions.values()), "elicitation"))

    async def detach(self, retry_ms: int) -> None:
        """ClientLink: stay."""
