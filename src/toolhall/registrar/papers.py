"""A tool and what the store keeps of it, one from the other."""

from dataclasses import dataclass
from functools import cached_property

import msgspec

from toolhall.contracts.changes import Kind
from toolhall.contracts.digest import Digests, digests, former_digests
from toolhall.dialects.catalogs import readable
from toolhall.model.json import Json, encode
from toolhall.model.tool import Deprecation, Tool
from toolhall.registrar import foreign
from toolhall.stores.base import Kept, Origin, State

OWN = "toolhall"  # the dialect of tools that are code: the model itself

_decode = msgspec.json.Decoder(Tool).decode


class Tampered(Exception):
    """What the store holds is not what was registered; the message is for the log."""


class Source(msgspec.Struct, frozen=True):
    """Where tools come from, who brings them when, and what their author says of the change beyond the definition."""

    origin: Origin
    by: str
    at: float
    detail: str = ""
    behaviour: Kind | None = None


@dataclass(frozen=True)
class Paper:
    """One document with definitions, as it came; it is read once."""

    document: Json
    dialect: str
    detail: str = ""  # the file it is from

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """What it defines; BadDocument with every finding."""
        return read_definition(self.document, self.dialect)


def own_papers(tool: Tool, source: Source) -> Kept:
    """What is kept of a tool of the operator's own code."""
    return _papers(tool, OWN, own_document(tool), 0, source)


def own_document(tool: Tool) -> bytes:
    """A tool of the operator's own code, as it is kept."""
    return msgspec.json.encode(tool)


def foreign_papers(paper: Paper, tools: tuple[Tool, ...], source: Source) -> list[Kept]:
    """What is kept of the tools of a document; each holds the whole of it, as it came."""
    body = encode(paper.document)
    return [_papers(tool, paper.dialect, body, number, source) for number, tool in enumerate(tools)]


def read_definition(document: Json, dialect: str) -> tuple[Tool, ...]:
    """The tools of a document from outside; BadDocument with every finding."""
    return foreign.read(document, readable(dialect))


def tool_of(kept: Kept) -> Tool:
    """The tool that these papers are about; raises Tampered if it is not what was registered."""
    try:
        tool = _decode(kept.model or kept.document)
    except msgspec.DecodeError as error:
        raise Tampered(f"{kept.id} cannot be read from the store: {error}") from None
    # The digests do not cover whose tool it is; the operator's own code is trusted with more.
    whole = (str(tool.id), tool.foreign) == (kept.id, kept.dialect != OWN)
    stated = Digests(kept.shown_digest, kept.contract_digest)
    if not whole or (digests(tool) != stated and former_digests(tool) != stated):
        raise Tampered(f"{kept.id} is not what was registered under that id")
    return deprecated(tool, kept)


def renewed(kept: Kept, tool: Tool) -> Kept:
    """The papers of a tool with the digests that it has today, so that it can be compared with what comes now."""
    if b'"prefixItems"' not in (kept.model or kept.document):  # nothing else has other digests today
        return kept
    found = digests(tool)
    return msgspec.structs.replace(kept, shown_digest=found.shown, contract_digest=found.contract)


def deprecated(tool: Tool, kept: Kept) -> Tool:
    """The tool with what its papers say of its end."""
    said = None
    if kept.deprecated_at is not None:
        said = Deprecation(since=int(kept.deprecated_at), sunset=kept.sunset, successor=kept.successor)
    return tool if tool.deprecation == said else msgspec.structs.replace(tool, deprecation=said)


def _papers(tool: Tool, dialect: str, document: bytes, number: int, source: Source) -> Kept:
    digest = digests(tool)
    state: State = "quarantined" if tool.foreign else "active"
    return Kept(
        toolkit=tool.id.toolkit,
        tool=tool.id.tool,
        version=tool.id.version,
        dialect=dialect,
        document=document,
        number=number,
        model=b"" if dialect == OWN else msgspec.json.encode(tool),
        state=state,
        origin=source.origin,
        origin_detail=source.detail,
        by=source.by,
        registered_at=source.at,
        changed_at=source.at,
        shown_digest=digest.shown,
        contract_digest=digest.contract,
    )
