"""One tool as every dialect shows it, and where they differ."""

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.source import dialect_of
from toolhall.cli.sources.offer import Offer, Source
from toolhall.dialects.mcp.revisions import REVISIONS
from toolhall.model.json import JsonObject, encode


class Inspected(msgspec.Struct, frozen=True):
    """A tool, and how each dialect shows it."""

    offer: Offer
    views: dict[str, JsonObject]

    def differences(self) -> list[JsonObject]:
        """The members that not every dialect shows alike; one that a dialect leaves out has no value there."""
        members = dict.fromkeys(name for view in self.views.values() for name in view)
        return [
            {
                "path": f"/{name}",
                "values": {dialect: view[name] for dialect, view in self.views.items() if name in view},
            }
            for name in members
            if not self.is_same(name)
        ]

    def is_same(self, member: str) -> bool:
        """Whether every dialect shows this member alike."""
        return len({encode(view[member]) if member in view else b"" for view in self.views.values()}) == 1

    def document(self) -> JsonObject:
        """What `inspect --json` prints."""
        extra = {"annotations": self.offer.annotations, "tags": self.offer.tags, "timeout": self.offer.timeout}
        return {**self.offer.summary(), **extra, "views": self.views, "differences": self.differences()}


def inspected(source: Source, offers: list[Offer]) -> list[Inspected]:
    """These tools, each with every view of it that the source has."""
    views: dict[str, dict[str, JsonObject]] = {}
    for revision in REVISIONS:
        try:
            documents = source.documents(revision)
        except CommandFailed:  # an older or a newer server
            continue
        views[dialect_of(revision)] = {str(document.get("name")): document for document in documents}
    return [
        Inspected(offer, {dialect: tools[offer.name] for dialect, tools in views.items() if offer.name in tools})
        for offer in offers
    ]
