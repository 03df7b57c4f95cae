"""One tool as every dialect shows it, and where they differ."""

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.sources.offer import Offer, Source
from toolhall.dialects.catalog import Loss
from toolhall.dialects.mcp.revisions import REVISIONS
from toolhall.model.json import JsonObject, encode

_REVISIONS = tuple(f"mcp@{name}" for name in REVISIONS)
_DIALECTS = (*_REVISIONS, "machine", "hub", "oxp", "openapi", "openai", "anthropic", "gemini")


class Inspected(msgspec.Struct, frozen=True):
    """A tool, how each dialect shows it, and what it cannot say."""

    offer: Offer
    views: dict[str, JsonObject]
    losses: dict[str, list[Loss]]

    @property
    def revisions(self) -> dict[str, JsonObject]:
        """How the revisions of MCP show it, which can be compared member by member."""
        return {dialect: view for dialect, view in self.views.items() if dialect in _REVISIONS}

    @property
    def others(self) -> dict[str, JsonObject]:
        """How every other dialect shows it."""
        return {dialect: view for dialect, view in self.views.items() if dialect not in _REVISIONS}

    def differences(self) -> list[JsonObject]:
        """The members that not every revision of MCP shows alike; one that leaves it out has no value there."""
        members = dict.fromkeys(name for view in self.revisions.values() for name in view)
        return [
            {
                "path": f"/{name}",
                "values": {dialect: view[name] for dialect, view in self.revisions.items() if name in view},
            }
            for name in members
            if not self.is_same(name)
        ]

    def is_same(self, member: str) -> bool:
        """Whether every revision of MCP shows this member alike."""
        return len({encode(view[member]) if member in view else b"" for view in self.revisions.values()}) == 1

    def document(self) -> JsonObject:
        """What `inspect --json` prints."""
        extra = {
            name: getattr(self.offer, name) for name in ("annotations", "tags", "timeout", "requirements", "versions")
        }
        shown = {"views": self.views, "losses": self.losses, "differences": self.differences()}
        return {**self.offer.summary(), **extra, **shown}


def inspected(source: Source, offers: list[Offer]) -> list[Inspected]:
    """These tools, each with every view of it that the source has."""
    return [_inspect(source, offer) for offer in offers]


def _inspect(source: Source, offer: Offer) -> Inspected:
    found = Inspected(offer, {}, {})
    for dialect in _DIALECTS:
        try:
            written = source.written(dialect, offer)
        except CommandFailed:  # an older or a newer server
            continue
        if written.documents:
            found.views[dialect] = written.documents[0]
            found.losses[dialect] = written.losses
    return found
