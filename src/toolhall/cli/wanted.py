"""The tool that a command names: the one that is offered, or why it is not."""

from collections.abc import Sequence

from toolhall.cli.failure import CommandFailed
from toolhall.cli.sources.offer import Offer, Source, find_offer, nearest


def wanted_offer(source: Source, offers: Sequence[Offer], wanted: str) -> Offer:
    """The tool with this name or id; one that is held back is said to be so, and a near miss names the nearest."""
    found = find_offer(offers, wanted)
    if found:
        return found
    reason = source.why_not(wanted)
    if reason:
        raise CommandFailed(reason)
    near = nearest(offers, wanted)
    hint = f"did you mean {near!r}?" if near else "see the names with 'toolhall list'"
    raise CommandFailed(f"there is no tool {wanted!r}; {hint}")
