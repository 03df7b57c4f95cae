"""The tools of a source as a lock holds them: by what its MCP clients are shown, never by another listing it has."""

from collections.abc import Callable

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import visible
from toolhall.cli.sources.offer import Source, Unspoken
from toolhall.contracts.digest import Digests, digests, former_digests
from toolhall.contracts.lockfile import Lock, Twice, locked
from toolhall.contracts.pinned import pinned
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.mcp.revisions import SUPPORTED
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Tool


def locked_now(source: Source) -> Lock:
    """The digests of every tool that the source shows now."""
    return _locked(_shown(source), digests)


def locked_both(source: Source) -> tuple[Lock, Lock]:
    """The same, and the digests that locks of older versions have of the same tools."""
    documents = _shown(source)
    return _locked(documents, digests), _locked(documents, former_digests)


def _locked(documents: list[JsonObject], digest: Callable[[Tool], Digests]) -> Lock:
    try:
        return locked(_pinned(document, digest) for document in documents)
    except Twice as twice:
        raise CommandFailed(f"{visible(str(twice))}; rename one of them") from None


def _shown(source: Source) -> list[JsonObject]:
    """The definitions in the newest revision that the source speaks; another one would show other definitions."""
    for revision in SUPPORTED:
        try:
            shown = source.written(f"mcp@{revision}")
        except Unspoken:
            continue
        for unsaid in shown.refused:
            raise CommandFailed(f"MCP cannot say {unsaid.tool}: {unsaid.reasons[0]}")
        return shown.documents
    raise CommandFailed(f"{source.where} speaks no revision of MCP that can be read here: {', '.join(SUPPORTED)}")


def _pinned(document: Json, digest: Callable[[Tool], Digests]) -> tuple[str, Digests]:
    try:
        # A definition in this process is taken as a client would get it.
        return pinned(msgspec.json.decode(encode(document)), digest)
    except BadDocument as bad:
        name = visible(str(document.get("name"))[:128])
        raise CommandFailed(f"the definition of {name} cannot be read: {visible(bad.message)}") from None
