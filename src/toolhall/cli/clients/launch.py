"""The command by which another program starts this Toolhall: absolute, because that program is elsewhere."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from toolhall.cli.clients.known import Process
from toolhall.cli.failure import WrongUsage
from toolhall.cli.serving.privacy import secrets_in
from toolhall.cli.settings import default_folder
from toolhall.config import FILE_NAME

_PROGRAM = "toolhall"
_UV_CACHES = {"archive-v0", "environments-v2"}  # where uvx makes environments that it may remove again
_PREFIX = "TOOLHALL_"
_MOST_NAME = 40


def stdio_server(
    targets: Sequence[str], data: Path | None, config: Path | None, environment: Mapping[str, str]
) -> Process:
    """How a client starts `toolhall serve TARGETS --stdio` as it would run here and now.

    Settings in the environment go along, except for those that are secrets.
    """
    command, *args = program()
    words = [*args, "serve", *map(absolute_target, targets), "--stdio"]
    stated = data or (Path(environment["TOOLHALL_DATA"]) if environment.get("TOOLHALL_DATA") else None)
    if stated is None and not (targets and Path(words[len(args) + 1]).is_absolute()):
        stated = default_folder(targets)  # which from elsewhere would be another one
    file = config or (Path(FILE_NAME) if Path(FILE_NAME).is_file() else None)
    words += ["--data", str(stated.absolute())] if stated else []
    words += ["--config", str(file.absolute())] if file else []
    left_out = {*secrets_in(environment), "TOOLHALL_DATA"}
    kept = {name: value for name, value in environment.items() if name.startswith(_PREFIX) and name not in left_out}
    return Process(command, words, {name: value for name, value in kept.items() if not name.endswith("_FILE")})


def program() -> list[str]:
    """The words that start this program from anywhere."""
    if _UV_CACHES & set(Path(sys.prefix).parts):
        return [shutil.which("uvx") or "uvx", *_from_where(), _PROGRAM]
    script = Path(sys.argv[0])
    if script.stem == _PROGRAM and script.is_file() and os.access(script, os.X_OK):
        return [str(script.absolute())]
    return [sys.executable, "-P", "-m", "toolhall.cli"]


def absolute_target(target: str) -> str:
    """A target that means the same from every working folder."""
    file, colon, name = target.partition(".py:")
    place, ending = (f"{file}.py", f":{name}") if colon else (target, "")
    if Path(place).exists():
        return f"{Path(place).absolute()}{ending}"
    if place.endswith((".py", ".json", ".jsonl")):
        raise WrongUsage(f"there is no file {place}; give a file, a folder or a module that defines tools")
    module, colon, name = target.partition(":")
    below = Path.cwd().joinpath(*module.split("."))
    ending = f"{colon}{name}"
    if below.with_name(f"{below.name}.py").is_file():
        return f"{below.with_name(f'{below.name}.py')}{ending}"
    if ending and (below / "__init__.py").is_file():
        return f"{below / '__init__.py'}{ending}"
    return target if ending or not below.is_dir() else str(below)


def default_name(targets: Sequence[str]) -> str:
    """What the server is called in a client's file: the name of its first target."""
    place = targets[0].partition(".py:")[0].partition(":")[0] if targets else _PROGRAM
    stem = Path(place).absolute().name.removesuffix(".py").rpartition(".")[2] if targets else _PROGRAM
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:_MOST_NAME] or _PROGRAM


def _from_where() -> list[str]:
    """What uvx installed it from, unless that is the package index."""
    written = distribution(_PROGRAM).read_text("direct_url.json")
    if written is None:
        return []
    found: dict[str, Any] = json.loads(written)
    url, source = str(found.get("url", "")), found.get("vcs_info")
    if isinstance(source, dict):
        url = f"{source.get('vcs', 'git')}+{url}@{source.get('commit_id')}"
    return ["--from", f"{_PROGRAM} @ {url}"] if url else []
