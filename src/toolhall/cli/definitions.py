"""Definitions files as targets: what they define is proposed to the hall, and nothing runs it yet."""

import re
from collections.abc import Iterator
from pathlib import Path

from toolhall.cli.documents.opening import opened
from toolhall.cli.documents.text import decoded
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument
from toolhall.registrar.papers import Paper

SUFFIXES = (".json", ".jsonl", ".ndjson")
YAML = (".yaml", ".yml")
_URL = re.compile(r"(?i)([a-z][a-z0-9+.-]+://)(?:[^/?#@]*@)?([^?#]*)")
_OPENAPI = ("openapi", "swagger")
_MOST_READ = 65_536
_NO_GATEWAY = "the gateway that will serve its tools is not there yet"


def is_url(target: str) -> bool:
    """Whether a target is meant as the URL of a server; it may be misspelt, such as http:/host."""
    return _URL.match(target) is not None or target.lower().startswith(("http:", "https:"))


def refuse_unserved(target: str) -> None:
    """Say what a target is that cannot be served yet, and what can be done now; nothing for any other."""
    if found := _URL.match(target):
        url = found[1] + found[2]  # a user, a password or a query may be nobody's business
        raise WrongUsage(
            f"{url} is another server, and {_NO_GATEWAY}; use it where it is with 'toolhall list --url {url}' and"
            f" 'toolhall call TOOL --url {url}', or take its definitions with"
            f" 'toolhall list --url {url} --dialect mcp' and 'toolhall convert'"
        )
    if is_url(target):
        raise WrongUsage(f"{target!r} is not a URL; write it like http://127.0.0.1:8000")
    if target.lower().endswith(YAML) and Path(target).is_file():
        with Path(target).open("rb") as file:
            start = file.read(_MOST_READ)
        if re.search(rb"(?m)^[\"']?(?:openapi|swagger)[\"']?[ \t]*:", start):
            raise _openapi(target)
        raise WrongUsage(f"{target} is YAML, and definitions are read from JSON; write it as JSON")


def _openapi(file: str) -> WrongUsage:
    return WrongUsage(
        f"{file} describes an HTTP API in OpenAPI, and {_NO_GATEWAY}; write a tool that calls the API with ctx.http()"
        " and serve that ('toolhall new' starts one). 'toolhall convert' and 'toolhall list --dialect openapi' write"
        " OpenAPI, and do not read it"
    )


def load_definitions(file: str) -> Iterator[Paper]:
    """Every document of a file, in whatever dialect it is written."""
    with opened(file) as source:
        try:
            for text in source.documents().texts:
                document = decoded(text)
                if isinstance(document, dict) and any(key in document for key in _OPENAPI):
                    raise _openapi(file)
                paper = Paper(document, detected(document).name, file)
                if paper.tools:  # read now, while the file's name is known
                    yield paper
        except BadDocument as bad:
            raise CommandFailed(f"{file}: {bad.findings[0]}; 'toolhall lint {file}' shows everything") from None
