"""Tools of a definitions file: they are listed in every dialect, and nothing runs them yet."""

from collections.abc import Iterator

import msgspec

from toolhall.cli.documents.opening import opened
from toolhall.cli.documents.text import decoded
from toolhall.cli.failure import CommandFailed
from toolhall.dialects import exact
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument
from toolhall.model.tool import Tool

SUFFIXES = (".json", ".jsonl", ".ndjson")


def load_definitions(file: str) -> Iterator[Tool]:
    """Every tool that the documents of a file define, in whatever dialect each is written."""
    with opened(file) as source:
        try:
            for text in source.documents().texts:
                document = decoded(text)
                for tool in exact.read(document, detected(document)):
                    yield msgspec.structs.replace(tool, foreign=True)
        except BadDocument as bad:
            raise CommandFailed(f"{file}: {bad.findings[0]}; 'toolhall lint {file}' shows everything") from None
