"""Tools and registrable documents of definition files in any dialect; rejects targets that cannot be served."""

import re
from collections.abc import Iterator
from pathlib import Path

from toolhall.cli.documents.reader import InvalidJson, LocatedFinding, RawDocument, decode_document, open_documents
from toolhall.cli.errors import CommandError, UsageError
from toolhall.dialects.base import Catalog
from toolhall.dialects.catalogs import CATALOGS, detect_dialect, readable_catalog
from toolhall.dialects.convert import lossless
from toolhall.dialects.convert.translate import restore
from toolhall.dialects.findings import BadDocument
from toolhall.model.json import Json
from toolhall.model.tool import Tool
from toolhall.registration.records import DefinitionDocument


def read_tools(file: str, source: str | None) -> list[Tool]:
    """All tools of a file, in the dialect named or the one each document looks like; one line says what is wrong."""
    tools: list[Tool] = []
    text = RawDocument(0, 1, b"")
    with open_documents(file) as found:
        try:
            for text in found.documents().texts:
                tools += _tools_of(decode_document(text), source)
        except BadDocument as bad:
            line = bad.line if isinstance(bad, InvalidJson) else text.line
            first = LocatedFinding(found.name, line, text.index, bad.findings[0])
            raise CommandError(f"{first}; 'toolhall lint' lists all problems") from None
    return tools


def _tools_of(document: Json, source: str | None) -> tuple[Tool, ...]:
    catalog = detect_dialect(document) if source is None else readable_catalog(source)
    piece = restore(document, catalog, CATALOGS) if isinstance(document, dict) else None
    if piece is None:
        return _read_document(document, catalog)
    origin = CATALOGS[piece.source]
    return tuple(tool for each in piece.originals(origin) for tool in _read_document(each, origin))


def _read_document(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """With what only its dialect knows; a schema that cannot be used can still be compared."""
    try:
        return lossless.read(document, catalog)
    except BadDocument:
        return catalog.read(document)


DEFINITION_SUFFIXES = (".json", ".jsonl", ".ndjson")
YAML_SUFFIXES = (".yaml", ".yml")
_URL = re.compile(r"(?i)([a-z][a-z0-9+.-]+://)(?:[^/?#@]*@)?([^?#]*)")
_OPENAPI_KEYS = ("openapi", "swagger")
_MAX_SNIFFED_BYTES = 65_536
_NO_GATEWAY = "the gateway that will serve its tools is not there yet"


def is_url(target: str) -> bool:
    """Whether a target is meant as the URL of a server; it may be misspelt, such as http:/host."""
    return _URL.match(target) is not None or target.lower().startswith(("http:", "https:"))


def reject_unsupported_target(target: str) -> None:
    """Say what a target is that cannot be served yet, and what can be done now; nothing for any other."""
    if found := _URL.match(target):
        url = found[1] + found[2]  # a user, a password or a query may be nobody's business
        raise UsageError(
            f"{url} is another server, and {_NO_GATEWAY}; use it where it is with 'toolhall list --url {url}' and"
            f" 'toolhall call TOOL --url {url}', or take its definitions with"
            f" 'toolhall list --url {url} --dialect mcp' and 'toolhall convert'"
        )
    if is_url(target):
        raise UsageError(f"{target!r} is not a URL; write it like http://127.0.0.1:8000")
    if target.lower().endswith(YAML_SUFFIXES) and Path(target).is_file():
        with Path(target).open("rb") as file:
            start = file.read(_MAX_SNIFFED_BYTES)
        if re.search(rb"(?m)^[\"']?(?:openapi|swagger)[\"']?[ \t]*:", start):
            raise _openapi_error(target)
        raise UsageError(f"{target} is YAML, and definitions are read from JSON; write it as JSON")


def _openapi_error(file: str) -> UsageError:
    return UsageError(
        f"{file} describes an HTTP API in OpenAPI, and {_NO_GATEWAY}; write a tool that calls the API with ctx.http()"
        " and serve that ('toolhall new' starts one). 'toolhall convert' and 'toolhall list --dialect openapi' write"
        " OpenAPI, and do not read it"
    )


def load_definitions(file: str) -> Iterator[DefinitionDocument]:
    """Every document of a file, in whatever dialect it is written."""
    with open_documents(file) as source:
        try:
            for text in source.documents().texts:
                document = decode_document(text)
                if isinstance(document, dict) and any(key in document for key in _OPENAPI_KEYS):
                    raise _openapi_error(file)
                paper = DefinitionDocument(document, detect_dialect(document).name, file)
                if paper.tools:  # read now, while the file's name is known
                    yield paper
        except BadDocument as bad:
            raise CommandError(f"{file}: {bad.findings[0]}; 'toolhall lint {file}' shows everything") from None
