"""The tools that a file defines, whatever dialect each document is in."""

from toolhall.cli.documents.opening import opened
from toolhall.cli.documents.spotted import Spotted
from toolhall.cli.documents.text import BadJson, Text, decoded
from toolhall.cli.failure import CommandFailed
from toolhall.dialects import exact
from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import CATALOGS, readable
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.restore import restore
from toolhall.model.json import Json
from toolhall.model.tool import Tool


def tools_in(file: str, source: str | None) -> list[Tool]:
    """All tools of a file, in the dialect named or the one each document looks like; one line says what is wrong."""
    tools: list[Tool] = []
    text = Text(0, 1, b"")
    with opened(file) as found:
        try:
            for text in found.documents().texts:
                tools += _tools(decoded(text), source)
        except BadDocument as bad:
            line = bad.line if isinstance(bad, BadJson) else text.line
            first = Spotted(found.name, line, text.index, bad.findings[0])
            raise CommandFailed(f"{first}; 'toolhall lint' lists all problems") from None
    return tools


def _tools(document: Json, source: str | None) -> tuple[Tool, ...]:
    catalog = detected(document) if source is None else readable(source)
    piece = restore(document, catalog, CATALOGS) if isinstance(document, dict) else None
    if piece is None:
        return _read(document, catalog)
    origin = CATALOGS[piece.source]
    return tuple(tool for each in piece.originals(origin) for tool in _read(each, origin))


def _read(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """With what only its dialect knows; a schema that cannot be used can still be compared."""
    try:
        return exact.read(document, catalog)
    except BadDocument:
        return catalog.read(document)
