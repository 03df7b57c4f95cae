"""Definitions files as targets: what they define is proposed to the hall, and nothing runs it yet."""

from collections.abc import Iterator

from toolhall.cli.documents.opening import opened
from toolhall.cli.documents.text import decoded
from toolhall.cli.failure import CommandFailed
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument
from toolhall.registrar.papers import Paper

SUFFIXES = (".json", ".jsonl", ".ndjson")


def load_definitions(file: str) -> Iterator[Paper]:
    """Every document of a file, in whatever dialect it is written."""
    with opened(file) as source:
        try:
            for text in source.documents().texts:
                document = decoded(text)
                paper = Paper(document, detected(document).name, file)
                if paper.tools:  # read now, while the file's name is known
                    yield paper
        except BadDocument as bad:
            raise CommandFailed(f"{file}: {bad.findings[0]}; 'toolhall lint {file}' shows everything") from None
