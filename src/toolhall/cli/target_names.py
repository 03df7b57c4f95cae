"""TARGET arguments by their spelling, before anything is loaded: `reject_unsupported_target`, `looks_like_target`."""

import importlib.util
import re
from pathlib import Path

from toolhall.cli.errors import UsageError

EXAMPLES_PACKAGE = "toolhall.examples"
DEFINITION_SUFFIXES = (".json", ".jsonl", ".ndjson")
YAML_SUFFIXES = (".yaml", ".yml")
_URL = r"(?i)([a-z][a-z0-9+.-]+://)(?:[^/?#@]*@)?([^?#]*)"  # compiled by `re` when it is first used
_MAX_SNIFFED_BYTES = 65_536


def looks_like_target(word: str) -> bool:
    """Whether a word of a command line names a file, a folder or a module rather than a tool."""
    if (
        word.endswith((".py", ".jsonc", ".toml", *DEFINITION_SUFFIXES, *YAML_SUFFIXES))
        or ".py:" in word
        or is_url(word)
        or Path(word).exists()
    ):
        return True
    package, dot, _ = word.partition(".")
    # A tool id has a dot as well; it is a module only if the package exists.
    return bool(dot) and "@" not in word and package.isidentifier() and _package_exists(package)


def _package_exists(package: str) -> bool:
    return Path(package).is_dir() or Path(f"{package}.py").is_file() or importlib.util.find_spec(package) is not None


def split_target(target: str) -> tuple[str, str, str]:
    """Split `PATH:OBJECT` or `MODULE:OBJECT` at its colon; the colon of a Windows drive is part of the path."""
    file, colon, name = target.partition(".py:")
    if colon:
        return f"{file}.py", colon, name
    return target.partition(":") if not Path(target).exists() else (target, "", "")


def is_url(target: str) -> bool:
    """Whether a target is meant as a URL, also a misspelt one such as http:/host."""
    return re.match(_URL, target) is not None or target.lower().startswith(("http:", "https:"))


def is_resource_uri(word: str) -> bool:
    """Whether a word is a URI that no server is called by, such as shop://orders/17."""
    found = re.match(_URL, word)
    return found is not None and found[1].lower() not in ("http://", "https://", "ws://", "wss://")


def reject_unsupported_target(target: str) -> None:
    """Raise UsageError, with what to do instead, for targets that cannot be served: URLs, YAML, OpenAPI."""
    if found := re.match(_URL, target):
        url = found[1] + found[2]  # without user, password and query, which may be secret
        raise UsageError(
            f"{url} is another server; let a hall offer its tools with 'toolhall add {url}' or a file that lists it,"
            f" or use it where it is with 'toolhall list --url {url}' and 'toolhall call TOOL --url {url}'"
        )
    if is_url(target):
        raise UsageError(f"{target!r} is not a URL; write it like http://127.0.0.1:8000")
    if target.lower().endswith(YAML_SUFFIXES) and Path(target).is_file():
        with Path(target).open("rb") as file:
            start = file.read(_MAX_SNIFFED_BYTES)
        if re.search(rb"(?m)^[\"']?(?:openapi|swagger)[\"']?[ \t]*:", start):
            raise openapi_error(target)
        raise UsageError(f"{target} is YAML, and definitions are read from JSON; write it as JSON")


def openapi_error(file: str) -> UsageError:
    """The error for an OpenAPI document as a target."""
    return UsageError(
        f"{file} describes an HTTP API in OpenAPI, which cannot be served yet;"
        " write a tool that calls the API with ctx.http() and serve that ('toolhall new' starts one)."
        " 'toolhall convert' and 'toolhall list --dialect openapi' write OpenAPI, and do not read it"
    )
