"""What MCP clients are shown of the hall: the list, what a bare name means, and which changes of the list are news."""

from collections.abc import Callable

import msgspec

from toolhall.dialects.mcp.asks import Listing
from toolhall.dialects.mcp.revisions import Revision
from toolhall.dialects.mcp.served import served
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.exchange import CallTool, Page
from toolhall.model.tool import Tool
from toolhall.registry.change import Change, differ
from toolhall.registry.shortlist import Shown, listed_as


class Audience(msgspec.Struct, frozen=True):
    """Everything that decides what a client is shown."""

    caller: Caller
    revision: Revision
    versions: bool = False  # every version of a tool, not only the one that its name means


def page(hall: Hall, caller: Caller, asked: Listing) -> Page:
    """One page of the list; Malformed for a cursor that is none."""
    shown = hall.shortlist.of(hall.registry.snapshot)
    sees = _sees(hall, caller)
    if sees is None:
        return shown.pages(versions=asked.versions).page(asked.cursor)
    made = hall.once(caller, ("pages", asked.versions), lambda: shown.pages_of(sees, versions=asked.versions))
    return made.page(asked.cursor)


def meant(hall: Hall, name: str) -> str:
    """The id of the version that a name in a call means, where that may be another than the newest."""
    if not hall.shortlist.pins:
        return name
    found = hall.shortlist.of(hall.registry.snapshot).names.find(name)
    return name if found is None else found.id


def called(hall: Hall, call: CallTool) -> CallTool:
    """The call of the version that is meant."""
    name = meant(hall, call.tool)
    return call if name == call.tool else msgspec.structs.replace(call, tool=name, asked_name=call.tool)


def hear(hall: Hall, audience: Callable[[], Audience], listener: Callable[[], None]) -> Callable[[], None]:
    """Call `listener` whenever what this client is shown changes, and never else; returns how to end that."""
    return hall.registry.subscribe(listener, lambda change: _is_news(hall, change, audience()))


def _is_news(hall: Hall, change: Change, audience: Audience) -> bool:
    if change.of_sight:  # what was seen before is not known any more, so whoever does not see everything is told
        return not hall.policy.sees_everything(audience.caller)
    before, after = change.once(
        hall.shortlist, lambda: (hall.shortlist.of(change.before), hall.shortlist.of(change.after))
    )
    sees = _sees(hall, audience.caller)
    if sees is not None:
        return _differ(_listed(before, audience, sees), _listed(after, audience, sees), audience.revision)
    # The same for everyone who sees everything, however many they are.
    return change.once(
        (hall.shortlist, audience.revision, audience.versions),
        lambda: _differ(
            before.named(versions=audience.versions), after.named(versions=audience.versions), audience.revision
        ),
    )


def _listed(shown: Shown, audience: Audience, sees: Callable[[Tool], bool]) -> dict[str, Tool]:
    return {name: tool for name, tool in shown.named(versions=audience.versions).items() if sees(tool)}


def _differ(before: dict[str, Tool], after: dict[str, Tool], revision: Revision) -> bool:
    return differ(before, after, lambda name, tool: served(listed_as(name, tool), revision))


def _sees(hall: Hall, caller: Caller) -> Callable[[Tool], bool] | None:
    """Which tools exist for this caller; None for all of them."""
    if hall.policy.sees_everything(caller):
        return None
    return lambda tool: hall.policy.sees(caller, tool)
