"""A tool and what the store keeps of it, one from the other."""

import msgspec

from toolhall.contracts.digest import digests
from toolhall.dialects import exact, strict
from toolhall.dialects.catalogs import readable
from toolhall.model.json import Json, encode
from toolhall.model.tool import Tool
from toolhall.stores.base import Kept, Origin, State

OWN = "toolhall"  # the dialect of tools that are code: the model itself

_decode = msgspec.json.Decoder(Tool).decode


class Source(msgspec.Struct, frozen=True):
    """Where tools come from, and who brings them when."""

    origin: Origin
    by: str
    at: float
    detail: str = ""


def own_papers(tool: Tool, source: Source) -> Kept:
    """What is kept of a tool of the operator's own code."""
    return _papers(tool, OWN, msgspec.json.encode(tool), 0, source)


def foreign_papers(document: Json, tools: tuple[Tool, ...], dialect: str, source: Source) -> list[Kept]:
    """What is kept of the tools of a document; each holds the whole of it, as it came."""
    body = encode(document)
    return [_papers(tool, dialect, body, number, source) for number, tool in enumerate(tools)]


def read_definition(document: Json, dialect: str) -> tuple[Tool, ...]:
    """The tools of a document from outside; BadDocument with every finding."""
    return tuple(msgspec.structs.replace(tool, foreign=True) for tool in exact.read(document, readable(dialect)))


def tool_of(kept: Kept) -> Tool:
    """The tool that these papers are about."""
    if kept.dialect == OWN:
        return _decode(kept.document)
    return read_definition(strict.decode(kept.document), kept.dialect)[kept.number]


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
        state=state,
        origin=source.origin,
        origin_detail=source.detail,
        by=source.by,
        registered_at=source.at,
        changed_at=source.at,
        shown_digest=digest.shown,
        contract_digest=digest.contract,
    )
