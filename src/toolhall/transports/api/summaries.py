"""What is told of a registered tool; every text in it is data, whatever it says."""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice

import msgspec

from toolhall.dialects import exact, strict
from toolhall.dialects.catalogs import readable
from toolhall.dialects.lint.linter import Linter
from toolhall.model.json import Json, JsonObject
from toolhall.model.levels import level_of
from toolhall.registrar.papers import OWN, tool_of
from toolhall.registrar.registrar import Registrar
from toolhall.stores.base import Event, Kept

MOST_FINDINGS = 1_000


def summary(kept: Kept, registrar: Registrar) -> JsonObject:
    """One tool, without its document."""
    return _summary(kept, kept.document_digest, registrar)


def summaries(several: Iterable[Kept], registrar: Registrar) -> Iterator[JsonObject]:
    """One for each; the tools of one document come together, and its digest is made once."""
    document, digest = b"", ""
    for kept in several:
        if kept.document is not document:
            document, digest = kept.document, kept.document_digest
        yield _summary(kept, digest, registrar)


def _summary(kept: Kept, digest: str, registrar: Registrar) -> JsonObject:
    tool = registrar.tool(kept)
    return {
        "id": kept.id,
        "toolkit": kept.toolkit,
        "tool": kept.tool,
        "version": kept.version,
        "name": tool.name,
        "title": tool.title,
        "state": kept.state,
        "origin": kept.origin,
        "originDetail": kept.origin_detail,
        "by": kept.by,
        "registeredAt": moment(kept.registered_at),
        "changedAt": moment(kept.changed_at),
        "deprecatedAt": None if kept.deprecated_at is None else moment(kept.deprecated_at),
        "sunset": kept.sunset,
        "successor": kept.successor,
        "dialect": kept.dialect,
        "digests": {"shown": kept.shown_digest, "contract": kept.contract_digest, "document": digest},
        "served": registrar.serves(kept),
        "effectiveLevel": level_of(tool, registrar.levels),
    }


def event(happened: Event) -> JsonObject:
    """One line of a history."""
    return {
        "at": moment(happened.at),
        "by": happened.by,
        "id": happened.id,
        "what": happened.what,
        "detail": happened.detail,
    }


def moment(seconds: float) -> str:
    """A time in UTC, as ISO 8601 writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def findings_of(kept: Kept, beside: Collection[str]) -> list[JsonObject]:
    """What lint says of a tool's document; a tool of the operator's own code is looked at as MCP shows it."""
    if kept.dialect == OWN:
        mcp = readable("mcp")
        return findings(exact.write((tool_of(kept),), mcp), mcp.name, beside)
    return findings(strict.decode(kept.document), kept.dialect, beside)


def findings(document: Json, dialect: str, beside: Collection[str]) -> list[JsonObject]:
    """What lint says of a document, whose every text a model may get to read beside tools of these names."""
    linter = Linter[None](dialect)
    found = chain(linter.lint(document, "", None), (each for _, each in linter.finish(beside)))
    return [msgspec.structs.asdict(each) for each in islice(found, MOST_FINDINGS)]
